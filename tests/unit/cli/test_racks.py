"""The map of an inventory: what each tray is drawn as."""

import pytest

from launcher.cli.output.racks import racks_json, racks_text
from launcher.core.model.placement import Unavailable
from tests.situations import make_run, name

FLEET = make_run(slices=1, nodes=2, spares=1).fleet


@pytest.mark.parametrize(
    ("use", "sign", "state"),
    [
        (Unavailable(used_by="job"), "A", "used"),
        (Unavailable(used_by="job", unhealthy="agent is not running"), "!", "unhealthy"),
        (Unavailable(used_by="job", drained="bad fan"), "~", "draining"),
        (Unavailable(drained="bad fan"), "x", "drained"),
        (Unavailable(unhealthy="quarantined"), "!", "unhealthy"),
        (Unavailable(used_by="big", reserved_for="big", unhealthy="quarantined"), "A", "reserved"),
        (Unavailable(), ".", "free"),
    ],
    ids=["used", "failed", "draining", "drained", "quarantined", "reserved", "free"],
)
def test_a_tray_is_drawn_as_what_it_is(use: Unavailable, sign: str, state: str) -> None:
    unavailable = {name(1, 2): use}
    _, row, *_ = racks_text(FLEET, unavailable).split("\n")
    assert row.split()[1] == f".{sign}."
    (rack,) = racks_json(FLEET, unavailable)["racks"]  # type: ignore[misc]
    assert rack["nodes"][1]["state"] == state
    legend = racks_text(FLEET, unavailable).split("\n\n")[1]
    assert ("~ draining" in legend) is (state == "draining")
