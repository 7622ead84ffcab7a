"""What an admission reports, as text on stderr."""

from collections.abc import Sequence
from types import TracebackType

from typing_extensions import Self, assert_never

from launcher.admission.checked_placement import held_text
from launcher.admission.listener import (
    BucketsUploaded,
    BucketUpload,
    CloneBegun,
    DoesNotFitNow,
    DomainsUnknown,
    FilesWeighed,
    FileWarning,
    InventoryRead,
    JobAwaited,
    KindChosen,
    NodesChecked,
    NodesHeld,
    NodesLost,
    NodesPassed,
    NodesUnfit,
    Notice,
    ResizePlanned,
    StartCheckBegun,
    TaskPlaced,
)
from launcher.admission.queue.explain import shortfall_summary
from launcher.cli.output.console import agree, clean, say, warn
from launcher.cli.output.doctor import rows
from launcher.cli.output.errors import warning_text
from launcher.cli.output.plan import commands_here, plan_text, racks_text, source_text
from launcher.cli.output.progress import ChangingLine, ProbeProgress
from launcher.cli.output.racks import fleet_text
from launcher.cli.output.table import table
from launcher.core.checks.results import CheckedNode, NodeVerdict
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName, fold, fold_messages
from launcher.core.model.placement import Slice
from launcher.core.model.task import Task
from launcher.core.model.text import count, data_size, span
from launcher.core.placement.resize import ResizePlan
from launcher.ports import LearntKey
from launcher.probe.findings import CheckResult
from launcher.transport.upload.files import UploadSize

MANY_FILES = 20_000
MANY_BYTES = 200_000_000
"""More than this for each node is warned about."""
MAX_NAMED = 3


class AdmissionReport:
    """Writes notices to stderr.

    Asks for confirmation unless `yes`, and shows how many nodes have answered.
    """

    def __init__(self, *, yes: bool = False) -> None:
        self._yes = yes
        self._probe = ProbeProgress(quiet=False)
        self._upload = ChangingLine()
        self._fleet: Inventory | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._probe.__exit__(kind, error, at)
        self._upload.hide()

    def asking(self, nodes: Sequence[NodeName]) -> None:
        """Start to wait for nodes."""
        self._probe.asking(nodes)

    def heard(self, node: NodeName, *, answered: bool) -> None:
        """Count a node that has answered, or will not."""
        self._probe.heard(node, answered=answered)

    def learnt(self, keys: Sequence[LearntKey]) -> None:
        """Write which host keys were learnt."""
        self._probe.learnt(keys)

    def confirm(self, question: str) -> None:
        """Return where the user agrees; otherwise the command ends."""
        agree(question, yes=self._yes)

    def notify(self, notice: Notice) -> None:
        """Write a notice."""
        match notice:
            case InventoryRead(fleet=fleet):
                self._fleet = fleet
                self._probe.quiet = not fleet.capabilities.own_machines
                say(fleet_text(fleet))
            case FileWarning(mistake=mistake):
                say(warning_text(mistake))
            case BucketUpload():
                self._upload.show(_upload(notice))
            case BucketsUploaded():
                self._upload.hide()
            case CloneBegun(workdir=workdir):
                say(clean(f"cloning {workdir}"))
            case KindChosen():
                say(clean(_kind(notice)))
            case DomainsUnknown(nodes=nodes, assumed=assumed):
                rack = ", and the rack is taken for it" if assumed else ""
                warn(
                    f"the NVLink domain of {fold(nodes)} is unknown{rack}: "
                    "`nvlaunch doctor` or `nvlaunch up` asks the nodes"
                )
            case JobAwaited(nodes=nodes, limit=limit):
                say(clean(f"waiting up to {span(limit)} for Slurm to let us into {fold(nodes)}"))
            case NodesHeld(held=held):
                say(clean(f"skipped {held_text(held)}"))
            case NodesUnfit(unfit=unfit):
                for names, why in fold_messages(unfit.items()):
                    say(clean(f"skipped {names}: {why}"))
            case NodesChecked(examined=examined):
                for row in rows(examined):
                    if row.finding.result is CheckResult.BAD:
                        warn(clean(f"{row.whose}: {row.facts}: {row.finding.message}"))
            case StartCheckBegun(nodes=nodes, limit=limit, total=total):
                say(
                    f"`before_start` on {count(len(nodes), 'node')}: up to {span(limit)} a test, {span(total)} in total"
                )
            case NodesPassed(results=results):
                _passed(results)
            case TaskPlaced(task=task, placement=placement, costs=costs, again=again):
                if again:
                    say("other runs took some of these nodes; the new plan:")
                say(plan_text(task, placement, costs, self._fleet))
                if not again:
                    self._say_commands(task)
            case DoesNotFitNow(task=task, shortfall=shortfall):
                say(clean(f"does not fit now: {shortfall_summary(shortfall)}"))
                self._say_commands(task)
            case FilesWeighed(weight=weight):
                _files(weight)
            case NodesLost(name=name, held=held):
                say(clean(f"{held_text(held)}; placing `{name}` again"))
            case ResizePlanned(run=run, difference=difference):
                say(clean(_resize(run.name, len(run.placement.slices), difference, self._fleet)))
            case _:
                assert_never(notice)

    def _say_commands(self, task: Task) -> None:
        for line in commands_here(task, self._fleet) if self._fleet else ():
            say(line)


