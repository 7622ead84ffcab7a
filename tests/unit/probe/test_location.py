"""The location that the GPU drivers of a node report."""

from dataclasses import replace

import pytest

from launcher.core.discovery.location import NodeLocation
from launcher.probe.location import read_location
from launcher.probe.nvidia.nvidia_smi import Driver, Gpu
from launcher.probe.results import Unknown
from tests.facts import DOMAIN, DRIVER, FACTS, HUNG, UUID


def told(*gpus: Gpu, **of_all: object) -> NodeLocation:
    shown = gpus or tuple(replace(gpu, **of_all) for gpu in DRIVER.gpus)
    found = read_location(replace(FACTS, driver=Driver(version="580", gpus=shown)))
    assert isinstance(found, NodeLocation)
    return found


def test_location_is_what_all_gpus_report() -> None:
    found = told(chassis="1821124190012", tray=4)
    assert (found.chassis, found.tray, found.domain, found.gpus) == ("1821124190012", 4, DOMAIN, 4)
    assert (found.accelerator, found.rack) == ("GB300", "1821124190012")


@pytest.mark.parametrize("serial", ["N/A", "0", "0000000", "Unknown", "-x", "a b", None, "x" * 70])
def test_invalid_serial_is_ignored_and_the_cluster_uuid_names_the_rack(serial: str | None) -> None:
    found = told(chassis=serial)
    assert (found.chassis, found.rack) == (None, UUID)


def test_values_that_differ_between_gpus_are_ignored() -> None:
    first, *rest = DRIVER.gpus
    assert told(replace(first, tray=1, chassis="A"), *(replace(gpu, tray=2, chassis="B") for gpu in rest)).tray is None
    assert told(replace(first, chassis="A"), *(replace(gpu, chassis="B") for gpu in rest)).chassis is None


def test_lost_gpu_is_ignored() -> None:
    first, *rest = (replace(gpu, tray=3) for gpu in DRIVER.gpus)
    found = told(replace(first, tray=None, lost="GPU is lost"), *rest)
    assert (found.tray, found.gpus) == (3, 3)


def test_product_name_of_several_words_is_not_an_accelerator() -> None:
    assert told(name="NVIDIA H100 80GB HBM3").accelerator is None


def test_location_is_unknown_without_driver_or_gpus() -> None:
    assert read_location(replace(FACTS, driver=HUNG)) == HUNG
    fault = read_location(replace(FACTS, driver=Driver(fault="No devices were found")))
    assert fault == Unknown(why="No devices were found")
