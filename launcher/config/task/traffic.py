"""The `traffic` of a group: what a step computes and sends."""

from launcher.config.yaml.values import Values
from launcher.core.model.traffic import Traffic


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
