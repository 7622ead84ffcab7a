"""What a driver asks for, and what of it is done from here."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from launcher.admission.node_checks import examine
from launcher.admission.repair import Cure, Remedy, apply, find_remedy, has_sudo, inspect_idle
from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.errors import ConflictError, RemoteError
from launcher.ports import Completed, LearntKey, Listener
from launcher.probe.needs import NOTHING, TaskNeeds
from launcher.probe.node_facts import Facts
from launcher.probe.nvidia.nvidia_smi import Driver, Gpu, GpuProcess, MemoryFault, MemoryRemedy, Recovery
from launcher.probe.results import Unknown
from tests.facts import DRIVER, FACTS

NODE = Node(name=NodeName("n1"), rack=RackName("r1"), access=Access(address="10.0.0.1"))
FLEET = Inventory(name="hall", transport=Transport.SSH, nodes=(NODE,))


class Deaf:
    def asking(self, nodes: Sequence[NodeName]) -> None: ...

    def heard(self, node: NodeName, *, answered: bool) -> None: ...
    def learnt(self, keys: Sequence[LearntKey]) -> None: ...


class Told:
    """A prober that has been told what is there."""

    def __init__(self, found: Facts | Unknown) -> None:
        self.found = found

    def probe(
        self, nodes: Sequence[Node], listener: Listener, needs: TaskNeeds = NOTHING
    ) -> Mapping[NodeName, Facts | Unknown]:
        return {node.name: self.found for node in nodes}

    def close(self) -> None: ...


def asked(*actions: str | None, processes: tuple[GpuProcess, ...] = ()) -> Facts:
    gpus = tuple(
        Gpu(
            bus=f"000{at}:01:00",
            action=action,
            recovery=Recovery.DUE if action else Recovery.NONE,
            processes=processes,
        )
        for at, action in enumerate(actions)
    )
    return replace(FACTS, driver=Driver(version="580", gpus=gpus), sudo=True)


def remedied(found: Facts) -> Remedy | None:
    (one,) = examine(FLEET, [NODE], Told(found), Deaf())
    return find_remedy(one)


def test_memory_that_waits_for_a_reset_gets_one() -> None:
    pending = MemoryFault(field="remapped_row_pending", value="Yes", remedy=MemoryRemedy.RESET)
    worn = replace(pending, field="remapped_row_failure", remedy=MemoryRemedy.REPLACE)
    gpus = tuple(replace(gpu, memory_faults=(fault,)) for gpu, fault in zip(DRIVER.gpus, (pending, worn), strict=False))
    found = remedied(replace(FACTS, driver=replace(DRIVER, gpus=gpus)))
    assert found is not None
    assert found.message == "0008:01:00: reset (remapped_row_pending: Yes)"
    assert (found.cure, found.commands) == (Cure.RESET, (("nvidia-smi", "--gpu-reset", "-i", "0008:01:00"),))


@pytest.mark.parametrize(
    ("actions", "cure", "commands"),
    [
        (("Reset", None), Cure.RESET, (("nvidia-smi", "--gpu-reset", "-i", "0000:01:00"),)),
        (("Drain and Reset", "Reset"), Cure.RESET, (("nvidia-smi", "--gpu-reset", "-i", "0000:01:00,0001:01:00"),)),
        (("Reset", "Reboot"), Cure.REBOOT, (("systemctl", "reboot"),)),
        (("Drain P2P", None), None, ()),
    ],
)
def test_the_heaviest_of_what_is_asked_for_is_done(
    actions: tuple[str | None, ...], cure: Cure | None, commands: tuple[tuple[str, ...], ...]
) -> None:
    found = remedied(asked(*actions))
    assert found is not None
    assert (found.cure, found.commands) == (cure, commands)


def test_a_driver_that_asks_for_nothing_gets_nothing() -> None:
    assert remedied(asked(None, None)) is None


def test_nobody_who_computes_there_is_disturbed() -> None:
    busy = asked("Reset", processes=(GpuProcess(pid=7, name="python"),))
    with pytest.raises(ConflictError, match=r"python \(7\)"):
        inspect_idle(FLEET, NODE, Told(busy), Deaf())
    with pytest.raises(ConflictError, match="run `other`"):
        inspect_idle(
            FLEET, NODE, Told(replace(asked("Reset"), lease="run `other` (other-1) of bob since noon")), Deaf()
        )
    with pytest.raises(RemoteError, match="no answer"):
        inspect_idle(FLEET, NODE, Told(Unknown(why="no answer", unreachable=True)), Deaf())
    assert has_sudo(inspect_idle(FLEET, NODE, Told(asked("Reset")), Deaf()))


class Machine:
    """A shell that answers alike, or dies."""

    def __init__(self, ended: Completed | None) -> None:
        self.ended = ended
        self.ran: list[tuple[str, ...]] = []

    def run(self, at: Access, argv: Sequence[str], **how: object) -> Completed:
        self.ran.append(tuple(argv))
        if self.ended is None:
            raise RemoteError("the connection was closed", node="n1", stage="command")
        return self.ended

    def put(self, at: Access, folder: str, files: Mapping[str, tuple[bytes, int]], *, timeout: float) -> None: ...

    def terminal(self, at: Access, argv: Sequence[str]) -> tuple[str, ...]:
        return ()

    def close(self) -> None: ...


def test_a_machine_that_goes_down_at_once_was_rebooted_and_one_that_refuses_a_reset_says_why() -> None:
    reboot = remedied(asked("Reboot"))
    assert reboot is not None
    machine = Machine(None)
    apply(machine, NODE, reboot)
    assert machine.ran == [("sudo", "-n", "systemctl", "reboot")]
    reset = remedied(asked("Reset"))
    assert reset is not None
    with pytest.raises(RemoteError) as failed:
        apply(Machine(Completed(status=3, stdout=b"", stderr=b"GPU is in use by another client\n")), NODE, reset)
    assert failed.value.tail == ("GPU is in use by another client",)
    with pytest.raises(RemoteError):
        apply(Machine(None), NODE, reset)
