"""The `traffic` of a group: what a step computes and sends."""

from launcher.config.schema.fields import Field, section
from launcher.config.schema.scalars import Number
from launcher.config.yaml.values import Values
from launcher.core.model.traffic import Traffic

_SECONDS = Number(above=True, high=1_000_000)
_GB = Number(high=1_000_000)
TRAFFIC = section(
    Field(name="compute_s", doc="Seconds that a step computes.", type=_SECONDS, required=True),
    Field(name="all_reduce_gb", doc="GB of all-reduce.", type=_GB, default=0),
    Field(name="all_gather_gb", doc="GB of all-gather.", type=_GB, default=0),
    Field(name="reduce_scatter_gb", doc="GB of reduce-scatter.", type=_GB, default=0),
    Field(name="all_to_all_gb", doc="GB of all-to-all.", type=_GB, default=0),
    expected="a mapping such as `{compute_s: 0.9, all_reduce_gb: 40}`",
)


def read_traffic(own: Values, task: Values) -> Traffic | None:
    """Return the traffic of a group, or else that of the task; None without."""
    written = (own if own.has("traffic") else task).section("traffic")
    compute_s = written.get("compute_s", float)
    if compute_s is None:
        return None

    def gb(name: str) -> float:
        return written.get(name, float) or 0.0

    return Traffic(
        compute_s=compute_s,
        all_reduce_gb=gb("all_reduce_gb"),
        all_gather_gb=gb("all_gather_gb"),
        reduce_scatter_gb=gb("reduce_scatter_gb"),
        all_to_all_gb=gb("all_to_all_gb"),
    )
