"""Read policies from YAML files."""

from pathlib import Path

from launcher.config.schema.fields import Field, section
from launcher.config.schema.patterns import label
from launcher.config.schema.scalars import Choice, Duration, Integer, Number
from launcher.config.yaml.diagnostics import Diagnostics, KeyPath
from launcher.config.yaml.document import only_document, parse_documents
from launcher.config.yaml.text_file import read_text
from launcher.config.yaml.values import Values
from launcher.core.model.task import OnNoSpare
from launcher.simulate.policy import Policy, QueueOrder

MAX_BYTES = 100_000

_DEFAULT = Policy()

POLICY = section(
    Field(name="name", doc="The name of the policy in tables. Default: the name of the file.", type=label),
    Field(name="slice_nodes", doc="The most nodes of a slice.", type=Integer(low=1, high=1024)),
    Field(name="spares", doc="Spare nodes of each slice.", type=Integer(high=64)),
    Field(name="spares_from", doc="The fewest nodes of a job with spares.", type=Integer(low=1, high=100_000)),
    Field(
        name="on_no_spare",
        doc="What a run does without a spare, as in task files; a run that fails is queued again.",
        type=Choice(choices=tuple(one.value for one in OnNoSpare)),
    ),
    Field(
        name="queue",
        doc="What starts while an earlier run waits.",
        type=Choice(choices=tuple(one.value for one in QueueOrder)),
    ),
    Field(
        name="time_limit_factor",
        doc="The time limit of a job as a multiple of its duration; `inf` for no time limits.",
        type=Number(endless=True, above=True),
    ),
    Field(
        name="preempt_from_gpus",
        doc="Jobs of so many GPUs may preempt smaller ones. Default: none may.",
        type=Integer(low=1, high=10_000_000),
    ),
    Field(name="defragment_gpu_hours", doc="The GPU-hours that moves of slices may cost a day.", type=Number()),
    Field(name="checkpoint", doc="The time between checkpoints.", type=Duration(above=True)),
    Field(name="checkpoint_write", doc="How long a checkpoint blocks a job.", type=Duration()),
    Field(name="program_start", doc="From the start of its ranks until a program computes.", type=Duration()),
    Field(name="stop_grace", doc="The time that a program has for a checkpoint when it is moved.", type=Duration()),
    Field(name="drain_notice", doc="How long before maintenance a rack is drained.", type=Duration()),
    Field(name="operator", doc="How long an operator needs to confirm that machines are off.", type=Duration()),
    expected="a mapping such as `spares: 1`",
)


def read_policy(path: Path) -> Policy:
    """Return the policy of a file, completed by the defaults. SpecError with every mistake."""
    text = read_text(path, what="policy file", limit=MAX_BYTES)
    document = only_document(parse_documents(text, str(path), what="policy"))
    out = Diagnostics(document.where, document.mistakes)
    values = POLICY.read(document.root, KeyPath("", out))
    slice_nodes, spares_from = _number(values, "slice_nodes"), _number(values, "spares_from")
    out.finish()
    return Policy(
        name=values.get("name", str) or path.stem,
        slice_nodes=_DEFAULT.slice_nodes if slice_nodes is None else slice_nodes,
        spares=_DEFAULT.spares if (spares := _number(values, "spares")) is None else spares,
        spares_from=_DEFAULT.spares_from if spares_from is None else spares_from,
        on_no_spare=OnNoSpare(values.get("on_no_spare", str) or _DEFAULT.on_no_spare.value),
        queue=QueueOrder(values.get("queue", str) or _DEFAULT.queue.value),
        time_limit_factor=_factor(values),
        preempt_from_gpus=_number(values, "preempt_from_gpus"),
        defragment_gpu_hours=_seconds(values, "defragment_gpu_hours", _DEFAULT.defragment_gpu_hours),
        checkpoint_s=_seconds(values, "checkpoint", _DEFAULT.checkpoint_s),
        write_s=_seconds(values, "checkpoint_write", _DEFAULT.write_s),
        program_start_s=_seconds(values, "program_start", _DEFAULT.program_start_s),
        stop_grace_s=_seconds(values, "stop_grace", _DEFAULT.stop_grace_s),
        drain_notice_s=_seconds(values, "drain_notice", _DEFAULT.drain_notice_s),
        operator_s=_seconds(values, "operator", _DEFAULT.operator_s),
    )


def _number(values: Values, name: str) -> int | None:
    return values.get(name, int)


def _seconds(values: Values, name: str, default: float) -> float:
    found = values.get(name, float)
    return default if found is None else found


def _factor(values: Values) -> float | None:
    factor = values.get("time_limit_factor", float)
    if factor is None:
        return _DEFAULT.time_limit_factor
    return None if factor == float("inf") else factor
