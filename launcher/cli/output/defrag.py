"""Plans of moves as text and JSON, and the news of their steps."""

import json
from collections.abc import Iterator

from launcher.admission.moves.execution import StepProgress, StepState
from launcher.admission.moves.planning import RoomRequest
from launcher.cli.output.console import clean
from launcher.cli.output.plan import racks_text
from launcher.cli.output.table import table
from launcher.core.model.nodeset import fold
from launcher.core.model.placement import Placement
from launcher.core.model.text import count
from launcher.core.planner.defragment import NO_MOVES, NONE_FOUND, MovePlan, NoMovePlan, nodes_of

_NEWS = {
    StepState.ASKED: "asked to move",
    StepState.MOVING: "waits for its new nodes",
    StepState.RESTARTING: "restarts on its new nodes",
    StepState.DONE: "has moved",
    StepState.STAYED: "stays where it is",
}


def plan_text(room: RoomRequest, plan: MovePlan) -> str:
    """Return the moves of a plan, what they cost, and what becomes free."""
    return clean("\n".join(_plan(room, plan)))


def _plan(room: RoomRequest, plan: MovePlan) -> Iterator[str]:
    if not plan.steps:
        several = not room.kept and room.task.groups[0].topology.slices > 1
        yield f"no moves needed: {_wanted(room)} {'fit' if several else 'fits'} now"
        return
    yield f"{count(len(plan.moves), 'move')} to make room for {_wanted(room)}: {_cost(plan)}"
    rows = [
        (
            str(number),
            move.run,
            move.old.key,
            f"{racks_text(move.old, room.fleet)}: {fold(nodes_of(move.old))}",
            f"{racks_text(move.new, room.fleet)}: {fold(nodes_of(move.new))}",
            f"{step.gpu_hours:.1f}" if at == 0 else "",
        )
        for number, step in enumerate(plan.steps, start=1)
        for at, move in enumerate(step.moves)
    ]
    yield table(("STEP", "RUN", "SLICE", "FROM", "TO", "GPU-HOURS"), rows, indent="  ")
    yield "room after that:"
    yield table(("SLICE", "RACK", "NODES"), _room_rows(room, plan.placement), indent="  ")


def _room_rows(room: RoomRequest, placement: Placement) -> list[tuple[str, str, str]]:
    return [(part.key, racks_text(part, room.fleet), fold(nodes_of(part))) for part in placement.slices]


def _wanted(room: RoomRequest) -> str:
    if room.kept:
        return f"`{room.task.name}`"
    rule = room.task.groups[0].topology
    return f"{count(rule.slices, 'slice')} of {count(rule.nodes_per_slice, 'node')}"


def _cost(plan: MovePlan) -> str:
    """Return the cost of a plan, and how far it may be from the cheapest."""
    cost = f"{plan.gpu_hours:.1f} GPU-hours, {count(len(plan.steps), 'restart')}"
    if plan.proven:
        return f"{cost}; no plan costs less"
    return f"{cost}; no plan costs less than {plan.bound_gpu_hours:.1f}" if plan.bound_gpu_hours else cost


def refusal_text(room: RoomRequest, refusal: NoMovePlan) -> str:
    """Return why no moves make room, and which slices may not move."""
    if refusal.reason in (NO_MOVES, NONE_FOUND):
        lines = [f"{refusal.reason} for {_wanted(room)}"]
    else:
        proof = "" if refusal.proven else " (not proven)"
        lines = [f"{NO_MOVES} for {_wanted(room)}: {refusal.reason}{proof}"]
    lines += [f"  {count(number, 'slice')} may not move: {why}" for why, number in refusal.fixed.items()]
    if "not movable" in refusal.fixed:
        lines.append("  hint: `movable: true` in the task of a run lets its slices move")
    return clean("\n".join(lines))


def excess(plan: MovePlan, max_cost: float | None, max_moves: int | None) -> str | None:
    """Return which limit a plan is over: of its cost (GPU-hours) or its number of moves; None for neither."""
    if max_cost is not None and plan.gpu_hours > max_cost:
        texts = (f"{plan.gpu_hours:.{digits}f}" for digits in range(1, 7))
        cost = next((text for text in texts if float(text) > max_cost), str(plan.gpu_hours))
        return f"the moves cost {cost} GPU-hours, more than {max_cost:.10g}"
    if max_moves is not None and len(plan.moves) > max_moves:
        return f"the plan has {count(len(plan.moves), 'move')}, more than {max_moves}"
    return None


def question(plan: MovePlan) -> str:
    """Return what has to be agreed to."""
    runs = fold(step.moves[0].run for step in plan.steps)
    return f"move {count(len(plan.moves), 'slice')} of {runs}? their ranks get `stop_signal` and restart once"


def progress_text(news: StepProgress) -> str:
    """Return a line about a step."""
    moved = ", ".join(f"{part.slice} -> {fold(part.nodes)}" for part in news.step.new)
    why = f": {news.message}" if news.message else ""
    return f"step {news.number} of {news.total}: {news.step.run} {moved}: {_NEWS[news.state]}{why}"


def plan_json(room: RoomRequest, plan: MovePlan | NoMovePlan) -> str:
    """Return a plan, or why there is none, as JSON."""
    if isinstance(plan, NoMovePlan):
        found: dict[str, object] = {"reason": plan.reason, "proven": plan.proven, "fixed": dict(plan.fixed)}
        return json.dumps({"for": room.task.name, "plan": None, "refusal": found}, indent=2)
    steps = [
        {
            "gang": step.gang,
            "gpu_hours": round(step.gpu_hours, 3),
            "moves": [
                {
                    "run": move.run,
                    "slice": move.old.key,
                    "from": {"rack": racks_text(move.old, room.fleet), "nodes": nodes_of(move.old)},
                    "to": {"rack": racks_text(move.new, room.fleet), "nodes": nodes_of(move.new)},
                }
                for move in step.moves
            ],
        }
        for step in plan.steps
    ]
    found = {
        "gpu_hours": round(plan.gpu_hours, 3),
        "bound_gpu_hours": round(plan.bound_gpu_hours, 3),
        "proven": plan.proven,
        "steps": steps,
        "room": [
            {"slice": part.key, "rack": racks_text(part, room.fleet), "nodes": nodes_of(part)}
            for part in plan.placement.slices
        ],
    }
    return json.dumps({"for": room.task.name, "plan": found, "refusal": None}, indent=2)
