"""The rig itself: what its hosts are, what its faults look like from elsewhere, and that nothing of it stays."""

import json
import signal
import socket
import subprocess
import sys
import textwrap
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.rig import LAUNCHER, Host, Rig, RigError, machine
from tests.rig.clean import BASE
from tests.rig.identity import birth

ROOT = Path(__file__).resolve().parents[2]
MARK = "RIG_TEST_MARK=here"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A rig of 2 x 2 with drivers, for tests that leave it as it was."""
    with Rig(2, 2, nvidia=True) as made:
        yield made


@pytest.fixture
def host(rig: Rig) -> Host:
    """One of its hosts."""
    return rig["r01-n02"]


def until(holds: Callable[[], bool], patience: float = 10) -> None:
    """Poll until something holds."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.02)


def knock(host: Host, port: int = 22, patience: float = 0.7) -> str:
    """Answer what becomes of a connection from the launching side."""
    try:
        with socket.create_connection((host.address, port), patience) as caller:
            caller.settimeout(patience)
            return caller.recv(7).decode() or "closed"
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "silence" if not _connects(host, port, patience) else "accepts, says nothing"


def _connects(host: Host, port: int, patience: float) -> bool:
    with socket.socket() as caller:
        caller.settimeout(patience)
        return caller.connect_ex((host.address, port)) == 0


def left_overs() -> dict[str, list[str]]:
    """Answer what anybody can see of rigs on this machine."""
    links = json.loads(subprocess.run(["ip", "-json", "link"], capture_output=True, check=True).stdout)
    routes = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout.splitlines()
    return {
        "links": sorted(link["ifname"] for link in links),
        "routes": sorted(routes),
        "mounts": sorted(line for line in Path("/proc/self/mounts").read_text().splitlines() if "nvrig" in line),
        "folders": sorted(path.name for path in BASE.glob("*")),
        "namespaces": sorted(subprocess.run(["ip", "netns"], capture_output=True, text=True).stdout.splitlines()),
    }


