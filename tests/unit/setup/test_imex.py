"""What is done about IMEX: who is started, who is left alone, and what an operator is told to type."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.model.inventory import Access, GpuDriver, ImexMode, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.setup import imex
from launcher.setup.imex import ImexAction as Act
from launcher.setup.imex import ImexDaemon, ImexPeers, decide

DOMAIN = tuple(f"10.0.7.{at}" for at in range(1, 6))


def names(at: int) -> frozenset[str]:
    return frozenset((f"10.0.7.{at}", f"r07-n{at:02}"))


PLACE = ImexPeers(own=names(1), slice=(names(1), names(2), names(3)), spares=(names(4),), domain=DOMAIN)
FOUR = tuple((address,) for address in DOMAIN[:4])
STOPPED = ImexDaemon(active=False, channel=True, sudo=True, used_by=())
RUNNING = ImexDaemon(active=True, ready=True, peers=FOUR, channel=True, sudo=True, used_by=())
NO_CHANNEL = replace(RUNNING, channel=False, no_channel=True)
OTHERS = replace(RUNNING, peers=(("10.0.7.1",), ("10.0.7.5",)))
MANAGE, ADOPT, OFF = ImexMode.MANAGE, ImexMode.ADOPT, ImexMode.OFF

TABLE = {
    "the inventory says off": (OFF, PLACE, STOPPED, Act.OFF, "", ""),
    "one node": (MANAGE, replace(PLACE, slice=(names(1),)), STOPPED, Act.OFF, "", ""),
    "not installed": (
        MANAGE, PLACE, ImexDaemon(installed=False, active=False), Act.LEFT, "not installed", "the package",
    ),
    "cannot tell": (MANAGE, PLACE, ImexDaemon(why="no answer"), Act.LEFT, "tell whether IMEX runs: no answer", ""),
    "adopt what runs": (ADOPT, PLACE, RUNNING, Act.ADOPTED, "domain of 4 has all 3", ""),
    "manage adopts as well": (MANAGE, PLACE, RUNNING, Act.ADOPTED, "domain of 4 has all 3", ""),
    "spares are not in it": (ADOPT, PLACE, replace(RUNNING, peers=FOUR[:3]), Act.ADOPTED, "domain of 3", "spares"),
    "no channel": (ADOPT, PLACE, NO_CHANNEL, Act.ADOPTED, "domain of 4", "mknod"),
    "no channel, manage": (MANAGE, PLACE, NO_CHANNEL, Act.CHANNEL, "the channel was missing", ""),
    "no channel, sudo asks": (MANAGE, PLACE, replace(NO_CHANNEL, sudo=False), Act.ADOPTED, "domain of 4", "mknod"),
    "a channel of others": (MANAGE, PLACE, replace(RUNNING, channel=False), Act.ADOPTED, "of 4", "may not open"),
    "a map of the site's own names": (
        ADOPT, PLACE, replace(RUNNING, peers=(("10.0.7.1",), ("nvl-slot-02",), ("nvl-slot-03",))), Act.ADOPTED, "of 3",
        "spares",
    ),
    "-N hangs, the file tells": (
        ADOPT, PLACE, replace(RUNNING, peers=None, listed=DOMAIN, why="no answer in 10 s"), Act.ADOPTED,
        "by its file: no answer in 10 s", "",
    ),
    "-N hangs, no file": (ADOPT, PLACE, replace(RUNNING, peers=None, why="hung"), Act.LEFT, "be seen: hung", ""),
    "not READY": (MANAGE, PLACE, replace(RUNNING, ready=False), Act.LEFT, "WAIT_FOR_QUORUM", ""),
    "another version in the slice": (ADOPT, PLACE, replace(RUNNING, cut={1: "v"}), Act.LEFT, "10.0.7.2: v", ""),
    "another version beside it": (ADOPT, PLACE, replace(RUNNING, cut={3: "v"}), Act.ADOPTED, "domain of 4", ""),
    "it does not run, adopt": (ADOPT, PLACE, STOPPED, Act.LEFT, "does not run", "systemctl start nvidia-imex"),
    "it does not run, manage": (MANAGE, PLACE, STOPPED, Act.START, "it was not running", ""),
    "sudo asks": (MANAGE, PLACE, replace(STOPPED, sudo=False), Act.LEFT, "`sudo -n` is refused", "systemctl start"),
    "sudo cannot be told": (MANAGE, PLACE, replace(STOPPED, sudo=None), Act.LEFT, "refused", "systemctl start"),
    "own address is not in the list": (
        MANAGE, replace(PLACE, own=frozenset(("192.168.0.1",))), STOPPED, Act.LEFT, "none of the addresses", "",
    ),
    "a list of one is never written": (MANAGE, replace(PLACE, domain=DOMAIN[:1]), STOPPED, Act.LEFT, "are unknown", ""),
    "another map, nobody there": (MANAGE, PLACE, OTHERS, Act.RESTART, "no program uses the GPUs", ""),
    "another map, adopt": (ADOPT, PLACE, OTHERS, Act.LEFT, "does not have 10.0.7.2", "systemctl restart"),
    "another map, GPUs in use": (
        MANAGE, PLACE, replace(OTHERS, used_by=("`python` (77)",)), Act.LEFT, "`python` (77) would lose", "restart",
    ),
    "another map, GPUs cannot be seen": (
        MANAGE, PLACE, replace(OTHERS, used_by=None), Act.LEFT, "cannot tell whether programs use", "restart",
    ),
    "another map, sudo asks": (MANAGE, PLACE, replace(OTHERS, sudo=False), Act.LEFT, "refused", "restart"),
}  # fmt: skip


@pytest.mark.parametrize(("mode", "place", "seen", "kind", "reason", "warning"), TABLE.values(), ids=TABLE)
def test_decisions(mode: ImexMode, place: ImexPeers, seen: ImexDaemon, kind: Act, reason: str, warning: str) -> None:
    found = decide(mode, place, seen)
    assert found.kind is kind, found
    assert reason in found.reason
    assert warning in found.warning
    assert bool(found.warning) == (kind is Act.LEFT or bool(warning))
    assert found.steps or kind not in (Act.START, Act.RESTART, Act.CHANNEL)


def done(tmp_path: Path, steps: tuple[str, ...]) -> None:
    """Do the steps but those of systemd, with the folder of IMEX in another place, as an operator would."""
    mine = tuple(step.replace(imex.FOLDER, str(tmp_path)) for step in steps if "systemctl" not in step)
    line = imex.operator(mine).replace("sudo ", "", 1)
    subprocess.run(["bash", "-c", line], check=True)


def test_the_steps_write_the_whole_domain_and_keep_what_a_site_has_set(tmp_path: Path) -> None:
    (tmp_path / "config.cfg").write_text("# ours\nSERVER_PORT=50100\nIMEX_CMD_ENABLED=0\nLOG_LEVEL=4\n")
    settings = {"SERVER_PORT": "50100", "IMEX_CMD_ENABLED": "0", "LOG_LEVEL": "4"}
    found = decide(MANAGE, PLACE, replace(STOPPED, settings=settings))
    assert found.steps[-1] == "timeout 60 systemctl start nvidia-imex"
    done(tmp_path, found.steps)
    assert (tmp_path / "nodes_config.cfg").read_text() == "".join(f"{address}\n" for address in DOMAIN)
    assert (tmp_path / "config.cfg").read_text().splitlines() == [
        "# ours",
        "SERVER_PORT=50100",
        "LOG_LEVEL=4",
        "IMEX_CMD_PORT=50005",
        "IMEX_WAIT_FOR_QUORUM=RECOVERY",
        "IMEX_NODE_DISCONNECTED_GRACE_TIME=60",
        "IMEX_CMD_ENABLED=1",
        f"IMEX_NODE_CONFIG_FILE={tmp_path}/nodes_config.cfg",
    ]


def test_memory_of_dead_nodes_is_not_kept_for_ever() -> None:
    steps = " ".join(
        decide(MANAGE, PLACE, replace(STOPPED, settings={"IMEX_NODE_DISCONNECTED_GRACE_TIME": "-1"})).steps
    )
    assert "IMEX_NODE_DISCONNECTED_GRACE_TIME=60" in steps


def test_a_list_of_the_site_that_has_all_of_us_stays() -> None:
    listed = ("# all of the rack", *DOMAIN, "10.0.7.6")
    assert not any(
        "nodes_config.cfg.new" in step for step in decide(MANAGE, PLACE, replace(STOPPED, listed=listed)).steps
    )
    fewer = decide(MANAGE, PLACE, replace(STOPPED, listed=DOMAIN[:3])).steps
    assert any("nodes_config.cfg.new" in step for step in fewer), "it has not the spare"


def test_a_channel_is_made_where_there_is_none_and_after_the_start() -> None:
    steps = decide(MANAGE, PLACE, replace(STOPPED, channel=False, no_channel=True)).steps
    assert ["systemctl" in step for step in steps[-2:]] == [True, False]
    assert steps[-1].startswith(f"[ -e {imex.CHANNEL} ] || ")


def test_every_node_of_the_slice_is_told_the_same_list() -> None:
    steps = {decide(MANAGE, replace(PLACE, own=names(at)), STOPPED).steps for at in range(1, 5)}
    assert len(steps) == 1


def test_the_inventory_of_a_run_knows_the_neighbours_of_its_nodes_in_tray_order() -> None:
    def node(name: str, domain: str | None, tray: int, driver: GpuDriver = GpuDriver.NVIDIA) -> Node:
        return Node(
            name=NodeName(name), rack=RackName(name[0]), access=Access(address=f"at-{name}"), domain=domain, tray=tray,
            gpu_driver=driver, drained="broken" if name == "a4" else None,
        )  # fmt: skip

    nodes = (
        node("a3", "A", 2), node("a1", "A", 0), node("a2", "A", 1), node("a4", "A", 3), node("b1", "B", 0),
        node("c1", "C", 0, GpuDriver.NONE), node("d1", None, 0),
    )  # fmt: skip
    fleet = Inventory(name="hall", transport=Transport.SSH, nodes=nodes)
    cut = fleet.cut_down([NodeName("a2"), NodeName("c1"), NodeName("d1")])
    assert [one.name for one in cut.nodes] == ["a2", "c1", "d1"]
    assert cut.domains == {"A": ("at-a1", "at-a2", "at-a3", "at-a4")}
