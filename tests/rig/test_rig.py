"""The rig itself: what its hosts are, and that nothing of it stays."""

import signal
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.rig import Rig, RigError, machine
from tests.rig.identity import birth
from tests.rig.witness import in_namespace, knock, traces, until

ROOT = Path(__file__).resolve().parents[2]


def test_hosts_come_up_within_seconds() -> None:
    start = time.monotonic()
    with Rig(2, 2) as rig:
        assert time.monotonic() - start < 20, "less than one where nobody else is at work"
        assert [host.name for host in rig.hosts.values()] == ["r01-n01", "r01-n02", "r02-n01", "r02-n02"]


@pytest.mark.parametrize("user", ["ubuntu", "root", "other"])
def test_ssh_logs_in_with_the_rigs_key_and_the_pinned_host_key(rig: Rig, user: str) -> None:
    done = rig.ssh("r02-n01", "id -un; hostname; pwd", options=["-l", user])
    assert done.stdout.split() == [user, "r02-n01", "/root" if user == "root" else f"/home/{user}"], done.stderr


def test_each_host_has_a_key_of_its_own_and_the_wrong_one_is_noticed(rig: Rig, tmp_path: Path) -> None:
    assert len({host.fingerprint for host in rig.hosts.values()}) == 4
    known = tmp_path / "known_hosts"
    known.write_text(f"{rig['r01-n01'].address} {rig['r01-n02'].host_key}\n")
    done = rig.ssh("r01-n01", "true", options=["-o", f"UserKnownHostsFile={known}"])
    assert done.returncode == 255
    assert "verification failed" in done.stderr


def test_hosts_share_neither_processes_nor_files_nor_names(rig: Rig) -> None:
    one, other = rig["r01-n01"], rig["r01-n02"]
    for folder in ("/tmp", "/run", "/dev/shm", "/home/ubuntu"):
        one.write(f"{folder}/rig-mine", "x")
        assert other.run(["test", "-e", f"{folder}/rig-mine"], check=False).returncode == 1
        assert not Path(folder, "rig-mine").exists()
        one.run(["rm", f"{folder}/rig-mine"])
    asked = ["sh", "-c", "hostname; cat /proc/sys/kernel/random/boot_id /etc/machine-id; readlink /proc/self/ns/ipc"]
    assert not set(one.run(asked).stdout.split()) & set(other.run(asked).stdout.split())
    assert one.run(["getent", "hosts", "r02-n02"]).stdout.split() == [rig["r02-n02"].address, "r02-n02"]
    seen = {line.split()[0] for line in one.run(["ps", "-eo", "comm="]).stdout.splitlines()}
    assert {"init", "sshd"} <= seen <= {"init", "sshd", "ps", "nsenter", "setpriv"}


def test_a_host_reaches_another_by_name(rig: Rig) -> None:
    asked = "exec 3<>/dev/tcp/r02-n02/22 && head -c 7 <&3"
    assert rig["r01-n01"].run(["bash", "-c", asked]).stdout == "SSH-2.0"


def test_the_inventory_is_one_that_the_launcher_reads(rig: Rig, tmp_path: Path) -> None:
    spec = pytest.importorskip("launcher.config.inventory.read")
    path = tmp_path / "inventory.yaml"
    path.write_text(rig.inventory())
    read = spec.read_inventory(path)
    assert {node.name: node.access.address for node in read.nodes} == {h.name: h.address for h in rig.hosts.values()}


def test_an_interpreter_is_seen_by_hosts_and_can_be_spoilt_there_alone() -> None:
    with Rig(1, 2, python=sys.executable, nvidia=False) as rig:
        one, other = rig.hosts.values()
        asked = [sys.executable, "-c", "import sys; print(sys.version_info[:2])"]
        mine = subprocess.run(asked, capture_output=True, text=True).stdout
        assert one.run(asked, user="ubuntu").stdout == mine
        asked_ray = [sys.executable, "-c", "import importlib.metadata as m; print(m.version('ray'))"]
        if one.run(asked_ray, check=False).returncode == 0:
            one.ray_version("2.55.1")
            assert one.run(asked_ray, user="ubuntu").stdout == "2.55.1\n" != other.run(asked_ray, user="ubuntu").stdout
        one.python_version("3.9.18")
        assert one.run(asked, user="ubuntu").stdout == "(3, 9)\n"
        one.hide_python()
        assert rig.ssh(one.name, f"{sys.executable} -V").returncode == 127
        assert rig.ssh(one.name, "python3 -V").returncode == 127
        one.hide_python(False)
        assert one.run([sys.executable, "-V"]).returncode == 0
        assert (
            other.run(asked, user="ubuntu").stdout
            == subprocess.run(asked, capture_output=True, text=True).stdout
            == mine
        )


