"""The rate of faults that a fleet's own incidents come to, and how far it can be trusted."""

from dataclasses import dataclass

from launcher.core.model.text import count
from launcher.core.planner.faults import PublishedRate

FEWEST = 3
"""With fewer incidents the 95 % interval of the rate spans a factor of more than 30: no rate is given."""

FEW = 10
"""With fewer incidents the 95 % interval spans a factor of more than 4: the rate is doubtful."""

_Z = 1.96


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedFaults:
    """Incidents of nodes while runs used them, and how long that was (GPU-days)."""

    incidents: int
    gpu_days: float

    @property
    def doubtful(self) -> bool:
        """Whether there are too few incidents for a good rate."""
        return self.incidents < FEW

    def node_days(self, gpus_per_node: int) -> float:
        """Return how many node-days the GPU-days are."""
        return self.gpu_days / gpus_per_node

    def rate(self, gpus_per_node: int) -> PublishedRate:
        """Return the rate; ValueError where there are too few incidents for one."""
        days = f"{self.node_days(gpus_per_node):.1f} node-days of runs"
        if self.incidents < FEWEST or self.gpu_days <= 0:
            raise ValueError(f"{count(self.incidents, 'incident')} in {days} give no rate of faults")
        return PublishedRate(
            per_gpu_day=self.incidents / self.gpu_days, source=f"{count(self.incidents, 'incident')} in {days}"
        )

    def days_between(self, gpus_per_node: int) -> tuple[float, float]:
        """Return the 95 % interval of a node's mean time between faults (days); for at least one incident.

        Source of the form: the exact interval of a Poisson count in the approximation of Byar.
        """
        number, above = float(self.incidents), float(self.incidents + 1)
        low = number * (1 - 1 / (9 * number) - _Z / (3 * number**0.5)) ** 3
        high = above * (1 - 1 / (9 * above) + _Z / (3 * above**0.5)) ** 3
        days = self.node_days(gpus_per_node)
        return days / high, days / low
