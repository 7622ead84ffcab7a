"""A scenario on a rig: its fleet on hosts, its task with a program that counts, its faults by hand on the hosts."""

import itertools
import json
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from launcher.core.model.nodeset import expand
from tests.desk import AMPLE_S, Desk
from tests.rig import Host, Rig
from tests.rig.rig import LAUNCHER
from tests.rig.witness import until

PROGRAM = Path(__file__).with_name("program.py")
LEAVE_S = 20.0


class Stage:
    """One scenario on the hosts of a rig. Its nodes are called as in the scenario, `r1-n2`; hosts as in the rig."""

    def __init__(
        self, rig: Rig, folder: Path, name: str, told: Mapping[str, Any], either: Sequence[Mapping[str, str]] = ()
    ) -> None:
        self.rig, self.told, self.name, self.either = rig, told, name, either
        self.hosts = dict(_cast(rig, told["fleet"]))
        self.shared = rig.shared / name
        shutil.rmtree(self.shared, ignore_errors=True)
        self.shared.mkdir()
        self.shared.chmod(0o777)
        (self.shared / "program.py").write_text(PROGRAM.read_text())
        (folder / ".ssh").mkdir(exist_ok=True)
        self.hardware = {host.name: host.hardware for host in self.hosts.values()}
        self.desk = Desk(folder, self._inventory(), HOME=str(folder))
        self.started = self.struck = 0.0
        self.first: dict[str, Any] = {}
        self._cures: list[Callable[[], None]] = []
        self._one_at_a_time = threading.RLock()  # a rig hears one voice
        self._timers: list[threading.Timer] = []

    def _inventory(self) -> str:
        driver = "nvidia" if any("gpu" in f["fault"] or "xid" in f["fault"] for f in self._faults()) else "none"
        said = {
            "user": self.rig.user,
            "identity_file": str(self.rig.key),
            "python": self.rig.python,
            "gpus": 4,
            "accelerator": self.rig.accelerator,
            "gpu_driver": driver,
        }
        lines = ["name: hall", "transport: ssh", "imex: off", f"defaults: {json.dumps(said)}"]
        if self.told["fleet"].get("head"):
            head = {"address": self.rig.head.address, "host_key": self.rig.head.fingerprint}
            lines.append(f"head: {json.dumps(head)}")
        if self.told["fleet"].get("fence"):
            lines.append(f"fence_command: {self._switch('fence', self.rig.fence_command)}")
        if self.told["fleet"].get("query"):
            lines.append(f"power_query: {self._switch('query', self.rig.power_query)}")
        lines.append("racks:")
        for rack in sorted({node.partition("-")[0] for node in self.hosts}):
            ours = {node: host for node, host in self.hosts.items() if node.startswith(f"{rack}-")}
            domain = next(iter(ours.values())).hardware.cluster_uuid
            lines += [
                f"  {rack}:",
                f"    domain: {domain}.32766" if driver == "nvidia" else f"    domain: {rack}",
                "    nodes:",
            ]
            for tray, (node, host) in enumerate(ours.items()):
                entry = {"address": host.address, "tray": tray, "host_key": host.fingerprint}
                lines.append(f"      {node}: {json.dumps(entry)}")
                if driver == "nvidia":
                    host.set_hardware(cluster_uuid=domain)
        return "\n".join(lines) + "\n"

    def _switch(self, name: str, command: str) -> str:
        """The rig's power switch knows hosts by their own names, not by the scenario's."""
        script = self.shared / name
        lines = [f'if [ "$1" = {node} ]; then set -- {host.name}; fi\n' for node, host in self.hosts.items()]
        script.write_text("#!/bin/sh\n" + "".join(lines) + f"exec {command.format(node='$1')}\n")
        script.chmod(0o755)
        return f"{script} {{node}}"

    def _task(self) -> str:
        told = dict(self.told["task"])
        rule = {"slices": told.pop("slices", 1), "nodes_per_slice": told.pop("nodes")}
        rule |= {key: told.pop(key) for key in ("spares", "spares_per_rack") if key in told}
        if "least" in told:
            rule["slices"] = {"min": told.pop("least"), "max": rule["slices"]}
        told.pop("run_s", None)
        grace = told.pop("stop_grace", 3)
        names = " ".join(f"{host.name}) n={node};;" for node, host in self.hosts.items())
        run = f"case $(hostname) in {names} esac; exec python3 -u /shared/{self.name}/program.py /shared/{self.name} $n"
        said: dict[str, Any] = {
            "name": self.name,
            "resources": {"accelerators": f"{self.rig.accelerator}:4"},
            "topology": rule,
            "recovery": told,
            "stop_grace": grace,
            "setup": f"echo $(hostname) >> /shared/{self.name}/setups",
            "run": run,
        }
        return json.dumps(said)

    def _faults(self) -> list[Mapping[str, Any]]:
        return list(self.told.get("faults", ()))

    # the play

    def up(self, *, hot: bool = True) -> None:
        """Launch, and wait until every rank runs and counts; and, for a `hot` one, until every spare is held in Ray."""
        file = self.desk.task(self.name, self._task())
        up = self.desk.run("up", str(file), "-d", "-y", "-i", str(self.desk.inventory))
        assert up.returncode == 0, up.stderr
        self.first = self.desk.until(self.name, lambda seen: seen["state"] in ("running", "failed"))
        assert self.first["state"] == "running", self.desk.run("events", self.name).stdout
        for rank in self.first["ranks"]:
            until(lambda rank=rank: (self.shared / f"saved-{rank['rank']}").exists(), AMPLE_S)  # type: ignore[misc]
        if hot:
            until(lambda: self._held() >= self._spares(), AMPLE_S)

    def _held(self) -> int:
        """How many spares Ray holds."""
        return sum(1 for one in self._events() if one["kind"] == "receipt" and one["subject"].startswith("park:"))

    def _spares(self) -> int:
        """How many nodes of the fleet the run has and does not use at first."""
        told = self.told["task"]
        slices = told.get("slices", 1)
        racks = min(slices, len({node.partition("-")[0] for node in self.hosts}))
        return int(told.get("spares", 0) * slices + told.get("spares_per_rack", 0) * racks)

    def strike(self, scale: Callable[[float], float] = lambda lasts: lasts) -> None:
        """Let the faults and orders come, each at its time after the first; `scale` shortens what would last long."""
        begin = min(self._times())
        self.started = self._events()[-1]["seq"]
        self.struck = time.monotonic()
        deeds = [
            (at - begin, lambda fault=fault, node=node: self._strike(fault, node, scale))  # type: ignore[misc]
            for fault in self._faults()
            for at in _list(fault["at"])
            for node in expand(fault["node"])
        ]
        deeds += [
            (scale(order["at"] - begin), lambda order=order: self._order(order))  # type: ignore[misc]
            for order in self.told.get("orders", ())
        ]
        for after, deed in sorted(deeds, key=lambda one: one[0]):
            if after <= 0:
                deed()
            else:
                self._later(after, deed)

    def _times(self) -> list[float]:
        faults = [at for fault in self._faults() for at in _list(fault["at"])]
        return faults + [order["at"] for order in self.told.get("orders", ())]

    def lasts(self, scale: Callable[[float], float]) -> float:
        """For how long after the first fault something is still broken, or breaks (s)."""
        begin = min(self._times())
        ends = [at + scale(fault.get("duration", 0)) for fault in self._faults() for at in _list(fault["at"])]
        return max(ends, default=begin) - begin

    def _later(self, after: float, deed: Callable[[], None]) -> None:

        def do() -> None:
            with self._one_at_a_time:
                deed()

        timer = threading.Timer(after, do)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def _strike(self, fault: Mapping[str, Any], node: str, scale: Callable[[float], float]) -> None:
        cure = getattr(self, f"_{fault['fault']}")(self.hosts[node], node, fault)
        if cure is None:
            return
        self._cures.append(cure)
        if (lasts := fault.get("duration")) is not None:
            self._later(scale(lasts), lambda: self._cure(cure))

    def _cure(self, cure: Callable[[], None]) -> None:
        """Cure a fault once, by its time or by the end of the scenario."""
        with self._one_at_a_time:
            if cure in self._cures:
                self._cures.remove(cure)
                cure()

    def _order(self, order: Mapping[str, Any]) -> None:
        if order["order"] == "resume" and self.desk.status(self.name)["state"] != "on-hold":
            self._later(1.0, lambda: self._order(order))  # there is nothing yet that it could be told to go on with
            return
        subject = {"resume": self.name, "relocate": f"{self.name}/{order.get('subject', '')}"}
        words = [order["order"].replace("_", "-"), subject.get(order["order"], order.get("subject", ""))]
        words += ["-y"] if order["order"] in ("drain", "confirm_dead", "relocate") else []
        words += ["-i", str(self.desk.inventory)] if order["order"] in ("drain", "undrain") else []
        done = self.desk.run(*words)
        assert done.returncode == 0, done.stderr

    # the faults, each answers its cure, or None where there is none

    def _raylet_killed(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None] | None:
        return self._killed(host, "raylet", fault.get("duration"))

    def _killed(self, host: Host, word: str, lasts: float | None) -> Callable[[], None] | None:
        """Kill what is called so, and for as long as that lasts what takes its place, a second later each time."""
        self._kill(host, word)
        if lasts is None:
            return None
        ends = time.monotonic() + lasts

        def again() -> None:
            if time.monotonic() < ends and host.on:
                self._kill(host, word)
                self._later(1.0, again)

        self._later(1.0, again)
        return lambda: None

    def _agent_killed(self, host: Host, node: str, fault: Mapping[str, Any]) -> None:
        for process in host.processes(self.name):
            if process.argv[-4:-2] == ("agent", "serve") and "/head" not in process.argv[-2]:
                host.kill(process.pid)

    def _raylet_stopped(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None]:
        stopped = self._ours(host, "raylet")
        for pid in stopped:
            host.freeze(pid)

        def cure() -> None:
            for pid in stopped:
                if any(one.pid == pid for one in host.processes()):
                    host.thaw(pid)

        return cure

    def _rank_killed(self, host: Host, node: str, fault: Mapping[str, Any]) -> None:
        self._kill(host, "program.py")

    def _rank_fails(self, host: Host, node: str, fault: Mapping[str, Any]) -> None:
        (self.shared / f"fail-{node}").write_text(str(fault.get("code", 3)))

    def _rank_hangs(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None]:
        file = self.shared / f"hang-{node}"
        file.touch()
        self._later(self.told["task"].get("hang_after", 5) + 3, lambda: file.unlink(missing_ok=True))
        return lambda: None

    def _head_killed(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None] | None:
        return self._killed(host, "gcs_server", fault.get("duration"))

    def _power_cut(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None]:
        host.power_cut()
        return lambda: None if host.on else host.boot()

    def _host_paused(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None]:
        """As a virtual machine that is moved: nothing runs there, and nothing that is sent to it arrives."""
        host.drop(True)
        stopped = [one.pid for one in host.processes() if one.state != "Z"]
        for pid in stopped:
            host.freeze(pid)

        def cure() -> None:
            host.drop(False)
            living = {one.pid for one in host.processes()}
            for pid in stopped:
                if pid in living:
                    host.thaw(pid)

        return cure

    def _link_down(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None]:
        host.drop(True)
        return lambda: host.drop(False)

    def _ssh_down(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None]:
        self.rig.cut(LAUNCHER, host.name)
        return lambda: self.rig.cut(LAUNCHER, host.name, on=False)

    def _bastion_down(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None]:
        cures = [self._ssh_down(one, node, fault) for one in self.hosts.values()]
        return lambda: [cure() for cure in cures] and None

    def _gpu_lost(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None]:
        host.set_hardware(gpus=host.hardware.gpus[:3])
        return lambda: None

    def _gpu_taken(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None]:
        stranger = next(process for process in host.processes("sshd") if process.uid == 0)
        host.set_hardware(apps=((stranger.inner, "python", 1024),))
        return lambda: host.set_hardware(apps=())

    def _xid_fatal(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None]:
        self._xid(host, 149, "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000 0x00000000 0x00000000)")
        return lambda: None

    def _xid_sympathetic(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None]:
        self._xid(host, 145, "RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000000 0x00000000 0x00000000)")
        return lambda: None

    def _xid(self, host: Host, number: int, said: str) -> None:
        at = time.clock_gettime(time.CLOCK_BOOTTIME)
        host.set_hardware(lambda state: state.with_xid(number, f"pid=1234, name=python3, {said}", at=at))

    def _disk_full(self, host: Host, node: str, fault: Mapping[str, Any]) -> Callable[[], None]:
        host.fill_disk()
        return host.free_disk

    def _kill(self, host: Host, word: str) -> None:
        for pid in self._ours(host, word):
            host.kill(pid)

    def _ours(self, host: Host, word: str) -> list[int]:
        """The processes of the run on a host that are called so; a head's raylet is not the slot's."""
        found = []
        for process in host.processes(self.name):
            called = [Path(part).name for part in process.argv[:3]]
            if process.state != "Z" and any(name == word for name in called):
                heads = word == "raylet" and "/head" in " ".join(process.argv)
                found += [] if heads else [process.pid]
        return found

    # what came of it

    def _events(self) -> list[dict[str, Any]]:
        shown = self.desk.run("events", self.name, "-o", "json")
        assert shown.returncode == 0, shown.stderr
        text = shown.stdout
        return (
            list(json.loads(text))
            if text.lstrip().startswith("[")
            else [json.loads(line) for line in text.splitlines()]
        )

    def later_events(self) -> list[dict[str, Any]]:
        """What the journal has from the first fault on."""
        return [event for event in self._events() if event["seq"] > self.started]

    def recovered(self, attempt: int, patience: float) -> float:
        """Wait until every rank counts in this attempt; answer how long after the first fault that was (s)."""
        ranks = [rank["rank"] for rank in self.first["ranks"]]
        end = time.monotonic() + patience
        while not all(self._attempt(rank) >= attempt for rank in ranks):
            assert time.monotonic() < end, self.desk.run("events", self.name).stdout[-6000:]
            time.sleep(0.05)
        return time.monotonic() - self.struck

    def _attempt(self, rank: int) -> int:
        lines = (self.shared / f"trail-{rank}").read_text().splitlines()
        return int(lines[-1].split()[0]) if lines else 0

    def goes_on(self, lasts: float) -> None:
        """Wait as long as the fault lasts and a little more; every rank goes on counting in its first attempt, but for
        those that were to end well: each of them is done once."""
        self.passes(lasts)
        done = {fault["node"] for fault in self._faults() if fault["fault"] == "rank_fails" and fault.get("code") == 0}
        ranks = {rank["rank"]: rank["node"] in done for rank in self.first["ranks"]}
        before = {rank: self._lines(rank) for rank in ranks}
        until(lambda: all(ended or self._lines(rank) > before[rank] for rank, ended in ranks.items()), AMPLE_S)
        assert all(self._lines(rank) == before[rank] for rank, ended in ranks.items() if ended)
        assert all(self._attempt(rank) == 1 for rank in ranks), self.desk.run("events", self.name).stdout[-6000:]

    def passes(self, seconds: float) -> None:
        """Wait while something has to last."""
        end = time.monotonic() + seconds
        until(lambda: time.monotonic() > end, seconds + AMPLE_S)

    def _lines(self, rank: int) -> int:
        return len((self.shared / f"trail-{rank}").read_text().splitlines())

    def setups(self, node: str) -> int:
        """How often the task's setup ran on a node."""
        return (self.shared / "setups").read_text().split().count(self.hosts[node].name)

    def lose_controller(self, after: float) -> None:
        """Kill the controller after a while (s), and have `watch` start another."""
        end = time.monotonic() + after
        until(lambda: time.monotonic() > end, after + AMPLE_S)
        killed = self.desk.controller(self.name)
        os.kill(killed, signal.SIGKILL)
        with self.desk.begin("watch", self.name) as watch:
            try:
                until(lambda: self.desk.controller(self.name) != killed, AMPLE_S)
                watch.send_signal(signal.SIGINT)
                watch.communicate(timeout=AMPLE_S)
            finally:
                watch.kill()

    def finish(self) -> dict[str, Any]:
        """Let the program end well; answer the last status."""
        (self.shared / "stop").touch()
        return self.over()

    def over(self) -> dict[str, Any]:
        """Wait until the run is over; answer the last status."""
        finals = ("succeeded", "failed", "stopped")
        return self.desk.until(self.name, lambda seen: seen["state"] in finals)

    def hold_the_count(self) -> None:
        """No step is lost beyond its checkpoint, none is done twice, and no holder writes after its successor."""
        for rank in (rank["rank"] for rank in self.first["ranks"]):
            saved = json.loads((self.shared / f"saved-{rank}").read_text())
            assert saved["sum"] == saved["step"] * (saved["step"] + 1) // 2, f"rank {rank} lost or repeated a step"
            lines = [line.split() for line in (self.shared / f"trail-{rank}").read_text().splitlines()]
            attempts = [int(line[0]) for line in lines]
            assert attempts == sorted(attempts), f"rank {rank}: an old holder wrote after its successor"
            for before, after in itertools.pairwise(lines):
                step = int(after[2])
                resumed = before[0] != after[0] and int(before[2]) - 5 <= step <= int(before[2]) + 1
                assert step == int(before[2]) + 1 or resumed, f"rank {rank}: {before} then {after}"

    def clear(self) -> None:
        """Take everything down and mend what the scenario broke, whatever has become of it."""
        for timer in self._timers:
            timer.cancel()
            timer.join()
        for cure in tuple(self._cures):
            self._cure(cure)
        for host in self.hosts.values():
            host.set_hardware(lambda _, host=host: self.hardware[host.name])  # type: ignore[misc]
        down = self.desk.run("down", "--all", "-y")
        left = [host for host in self.hosts.values() if not self._leaves(host)]
        for host in left:  # the next scenario finds a clean rack, whatever went wrong in this one
            host.power_cut()
            host.boot()
        assert down.returncode == 0, down.stderr
        assert not left, f"{left} had processes of the run after `down`"

    def _leaves(self, host: Host) -> bool:
        end = time.monotonic() + LEAVE_S
        while self.left(host):
            if time.monotonic() > end:
                return False
            time.sleep(0.05)
        return True

    def left(self, host: Host) -> list[str]:
        """What lives of the run on a host."""
        return [" ".join(process.argv) for process in host.processes(f"{self.name}-") if process.state != "Z"]


def _cast(rig: Rig, fleet: Mapping[str, Any]) -> Iterator[tuple[str, Host]]:
    """Answer which host plays which node: rack by rack where they fit, else all hosts in a row."""
    racks, nodes = fleet["racks"], fleet["nodes"]
    fits = [hosts[:nodes] for hosts in rig.racks().values() if len(hosts) >= nodes]
    row = list(rig.hosts.values())
    parts = fits[:racks] if len(fits) >= racks else [row[at * nodes : (at + 1) * nodes] for at in range(racks)]
    for rack, hosts in enumerate(parts, start=1):
        assert len(hosts) == nodes, "the rig is too small for this scenario"
        for number, host in enumerate(hosts, start=1):
            yield f"r{rack}-n{number}", host


def _list(value: Any) -> list[float]:
    return list(value) if isinstance(value, list) else [value]