def test_an_interpreter_that_hosts_cannot_see_is_refused() -> None:
    with TemporaryDirectory(dir="/dev/shm") as folder:
        hidden = Path(folder, "python")
        hidden.symlink_to(sys.executable)
        with pytest.raises(RigError, match="cannot be seen by hosts"), Rig(1, 1, python=str(hidden)):
            pass


def test_all_hosts_have_one_folder_in_common(rig: Rig) -> None:
    rig["r01-n01"].write("/shared/written", "once", user="ubuntu")
    assert rig["r02-n01"].read("/shared/written") == (rig.shared / "written").read_text() == "once"


def test_what_the_machine_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_PATH", "/nowhere")
    with pytest.raises(RigError, match="apt-get install openssh-server iproute2 util-linux mount"), Rig(1, 1):
        pass
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(RigError, match="needs root"), Rig(1, 1):
        pass


def test_a_bastion_is_the_only_way_in() -> None:
    with Rig(1, 2, bastion=True) as rig:
        assert knock(rig["r01-n01"]) == "silence"
        done = rig.ssh("r01-n01", "hostname")
        assert done.stdout.strip() == "r01-n01", done.stderr
        rig.bastion.power_cut()
        assert knock(rig.bastion) == "silence"
        assert rig["r01-n01"].run(["bash", "-c", f"exec 3<>/dev/tcp/{rig['r01-n02'].address}/22"]).returncode == 0
        rig.bastion.boot()
        assert rig.ssh("r01-n01", "hostname").stdout.strip() == "r01-n01"


def test_two_rigs_live_at_once_and_do_not_reach_each_other(rig: Rig) -> None:
    with Rig(1, 1, name="second") as other:
        (stranger,) = other.hosts.values()
        assert stranger.address not in {host.address for host in rig.hosts.values()}
        assert other.ssh("r01-n01", "hostname").stdout.strip() == "r01-n01"
        asked = ["timeout", "0.7", "bash", "-c", f"exec 3<>/dev/tcp/{rig['r01-n01'].address}/22"]
        assert stranger.run(asked, check=False).returncode == 124
    assert rig.ssh("r01-n01", "hostname").stdout.strip() == "r01-n01"


def test_nothing_of_a_rig_stays() -> None:
    with Rig(1, 2, name="gone") as rig:
        seen = (rig.folder, socket.if_nametoindex(rig.plan.uplink))
        spaces = [
            (kind, Path(f"/proc/{host.pid}/ns/{kind}").readlink())
            for host in rig.hosts.values()
            for kind in ("pid", "net", "mnt")
        ]
        rig["r01-n01"].spawn(["sleep", "95"])
        assert len(traces(*seen)) == 5  # folder, interface, the warden and two hosts
    assert not traces(*seen)
    assert not [pid for kind, link in spaces for pid in in_namespace(kind, link)]


CRASH = """
    import os, signal, socket, sys
    from tests.rig import Rig
    with Rig(1, 2, name="crash") as rig:
        rig["r01-n01"].spawn(["sleep", "94"])
        print(rig.folder, socket.if_nametoindex(rig.plan.uplink), rig["r01-n01"].processes("sleep")[0].pid, flush=True)
        if sys.argv[1] != "test":
            os.kill(rig._warden.pid, signal.SIGKILL if sys.argv[1] == "both" else signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("killed", ["test", "both", "hung"])
def test_a_test_killed_leaves_nothing_for_long(killed: str) -> None:
    """The warden ends with its owner; where it hangs, the next start (or `clean`) ends it."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CRASH), killed], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    folder, link, pid = done.stdout.split()
    if killed != "test":
        subprocess.run([sys.executable, "-m", "tests.rig.clean"], cwd=ROOT, check=True, timeout=60)
    until(lambda: birth(int(pid)) is None and not traces(Path(folder), int(link)))


def test_clean_leaves_living_rigs_alone(rig: Rig) -> None:
    subprocess.run([sys.executable, "-m", "tests.rig.clean"], cwd=ROOT, check=True, timeout=60)
    assert rig.ssh("r01-n01", "hostname").stdout.strip() == "r01-n01"
