"""nvlaunch: launches jobs as rack-local slices on racks of GB200/GB300 NVL72, and keeps them there."""

__version__ = "0.4.1"