def _upload(notice: BucketUpload) -> str:
    size = f"{data_size(notice.copied)} of {data_size(notice.total)}"
    return f"uploading `{notice.path}` to {notice.url}: {size}{notice.more}"


def _kind(notice: KindChosen) -> str:
    group = notice.group
    kind = f"`{group.accelerator}:{group.gpus}`" if group.accelerator else "no GPU"
    fits = "" if notice.fits else "; none of them fits"
    return f"group `{group.name}`: {kind}, choice {notice.index + 1} of {notice.total}{fits}"


def _files(weight: UploadSize) -> None:
    for one in weight.wheels:
        wheels = f"`{one.path}`: {count(one.files, 'wheel')}, {data_size(one.size)}"
        say(clean(f"to nodes without Ray and without this folder: {wheels}"))
    if not weight.sources:
        return
    amount = f"{count(weight.files, 'file')}, {data_size(weight.size)}"
    if weight.ignored:
        amount += f", {weight.ignored} ignored"
    say(f"to each node: {amount}")
    for one in weight.sources:
        say(clean(f"  {source_text(one.path, one.to)}: {count(one.files, 'file')}, {data_size(one.size)}"))
    if weight.files > MANY_FILES or weight.size > MANY_BYTES:
        hint = "exclude what the ranks do not need with `.gitignore` or `.skyignore`"
        warn(f"copying {amount} to each node takes a while: {hint}")
    if weight.special:
        more = f" and {len(weight.special) - MAX_NAMED} more" if len(weight.special) > MAX_NAMED else ""
        named = ", ".join(f"`{name}`" for name in weight.special[:MAX_NAMED])
        warn(clean(f"not copied, because they are sockets, pipes or devices: {named}{more}"))


def _resize(name: str, before: int, difference: ResizePlan, fleet: Inventory | None) -> str:
    """Return the slices that are added and removed, and how many stay."""
    changed = [_row("+", part, fleet) for part in difference.added]
    changed += [_row("-", part, fleet) for part in difference.removed]
    stays = f"{count(before - len(difference.removed), 'slice')} of `{name}` unchanged"
    return "\n".join((stays, table(("", "SLICE", "RACK", "NODES", "SPARES"), changed, indent="  ")))


def _row(sign: str, part: Slice, fleet: Inventory | None) -> tuple[str, ...]:
    return sign, part.key, racks_text(part, fleet), fold(part.nodes), fold(part.spares) if part.spares else ""


def _passed(results: Sequence[CheckedNode]) -> None:
    """Write how many nodes have passed `before_start`, and for which it cannot tell."""
    totals = {verdict: sum(one.verdict is verdict for one in results) for verdict in NodeVerdict}
    say(f"`before_start`: {', '.join(f'{number} {verdict.value}' for verdict, number in totals.items() if number)}")
    unclear = ((one.node, one.message) for one in results if one.verdict is NodeVerdict.CANNOT_TELL)
    for names, why in fold_messages(unclear):
        warn(clean(f"{names}: `before_start` cannot tell: {why}; used all the same"))
