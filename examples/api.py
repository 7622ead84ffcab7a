"""Start a task on an imaginary fleet from Python, follow it, and print how it ended.

    python examples/api.py

It works the same with the path of a real inventory instead of `FLEET`.
"""

from pathlib import Path

from launcher import api
from launcher.errors import NoCapacityError

FLEET = """
name: imaginary
transport: sim
sim: {speed: inf}
defaults: {accelerator: GB300}
racks: {r1: {nodes: "r1-n[01-18]"}, r2: {nodes: "r2-n[01-18]"}}
"""


def main() -> None:
    """Plan, start, read the log of rank 0, wait."""
    task = Path(__file__).with_name("torchrun.yaml")
    try:
        plan = api.plan(task, inventory=FLEET)
    except NoCapacityError as error:
        raise SystemExit(f"{error}: {'; '.join(error.shortfall.suggestions)}") from None
    for part in plan.slices:
        print(f"slice {part.slice} of {part.group}: {', '.join(part.nodes)}")
    run = api.up(task, inventory=FLEET, name="from-python")
    print(f"{run.id}: {run.state.value}, started by {run.user}")
    outcome = api.wait(run.id, timeout=600)
    print(f"{outcome.cause.value}: {outcome.message}")
    print(f"{len(list(api.events(run.id)))} events, {api.status(run.id).restarts} restarts")


if __name__ == "__main__":
    main()
