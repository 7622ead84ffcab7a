"""Where a node is, of what its drivers say: nothing where they do not say it, or do not agree."""

from dataclasses import replace

import pytest

from launcher.core.discovery.location import NodeLocation
from launcher.probe.answer import Unknown
from launcher.probe.nvidia_smi import Driver, Gpu
from launcher.probe.whereabouts import whereabouts
from tests.facts import DOMAIN, DRIVER, FACTS, HUNG, UUID


def told(*gpus: Gpu, **of_all: object) -> NodeLocation:
    shown = gpus or tuple(replace(gpu, **of_all) for gpu in DRIVER.gpus)
    found = whereabouts(replace(FACTS, driver=Driver(version="580", gpus=shown)))
    assert isinstance(found, NodeLocation)
    return found


def test_chassis_tray_and_domain_are_those_that_all_gpus_tell() -> None:
    found = told(chassis="1821124190012", tray=4)
    assert (found.chassis, found.tray, found.domain, found.gpus) == ("1821124190012", 4, DOMAIN, 4)
    assert (found.accelerator, found.rack) == ("GB300", "1821124190012")


@pytest.mark.parametrize("serial", ["N/A", "0", "0000000", "Unknown", "-x", "a b", None, "x" * 70])
def test_a_serial_that_is_none_is_not_told_and_the_cluster_names_the_rack(serial: str | None) -> None:
    found = told(chassis=serial)
    assert (found.chassis, found.rack) == (None, UUID)


def test_gpus_that_do_not_agree_tell_nothing() -> None:
    first, *rest = DRIVER.gpus
    assert told(replace(first, tray=1, chassis="A"), *(replace(gpu, tray=2, chassis="B") for gpu in rest)).tray is None
    assert told(replace(first, chassis="A"), *(replace(gpu, chassis="B") for gpu in rest)).chassis is None


def test_a_lost_gpu_has_no_say_and_is_not_counted() -> None:
    first, *rest = (replace(gpu, tray=3) for gpu in DRIVER.gpus)
    found = told(replace(first, tray=None, lost="GPU is lost"), *rest)
    assert (found.tray, found.gpus) == (3, 3)


def test_a_name_of_several_words_is_no_kind_to_write_down() -> None:
    assert told(name="NVIDIA H100 80GB HBM3").accelerator is None


def test_a_driver_that_hangs_or_shows_no_gpu_is_not_known() -> None:
    assert whereabouts(replace(FACTS, driver=HUNG)) == HUNG
    fault = whereabouts(replace(FACTS, driver=Driver(fault="No devices were found")))
    assert fault == Unknown(why="No devices were found")
