"""What the supervisor asks of Ray, how often, and that its tables show what was changed."""

import threading
import time
from collections.abc import Sequence

import pytest

from launcher.runtime import ray_tables
from launcher.runtime.protocol_ray import GroupStatus
from launcher.runtime.ray_tables import ClusterTables, Labels, RayTables


class StandIn:
    """A Ray of some raylets and groups that counts what it is asked."""

    def __init__(self, raylets: int) -> None:
        self.alive = {f"id{at}": {"slot": f"main-{at}", "generation": "0"} for at in range(raylets)}
        self.states: dict[str, str] = {}
        self.on: dict[str, str] = {}
        self.readings = 0
        self.takes = 0.0
        self.during: threading.Event | None = None

    def tables(self) -> ClusterTables:
        self.readings += 1
        groups = {key: self._row(key) for key in self.states}
        nodes = [
            {"slot": labels["slot"], "generation": 0, "domain": None, "alive": True} for labels in self.alive.values()
        ]
        if self.during is not None:
            self.during.wait(5)
        time.sleep(self.takes)
        alive = dict(zip(self.alive, nodes, strict=True))
        whole = {labels["slot"]: {"GPU": 4.0} for labels in self.alive.values()}
        return ClusterTables(nodes, groups, dict(self.alive), alive, whole)  # type: ignore[arg-type]

    def dead(self, raylets: Sequence[object]) -> list[object]:
        return [one for one in raylets if one not in self.alive]

    def group(self, key: str, labels: Labels) -> tuple[GroupStatus | None, bool]:
        return (self._row(key), not self.alive.keys() <= labels.keys()) if key in self.states else (None, False)

    def _row(self, key: str) -> GroupStatus:
        bundles = [{"index": 0, "slot": self.on[key], "domain": None, "generation": 0}] if key in self.on else []
        return {"slice": key, "state": self.states[key], "hint": "", "bundles": bundles}  # type: ignore[typeddict-item]

    def pending_demand(self) -> list[str]:
        return []

    def dashboard(self) -> int | None:
        return 0


def shown(tables: RayTables) -> dict[str, str]:
    return {group["slice"]: group["state"] for group in tables.latest().get("groups", ())}


def test_a_dead_raylet_and_what_becomes_of_its_group_are_told_without_reading_all_tables() -> None:
    ray = StandIn(3)
    ray.states, ray.on, ray.takes = {"main.s0": "CREATED", "main.s1": "CREATED"}, {"main.s0": "main-1"}, 0.5
    tables = RayTables(ray)
    tables.look()
    del ray.alive["id1"]
    tables.look()
    assert {node["slot"]: node["alive"] for node in tables.latest()["nodes"]} == {
        "main-0": True,
        "main-1": False,
        "main-2": True,
    }
    ray.states["main.s0"] = "RESCHEDULING"
    tables.look()
    assert shown(tables)["main.s0"] == "RESCHEDULING"
    ray.states["main.s0"] = "CREATED"
    tables.look()
    assert shown(tables)["main.s0"] == "CREATED"
    assert ray.readings == 1


def test_tables_are_read_oftener_while_changes_are_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    ray, now = StandIn(1), [1000.0]
    monkeypatch.setattr(ray_tables.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(ray_tables.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    tables = RayTables(ray)

    def readings(seconds: int) -> int:
        before = ray.readings
        for _ in range(2 * seconds):
            tables.look()
            now[0] += 0.5
        return ray.readings - before

    ray.takes = 1.0
    assert readings(int(ray_tables.SETTLE_S)) * 2 >= 25
    readings(60)
    assert readings(100) * ray.takes <= 0.06 * 150
    ray.states["main.s0"] = "RESCHEDULING"
    readings(30)
    assert readings(100) * ray.takes >= 0.2 * 100


def test_a_group_that_is_asked_for_is_read_alone_and_shown_from_then_on() -> None:
    ray = StandIn(2)
    tables = RayTables(ray)
    tables.look()
    ray.states["main.s0"] = "CREATED"
    reply = tables.group("main.s0", 1.0)
    assert [group["state"] for group in reply.get("groups", ())] == ["CREATED"]
    assert shown(tables) == {"main.s0": "CREATED"}
    del ray.states["main.s0"]
    assert tables.group("main.s0", 1.0) == {"ok": True, "groups": []}
    assert shown(tables) == {}
    assert ray.readings == 1


def test_a_reading_that_began_before_a_change_does_not_hide_it() -> None:
    ray = StandIn(1)
    tables = RayTables(ray)
    tables.look()
    ray.during = threading.Event()
    reading = threading.Thread(target=tables.fresh, args=(5.0,))
    reading.start()
    looking = threading.Thread(target=lambda: [tables.look(), tables.look()])
    looking.start()
    while ray.readings < 2:
        time.sleep(0.001)
    ray.states["main.s0"] = "CREATED"
    tables.group("main.s0", 1.0)
    ray.during.set()
    reading.join(), looking.join()
    assert shown(tables) == {"main.s0": "CREATED"}


def test_a_bundle_on_a_raylet_that_has_just_joined_is_told_with_its_labels() -> None:
    ray = StandIn(1)
    tables = RayTables(ray)
    tables.look()
    ray.alive["id9"] = {"slot": "main-9", "generation": "1"}
    ray.states["main.s0"] = "CREATED"
    looking = threading.Thread(target=lambda: [tables.look() or time.sleep(0.01) for _ in range(200)])
    looking.start()
    assert tables.group("main.s0", 5.0)["ok"]
    assert len(tables.latest().get("nodes", ())) == 2
    looking.join()


def test_a_spare_is_held_with_all_that_its_raylet_has() -> None:
    ray = StandIn(2)
    tables = RayTables(ray)
    tables.look()
    assert tables.whole(["main-1"], 1.0) == [{"GPU": 4.0}]
    del ray.alive["id1"]
    tables.look()
    with pytest.raises(ValueError, match="no raylet of `main-1`"):
        tables.whole(["main-0", "main-1"], 0.01)


def test_a_ray_that_does_not_answer_is_told_to_whoever_needs_it_now() -> None:
    tables = RayTables(StandIn(1))
    assert not tables.fresh(0.01)["ok"]
    assert not tables.latest().get("ready")
