"""What each fault of a host looks like from elsewhere, and that it can be taken back."""

import json
import socket
import subprocess
import time
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.rig import LAUNCHER, Host, Rig, RigError
from tests.rig.witness import in_namespace, knock, until

MARK = "RIG_TEST_MARK=here"


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


def test_a_bmc_cuts_the_power_from_another_process() -> None:
    with Rig(1, 2, head=True) as rig:
        host, other = rig.hosts.values()
        command = rig.fence_command.format(node=host.name).split()
        query = rig.power_query.format(node=host.name).split()
        assert subprocess.run(query, check=False, timeout=30, cwd="/").returncode == 1
        for _ in range(2):  # off already is as good
            subprocess.run(command, check=True, timeout=30, cwd="/")
        assert not host.on
        assert subprocess.run(query, check=False, timeout=30, cwd="/").returncode == 0
        assert knock(host) == "silence"
        assert (knock(other), knock(rig.head)) == ("SSH-2.0", "SSH-2.0")
        host.power_cut()
        host.boot()
        assert knock(host) == "SSH-2.0"
