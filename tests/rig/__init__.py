"""The rack rig: racks of real hosts on one machine, each with its own network, processes, disk, name and sshd."""

from tests.rig.errors import RigError
from tests.rig.hardware import Gpu, Hardware
from tests.rig.host import Host
from tests.rig.inside import Process
from tests.rig.plan import Sizes
from tests.rig.rig import LAUNCHER, Rig

__all__ = ["LAUNCHER", "Gpu", "Hardware", "Host", "Process", "Rig", "RigError", "Sizes"]