def in_namespace(kind: str, link: Path) -> list[int]:
    """Answer the processes of this machine in a namespace."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "ns" / kind).readlink() == link:
                    found.append(int(entry.name))
            except OSError:  # gone meanwhile, or the machine's own PID 1
                pass
    return found


def test_hosts_come_up_within_five_seconds() -> None:
    start = time.monotonic()
    with Rig(2, 2) as rig:
        assert time.monotonic() - start < 5
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


def test_orphans_are_reaped_unless_told_otherwise(host: Host) -> None:
    def zombies() -> list[str]:
        return [one.state for one in host.processes() if one.state == "Z"]

    host.spawn(["sh", "-c", "true & exec sleep 0.1"])
    until(lambda: not zombies() and not host.processes("sleep"))
    host.reap(False)
    host.spawn(["true"])
    until(lambda: bool(zombies()))
    host.reap(True)
    until(lambda: not zombies())


def test_processes_are_found_by_marker_frozen_and_thawed(host: Host, rig: Rig) -> None:
    host.spawn(["sleep", "97"], user="ubuntu", env=dict([MARK.split("=")]))
    until(lambda: [one.argv for one in host.processes(MARK)] == [("sleep", "97")])
    (found,) = host.processes(MARK)
    assert not rig["r01-n01"].processes(MARK)
    host.freeze(found.pid)
    until(lambda: host.processes(MARK)[0].state == "T")
    host.thaw(found.pid)
    until(lambda: host.processes(MARK)[0].state == "S")
    with pytest.raises(RigError, match="not of host"):
        rig["r01-n01"].kill(found.pid)
    host.kill(found.pid)
    until(lambda: not host.processes(MARK))


def test_a_link_that_is_down_is_silence_and_comes_back(host: Host) -> None:
    assert knock(host) == "SSH-2.0"
    host.link(False)
    assert knock(host) == "silence"
    host.link(True)
    assert knock(host) == "SSH-2.0"


def test_dropped_packets_are_silence_with_the_link_up(host: Host, rig: Rig) -> None:
    host.drop(True)
    assert knock(host) == "silence"
    assert host.run(["cat", "/sys/class/net/eth0/carrier"], check=False).stdout in ("1\n", "")
    host.drop(False)
    assert knock(host) == "SSH-2.0"


def test_a_cut_parts_two_ends_alone(host: Host, rig: Rig) -> None:
    asked = ["timeout", "0.7", "bash", "-c", f"exec 3<>/dev/tcp/{host.address}/22"]
    rig.cut(LAUNCHER, host.name)
    assert knock(host) == "silence"
    assert rig["r01-n01"].run(asked, check=False).returncode == 0
    rig.cut(LAUNCHER, host.name, on=False)
    rig.cut("r01-n01", host.name)
    assert knock(host) == "SSH-2.0"
    assert rig["r01-n01"].run(asked, check=False).returncode == 124
    rig.cut("r01-n01", host.name, on=False)


def test_a_power_cut_ends_everything_in_silence_and_the_disk_survives(host: Host, rig: Rig) -> None:
    host.write("/home/ubuntu/kept", "yes", user="ubuntu")
    host.write("/tmp/lost", "no")
    key, booted = host.host_key, host.read("/proc/sys/kernel/random/boot_id")
    space = Path(f"/proc/{host.pid}/ns/pid").readlink()
    host.spawn(["sleep", "98"])
    host.power_cut()
    assert not in_namespace("pid", space)
    assert knock(host) == "silence"
    with pytest.raises(RigError, match="is off"):
        host.run(["true"])
    host.boot()
    assert host.read("/home/ubuntu/kept") == "yes"
    assert host.run(["ls", "/tmp"]).stdout == ""
    assert host.host_key == key
    assert host.read("/proc/sys/kernel/random/boot_id") != booted
    assert rig.ssh(host.name, "hostname").stdout.strip() == host.name


def test_a_host_that_was_reimaged_has_another_key_and_an_empty_disk(rig: Rig) -> None:
    host = rig["r02-n02"]
    key = host.host_key
    host.write("/home/ubuntu/old", "x")
    host.power_cut()
    host.boot(reimaged=True)
    assert host.host_key != key
    assert "old" not in host.run(["ls", "/home/ubuntu"]).stdout
    assert rig.ssh(host.name, "hostname").stdout.strip() == host.name


def test_a_changed_host_key_is_seen(rig: Rig) -> None:
    host = rig["r02-n02"]
    host.rekey()
    assert "IDENTIFICATION HAS CHANGED" in rig.ssh(host.name, "true", options=["-o", "LogLevel=INFO"]).stderr
    host.power_cut()
    host.boot(reimaged=True)


def test_a_tarpit_accepts_and_never_speaks(host: Host) -> None:
    host.tarpit(True)
    assert knock(host) == "accepts, says nothing"
    host.tarpit(False)
    assert knock(host) == "SSH-2.0"


def test_sshd_stopped_refuses_and_its_options_hold(host: Host, rig: Rig) -> None:
    host.stop_sshd()
    assert knock(host) == "refused"
    host.start_sshd()
    host.sshd_options(MaxStartups="2:100:2")
    callers = [socket.create_connection((host.address, 22), 5) for _ in range(8)]
    for caller in callers:
        caller.settimeout(5)
    answers = [caller.recv(7) for caller in callers]
    for caller in callers:
        caller.close()
    assert answers.count(b"SSH-2.0") == 2
    host.sshd_options()


def test_a_port_is_taken_and_let_go(host: Host) -> None:
    host.take_port(6379)
    assert knock(host, 6379) == "accepts, says nothing"
    host.free_port(6379)
    until(lambda: knock(host, 6379) == "refused")


@pytest.mark.parametrize("path", ["/home/ubuntu", "/tmp", "/dev/shm"])
def test_a_full_disk_has_no_room_and_a_freed_one_has(host: Host, path: str) -> None:
    write = ["sh", "-c", f"head -c 100000 /dev/zero > {path}/big && rm {path}/big"]
    host.fill_disk(path)
    assert "No space left" in host.run(write, user="ubuntu", check=False).stderr
    host.free_disk(path)
    host.run(write, user="ubuntu")
    host.fill_disk(path, inodes=True)
    assert host.run(["touch", f"{path}/small"], user="ubuntu", check=False).returncode != 0
    host.free_disk(path)
    host.run(["sh", "-c", f"rm -f {path}/big {path}/small"])


def test_a_read_only_home_refuses_writes(host: Host) -> None:
    host.read_only("/home/ubuntu", True)
    assert "Read-only" in host.run(["touch", "/home/ubuntu/x"], user="ubuntu", check=False).stderr
    host.read_only("/home/ubuntu", False)
    host.run(["touch", "/home/ubuntu/x"], user="ubuntu")


def test_the_clock_of_one_host_is_wrong_and_the_machines_is_not(host: Host, rig: Rig) -> None:
    host.shift_clock(-3600)
    there = int(rig.ssh(host.name, "date +%s").stdout)
    assert abs(time.time() - 3600 - there) < 20
    host.shift_clock(0)
    assert abs(time.time() - int(rig.ssh(host.name, "date +%s").stdout)) < 20


def test_a_name_that_does_not_resolve_costs_time(host: Host) -> None:
    host.lose_name()
    assert host.run(["timeout", "1", "getent", "hosts", host.name], check=False).returncode == 124
    host.lose_name(False)
    assert host.run(["getent", "hosts", host.name]).stdout.split()[0] == host.address


def test_logouts_take_what_logind_would_take(host: Host) -> None:
    host.write("/dev/shm/segment", "x", user="ubuntu")
    host.logind(kill_user_processes=True)
    host.spawn(["sleep", "96"], user="ubuntu")
    until(lambda: bool(host.processes("sleep")))
    host.last_logout("ubuntu")
    until(lambda: not host.processes("sleep"))
    assert host.run(["ls", "/dev/shm"]).stdout == ""
    host.run(["rm", "/etc/systemd/logind.conf"])


def test_drivers_answer_from_the_state_of_their_host(host: Host, rig: Rig) -> None:
    asked = "nvidia-smi --query-gpu=index,fabric.clusterUuid,fabric.cliqueId,memory.total --format=csv,noheader,nounits"
    rows = [line.split(", ") for line in rig.ssh(host.name, asked).stdout.splitlines()]
    assert rows == [[str(at), host.hardware.cluster_uuid, "32766", "284208"] for at in range(4)]
    assert rig["r01-n01"].hardware.cluster_uuid == host.hardware.cluster_uuid != rig["r02-n01"].hardware.cluster_uuid
    assert "not a valid field" in host.run(["nvidia-smi", "--query-gpu=nonsense", "--format=csv"], check=False).stdout
    tree = ET.fromstring(host.run(["nvidia-smi", "-q", "-x"]).stdout)
    assert [gpu.findtext("fabric/health/summary") for gpu in tree.findall("gpu")] == ["Healthy"] * 4
    before = host.hardware
    host.set_hardware(lambda now: now.with_gpu(2, lost=True).with_xid(79, "GPU has fallen off the bus."))
    assert "GPU is lost" in host.run(["nvidia-smi", "-L"]).stdout
    assert "Xid (PCI:0008:06:00): 79" in rig.ssh(host.name, "journalctl -k -o short-monotonic; dmesg").stdout
    host.set_hardware(gpus=before.gpus[:3], kernel_log=(), smi_hang=-1)
    assert host.run(["timeout", "0.5", "nvidia-smi", "-L"], check=False).returncode == 124
    host.set_hardware(smi_hang=0)
    assert len(host.run(["nvidia-smi", "-L"]).stdout.splitlines()) == 3
    host.set_hardware(lambda _: before)


def test_imex_starts_by_sudo_alone_and_is_counted(host: Host, rig: Rig) -> None:
    addresses = [one.address for one in rig.racks()["r01"]]
    host.write("/etc/nvidia-imex/nodes_config.cfg", "\n".join(addresses) + "\n")
    assert "authentication required" in rig.ssh(host.name, "systemctl start nvidia-imex").stderr
    assert rig.ssh(host.name, "sudo -n systemctl start nvidia-imex && nvidia-imex-ctl -q").stdout == "READY\n"
    assert host.unit_calls("nvidia-imex", "start") == 1
    assert "Domain State: UP" in host.run(["nvidia-imex-ctl", "-N"]).stdout
    host.set_hardware(imex_nodes={addresses[0]: "UNAVAILABLE"}, units={"nvidia-imex": "active"})
    said = json.loads(host.run(["nvidia-imex-ctl", "-N", "-j"]).stdout)
    assert (said["status"], said["nodes"]["0"]["status"]) == ("DEGRADED", "UNAVAILABLE")
    host.set_hardware(imex_nodes={}, sudo="asks", units={"nvidia-imex": "inactive"})
    assert "password is required" in rig.ssh(host.name, "sudo -n true").stderr
    host.set_hardware(sudo="works")


def test_the_inventory_is_one_that_the_launcher_reads(rig: Rig, tmp_path: Path) -> None:
    spec = pytest.importorskip("launcher.spec.inventory")
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


def test_an_interpreter_that_hosts_cannot_see_is_refused(tmp_path: Path) -> None:
    hidden = tmp_path / "python"
    hidden.symlink_to(sys.executable)
    with pytest.raises(RigError, match="cannot be seen by hosts"), Rig(1, 1, python=str(hidden)):
        pass


def test_a_bmc_cuts_the_power_from_another_process() -> None:
    with Rig(1, 2, head=True) as rig:
        host, other = rig.hosts.values()
        command = rig.fence_command.format(node=host.name).split()
        for _ in range(2):  # off already is as good
            subprocess.run(command, check=True, timeout=30, cwd="/")
        assert not host.on
        assert knock(host) == "silence"
        assert (knock(other), knock(rig.head)) == ("SSH-2.0", "SSH-2.0")
        host.power_cut()
        host.boot()
        assert knock(host) == "SSH-2.0"


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
    before = left_overs()
    with Rig(1, 2, name="gone") as rig:
        spaces = [
            (kind, Path(f"/proc/{host.pid}/ns/{kind}").readlink())
            for host in rig.hosts.values()
            for kind in ("pid", "net", "mnt")
        ]
        rig["r01-n01"].spawn(["sleep", "95"])
        assert left_overs() != before
    assert left_overs() == before
    assert not [pid for kind, link in spaces for pid in in_namespace(kind, link)]


CRASH = """
    import os, signal, sys, time
    from pathlib import Path
    from tests.rig import Rig
    with Rig(1, 2, name="crash") as rig:
        rig["r01-n01"].spawn(["sleep", "94"])
        print(rig.folder, rig["r01-n01"].pid, flush=True)
        if sys.argv[1] != "test":
            os.kill(rig._warden.pid, signal.SIGKILL if sys.argv[1] == "both" else signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("killed", ["test", "both", "hung"])
def test_a_test_killed_leaves_nothing_for_long(killed: str) -> None:
    """The warden ends with its owner; where it hangs, the next start (or `clean`) ends it."""
    before = left_overs()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CRASH), killed], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    folder, pid = done.stdout.split()
    if killed != "test":
        assert Path(folder).is_dir()
        assert killed == "both" or birth(int(pid)) is not None
        said = subprocess.run(
            [sys.executable, "-m", "tests.rig.clean"], cwd=ROOT, capture_output=True, text=True, timeout=60
        )
        assert Path(folder).name in said.stdout
    until(lambda: birth(int(pid)) is None and left_overs() == before)


def test_clean_leaves_living_rigs_alone(rig: Rig) -> None:
    subprocess.run([sys.executable, "-m", "tests.rig.clean"], cwd=ROOT, check=True, timeout=60)
    assert rig.ssh("r01-n01", "hostname").stdout.strip() == "r01-n01"
