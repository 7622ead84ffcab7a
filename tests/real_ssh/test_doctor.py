"""`doctor` and the preflight of `up` on machines with real faults: what each is called, and how soon."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from launcher.setup.ports import FIRST, PINNED, wide
from tests.rig import Host, Rig

ROOT = Path(__file__).resolve().parents[2]
CHANNELS = "/dev/nvidia-caps-imex-channels"
SPOILT = "r01-n02"
BOOTED = (1.0, "Linux version 6.8.0-nvidia-64k")

TASK = """
name: job
resources: {accelerators: GB300:4}
topology: {slices: 1, nodes_per_slice: %d}
run: "true"
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A rig of 2 x 3 whose nodes are well in everything."""
    with Rig(2, 3, nvidia=True, python=sys.executable, name="doctor") as made:
        for hosts in made.racks().values():
            for host in hosts:
                make_well(host, [one.address for one in hosts])
        yield made


def make_well(host: Host, rack: list[str]) -> None:
    """Give a host what a tray has that is ready for work: IMEX over its rack, a kernel log, sessions that may end."""
    host.set_hardware(units={"nvidia-imex": "active"}, kernel_log=(BOOTED,))
    host.logind(remove_ipc=False)
    channel = f"mkdir -p {CHANNELS} && touch {CHANNELS}/channel0 && chmod 666 {CHANNELS}/channel0"
    host.run(["sh", "-c", channel])
    host.write("/etc/nvidia-imex/nodes_config.cfg", "\n".join(rack) + "\n")


@pytest.fixture
def spoilt(rig: Rig) -> Iterator[Host]:
    """A host to be spoilt; as new for the next test."""
    host = rig[SPOILT]
    well = host.hardware
    yield host
    if host.on:
        host.free_disk("/home/ubuntu")
        host.power_cut()
    host.hardware = well
    host.boot(reimaged=True)
    make_well(host, [one.address for one in rig.racks()["r01"]])


@dataclass
class Told:
    """What a command came to."""

    code: int
    out: str
    err: str
    seconds: float

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def said(self, fact: str, node: str = SPOILT) -> tuple[str, bool, str]:
        """Answer, whether it stops a start, and words, of a fact of a node."""
        (one,) = (one for one in self.json["nodes"] if one["node"] == node)
        (finding,) = (finding for finding in one["findings"] if finding["fact"] == fact)
        return finding["result"], finding["stops"], finding["message"]

    def not_good(self) -> set[tuple[str, str]]:
        """Node and fact of all that is not good."""
        return {
            (one["node"], finding["fact"])
            for one in self.json["nodes"]
            for finding in one["findings"]
            if finding["result"] in ("bad", "cannot_tell")
        }


@dataclass
class Launcher:
    """The command line, with a home and an inventory of its own."""

    home: Path
    inventory: Path

    def run(self, *words: str) -> Told:
        begun = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "launcher.cli", *words, "-i", str(self.inventory)],
            env={**os.environ, "PYTHONPATH": str(ROOT), "NVLAUNCH_HOME": str(self.home)},
            capture_output=True,
            text=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
        )
        return Told(done.returncode, done.stdout, done.stderr, time.monotonic() - begun)

    def doctor(self, *words: str) -> Told:
        return self.run("doctor", "-o", "json", *words)

    def up(self, nodes: int) -> Told:
        """Begin a start, which ends where it would ask."""
        task = self.home / "task.yaml"
        task.parent.mkdir(parents=True, exist_ok=True)
        task.write_text(TASK % nodes)
        return self.run("up", str(task))


@pytest.fixture
def launcher(rig: Rig, tmp_path: Path) -> Launcher:
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text(rig.inventory())
    return Launcher(tmp_path / "home", inventory)


def test_six_nodes_that_are_well_take_one_line_and_seconds(launcher: Launcher) -> None:
    told = launcher.run("doctor")
    assert (told.out, told.code) == ("6 nodes: 6 good (r[01-02]-n[01-03])\n", 0)
    assert "6 of 6 nodes answered in" in told.err
    assert told.seconds < 30


def test_a_rack_or_a_range_is_asked_alone_and_nothing_stays_there(launcher: Launcher, rig: Rig) -> None:
    told = launcher.doctor("r02", "r01-n[01-02]")
    assert {one["node"] for one in told.json["nodes"]} == {"r01-n01", "r01-n02", "r02-n01", "r02-n02", "r02-n03"}
    assert told.code == 0
    host = rig["r01-n01"]
    assert (
        host.run(["sh", "-c", "ls -A /home/ubuntu /tmp /run/user 2>/dev/null | grep -i nvl"], check=False).stdout == ""
    )
    assert not [one for one in host.processes(user="ubuntu") if "python" in one.argv[0]]


def test_a_missing_gpu(launcher: Launcher, spoilt: Host) -> None:
    spoilt.set_hardware(lambda tray: tray.with_gpu(2, lost=True))
    told = launcher.doctor("r01")
    answer, stops, words = told.said("gpus")
    assert (told.code, answer, stops) == (4, "bad", True)
    assert words.startswith("3 of 4 found: ")
    assert told.said("gpus", "r01-n01")[0] == "good"


def test_a_fabric_that_is_still_in_progress(launcher: Launcher, spoilt: Host) -> None:
    spoilt.set_hardware(fabric_state="In Progress")
    told = launcher.doctor(SPOILT)
    answer, stops, words = told.said("fabric")
    assert stops
    assert "In Progress on 4 of 4 GPUs" in words
    # A machine that was booted a moment ago is given time.
    assert answer in ("bad", "cannot_tell")


def test_a_recovery_action_that_the_driver_asks_for(launcher: Launcher, spoilt: Host) -> None:
    spoilt.set_hardware(lambda tray: tray.with_gpu(1, recovery_action="Drain and Reset"))
    answer, stops, words = launcher.doctor(SPOILT).said("recovery")
    assert (answer, stops) == ("bad", True)
    assert words.endswith("Drain and Reset")


def test_a_clock_that_is_an_hour_off(launcher: Launcher, spoilt: Host) -> None:
    spoilt.shift_clock(3600)
    told = launcher.doctor("r01")
    answer, stops, words = told.said("clock")
    assert (answer, stops) == ("bad", True)
    assert words.endswith("s ahead of this machine; synchronise it with chrony or ntpd")
    (shared,) = (one for one in told.json["shared"] if one["fact"] == "clock")
    assert (shared["of"], shared["nodes"], shared["result"]) == ("r01", [SPOILT], "bad")


def test_a_name_that_does_not_resolve_and_is_waited_for(launcher: Launcher, spoilt: Host) -> None:
    spoilt.lose_name()
    told = launcher.doctor(SPOILT)
    answer, stops, words = told.said("hostname")
    assert (told.code, answer, stops) == (4, "bad", False)
    assert "which delays `ray start`; add it to /etc/hosts or DNS" in words


def test_no_python_at_all(launcher: Launcher, spoilt: Host) -> None:
    spoilt.hide_python()
    answer, stops, words = launcher.doctor("r01").said("python")
    assert (answer, stops) == ("bad", True)
    assert words.startswith("no Python 3.6 or later found on the node (tried `python3`, `python`, ")


def test_the_given_python_is_missing_and_the_systems_own_tells(launcher: Launcher, rig: Rig) -> None:
    launcher.inventory.write_text(rig.inventory(python="/opt/nosuch/bin/python"))
    told = launcher.doctor("r01-n01")
    answer, stops, words = told.said("python", "r01-n01")
    assert (answer, stops) == ("bad", True)
    assert words == "`/opt/nosuch/bin/python` not found; correct `python:` in the inventory"
    assert told.said("host", "r01-n01")[0] == "good"


def test_another_ray_on_one_node(launcher: Launcher, spoilt: Host) -> None:
    spoilt.ray_version("2.61.3")
    told = launcher.doctor()
    (shared,) = (one for one in told.json["shared"] if one["fact"] == "ray")
    assert (told.code, shared["of"], shared["nodes"]) == (4, "all", [SPOILT])
    assert f"{SPOILT}: 2.61.3" in shared["message"]


def test_a_port_that_is_taken_is_stepped_over_and_a_wall_of_them_is_not(launcher: Launcher, spoilt: Host) -> None:
    spoilt.take_port(FIRST)
    assert launcher.doctor(SPOILT).said("ports")[0] == "good"
    for start in wide().starts[1:]:
        spoilt.take_port(start + PINNED - 1)
    answer, stops, words = launcher.doctor(SPOILT).said("ports")
    assert (answer, stops) == ("bad", True)
    assert words.startswith(f"{FIRST} in use; ")


def test_processes_that_a_run_left_behind(launcher: Launcher, spoilt: Host) -> None:
    mark = {"NVLAUNCH_MARK": "old-run:r01-n02:0:main-1:1"}
    spoilt.spawn(["setsid", "sh", "-c", "trap '' TERM; sleep 3600 & wait"], user="ubuntu", env=mark)
    answer, stops, words = launcher.doctor(SPOILT).said("leftovers")
    assert (answer, stops) == ("bad", True)
    assert "of run `old-run`; stop with `kill -9 " in words


def test_a_full_disk(launcher: Launcher, spoilt: Host) -> None:
    spoilt.fill_disk("/home/ubuntu")
    answer, stops, words = launcher.doctor(SPOILT).said("disk")
    assert (answer, stops) == ("bad", True)
    assert "has 0.0 GiB free, but a run needs 1.0 GiB" in words
    answer, stops, words = launcher.doctor(SPOILT).said("folders")
    assert (answer, stops) == ("bad", True)
    assert "a file in `~/.nvlaunch/runs` (`/home/ubuntu`): no space left on device (ENOSPC)" in words


OWN = "/home/ubuntu/.nvlaunch"


def mount_own(host: Host, options: str) -> None:
    """Give the user a file system in memory for what runs keep there."""
    script = f"mkdir -p {OWN} && mount -t tmpfs -o {options} tmpfs {OWN} && chown ubuntu: {OWN}"
    host.run(["sh", "-c", script])


@pytest.mark.parametrize(
    ("options", "spoil", "words"),
    [
        ("size=1M", f"head -c 2M /dev/zero > {OWN}/filler || true", "cannot write a file in `~/.nvlaunch/runs`"),
        ("size=4M", f"mount -o remount,ro {OWN}", "(EROFS): the file system is read-only"),
        ("size=4M,noexec", "true", "set `python:` to an interpreter elsewhere"),
    ],
    ids=["full", "read-only", "noexec"],
)
def test_a_node_where_runs_cannot_keep_files_is_passed_over(
    launcher: Launcher, spoilt: Host, rig: Rig, options: str, spoil: str, words: str
) -> None:
    launcher.inventory.write_text(rig.inventory(python=None) if "noexec" in options else rig.inventory())
    mount_own(spoilt, options)
    spoilt.run(["sh", "-c", spoil])
    answer, stops, message = launcher.doctor(SPOILT).said("folders")
    assert (answer, stops) == ("bad", True)
    assert words in message
    assert f"`{OWN}`" in message
    if "noexec" not in options:
        assert f"skipped {SPOILT}: " in (told := launcher.up(2)).err
        assert "main.s0  r01   r01-n[01,03]" in told.err


def test_a_node_where_too_few_processes_may_start_is_passed_over(launcher: Launcher, spoilt: Host) -> None:
    spoilt.write("/home/ubuntu/.bashrc", "ulimit -u 200\n")
    answer, stops, words = launcher.doctor(SPOILT).said("processes")
    assert (answer, stops) == ("bad", True)
    assert "`ulimit -Hu` is 200" in words
    assert f"skipped {SPOILT}: processes: " in launcher.up(2).err


def test_a_gpu_whose_rows_cannot_be_remapped(launcher: Launcher, spoilt: Host) -> None:
    spoilt.set_hardware(lambda tray: tray.with_gpu(1, row_failure=True))
    answer, stops, words = launcher.doctor(SPOILT).said("memory_errors")
    assert (answer, stops) == ("bad", True)
    assert words.endswith("`remapped_row_failure: Yes`: the GPU must be replaced")


def test_one_machine_under_two_names_is_taken_once(launcher: Launcher, spoilt: Host, rig: Rig) -> None:
    other, way = rig["r01-n03"], rig["r01-n01"]
    written = rig.inventory()
    entry = next(line for line in written.splitlines() if line.startswith(f"      {other.name}: "))
    twin = {"address": spoilt.address, "tray": other.tray, "host_key": spoilt.fingerprint}
    again = json.dumps({**twin, "proxy_jump": f"{rig.user}@{way.address}"})
    launcher.inventory.write_text(written.replace(entry, f"      {other.name}: {again}"))
    told = launcher.doctor("r01")
    (shared,) = (one for one in told.json["shared"] if one["fact"] == "host" and one["result"] == "bad")
    assert (told.code, shared["nodes"]) == (4, ["r01-n03"])
    assert shared["message"].startswith("r01-n[02-03] are one machine under 2 names (")
    assert "skipped r01-n03: host: r01-n[02-03] are one machine under 2 names" in launcher.up(3).err


def test_a_driver_that_hangs_is_said_once_and_bounded(launcher: Launcher, spoilt: Host) -> None:
    spoilt.set_hardware(smi_hang=-1)
    told = launcher.run("doctor", "r01")
    assert told.seconds < 60
    (line,) = (line for line in told.out.splitlines() if "nvidia-smi" in line)
    assert line.split("  ")[0] == SPOILT
    assert "driver, gpus, gpu memory, memory errors, recovery, fabric, domain" in line
    assert "cannot tell" in line
    assert told.code == 0
    assert len(told.out.splitlines()) == 4  # header, the driver, nothing, the sum
    assert told.out.endswith("3 nodes: 2 good (r01-n[01,03]), 1 cannot tell (r01-n02)\n")


def test_a_host_that_is_down_delays_nobody(launcher: Launcher, spoilt: Host) -> None:
    spoilt.power_cut()
    told = launcher.doctor()
    assert told.said("reachable")[:2] == ("bad", True)
    assert told.not_good() == {(SPOILT, "reachable")}
    assert "5 of 6 nodes answered" in told.err
    assert told.seconds < 60


def test_what_needs_a_right_that_we_lack_cannot_be_told(launcher: Launcher, spoilt: Host) -> None:
    spoilt.set_hardware(kernel_log_readable=False, sudo="asks")
    told = launcher.doctor(SPOILT)
    assert told.code == 0
    assert told.said("xids")[0] == "cannot_tell"
    assert "systemd-journal" in told.said("xids")[2]
    assert told.said("sudo") == ("good", False, "needs a password: commands for root are printed")
    assert told.json["counts"] == {"good": 0, "bad": 0, "cannot_tell": 1}


# before a start


def test_up_passes_over_a_sick_node_for_another_of_its_rack(launcher: Launcher, spoilt: Host) -> None:
    spoilt.set_hardware(lambda tray: tray.with_gpu(0, lost=True))
    told = launcher.up(2)
    assert "skipped r01-n02: gpus: 3 of 4 found" in told.err
    assert "main.s0  r01   r01-n[01,03]" in told.err
    assert told.code == 2  # no terminal to ask on


def test_up_places_a_slice_where_it_fits_and_names_who_is_sick_where_it_does_not(
    launcher: Launcher, spoilt: Host, rig: Rig
) -> None:
    spoilt.set_hardware(health="Unhealthy")
    assert "main.s0  r02   r02-n[01-03]" in launcher.up(3).err
    launcher.inventory.write_text(rig.inventory().replace("  r02:\n", "  r02:\n    drained: moved\n"))
    told = launcher.up(3)
    assert told.code == 3
    assert "r01-n02: fabric: GPU " in told.err


def test_up_is_refused_where_the_drivers_contradict_the_inventory(launcher: Launcher, rig: Rig) -> None:
    true = f"{rig['r01-n01'].hardware.cluster_uuid}.32766"
    written = "00000000-1111-2222-3333-444444444444.7"
    launcher.inventory.write_text(rig.inventory().replace(true, written))
    told = launcher.up(3)
    assert told.code == 2
    said = f"r01-n[01-03]: the inventory says domain `{written}`, the drivers report `{true}`"
    assert said in told.err


def test_domains_that_are_left_out_are_learnt_and_remembered(launcher: Launcher, rig: Rig) -> None:
    without = [line for line in rig.inventory().splitlines() if not line.startswith("    domain: ")]
    launcher.inventory.write_text("\n".join(without))
    launcher.home.mkdir()
    (launcher.home / "task.yaml").write_text(TASK % 3)
    assumed = launcher.run("plan", str(launcher.home / "task.yaml"))
    assert assumed.code == 0
    assert "the NVLink domain of r[01-02]-n[01-03] is unknown, and the rack is taken for it" in assumed.err
    assert "main.s0  r01   r01-n[01-03]" in launcher.up(3).err
    planned = launcher.run("plan", str(launcher.home / "task.yaml"), "-o", "json")
    assert planned.code == 0
    assert planned.json["slices"][0]["domain"] == f"{rig['r01-n01'].hardware.cluster_uuid}.32766"


def test_up_says_where_a_run_would_end_with_our_session(launcher: Launcher, spoilt: Host) -> None:
    spoilt.logind(kill_user_processes=True)
    told = launcher.up(3)
    assert "warning: r01-n02: logout: a run ends with the last login session" in told.err
    assert "`sudo loginctl enable-linger ubuntu`" in told.err
    spoilt.run(["loginctl", "enable-linger", "ubuntu"])
    assert "warning" not in launcher.up(3).err


def test_a_ray_that_is_none_of_ours_keeps_a_run_away_and_is_left_alone(launcher: Launcher, spoilt: Host) -> None:
    spoilt.run(["cp", "/bin/sleep", "/usr/local/bin/raylet"])
    spoilt.spawn(["/usr/local/bin/raylet", "3600"], user="other")
    answer, stops, words = launcher.doctor(SPOILT).said("other_ray")
    assert (answer, stops) == ("bad", True)
    assert words.startswith("Ray of `other` runs on the node (pid ")
    assert f"skipped {SPOILT}: other ray: Ray of `other` runs on the node" in launcher.up(2).err
    assert [one for one in spoilt.processes(user="other") if one.argv[0].endswith("raylet")]
