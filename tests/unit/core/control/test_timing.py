"""The limits of the control room fit together, and with their twins on nodes."""

from itertools import pairwise

from launcher.core.control import timing
from launcher.core.control.timing import (
    ALLOT_WAIT_S,
    BLINK_S,
    BUSY_S,
    CONNECT_S,
    DEAD_IN_RAY_S,
    EVIDENCE_S,
    EXPIRED_S,
    HEAD_EXPIRED_S,
    HEAD_MARGIN_S,
    JOIN_S,
    KILL_TRIES_NOT_FREE,
    KILL_TRIES_POWER_OFF,
    KILL_TRIES_SHOWN,
    LONGEST_WAIT_S,
    MARGIN_S,
    PATIENCE_S,
    PLACE_S,
    POPULATION_S,
    POWER_OFF_AGAIN_S,
    POWER_OFF_S,
    POWER_QUERY_S,
    PROVEN_S,
    RECOVERED_S,
    RELEASE_PENDING_S,
    SELF_STOP_S,
    SILENCE_S,
    STEADY_S,
    TRIES,
    UNPROVEN_S,
    WITNESS_S,
)
from launcher.drive import health_polling
from launcher.runtime import heartbeat, heartbeat_server, rank
from launcher.setup import ray
from launcher.transport import fence


def rises(*limits: float) -> bool:
    return all(low < high for low, high in pairwise(limits))


def test_a_silent_node_is_missed_then_stopped_then_proven_then_judged_then_asked_about() -> None:
    assert rises(BUSY_S, STEADY_S, BLINK_S, WITNESS_S, POWER_OFF_S, SELF_STOP_S, EXPIRED_S, SILENCE_S, UNPROVEN_S)


def test_the_margin_covers_what_a_node_needs_to_stop_itself() -> None:
    assert heartbeat.LEAST_S < MARGIN_S
    assert rank.LOOK_S + rank.LATE_S + rank.SOON_S < MARGIN_S


def test_the_margin_of_a_head_covers_a_heartbeat_whose_reply_is_lost_and_the_word_to_the_slot_beside_it() -> None:
    unknown = heartbeat.PERIOD_S + heartbeat.REPLY_S
    assert unknown + heartbeat_server.ROUND_S + heartbeat.PERIOD_S < HEAD_MARGIN_S


def test_ten_seconds_of_silence_cost_nothing() -> None:
    answered_last, answered_again = -heartbeat.PERIOD_S, 10.0 + heartbeat.CONNECT_S + heartbeat.LEAST_S
    assert answered_again < answered_last + SELF_STOP_S - 0.5, "and a busy node has half a second to notice it"
    assert POWER_OFF_S >= 10.0
    assert heartbeat.PERIOD_S * 4 < POWER_QUERY_S < WITNESS_S
    checks = ray.environment(head=True, tls=False)
    period, timeout = (float(checks[f"RAY_health_check_{one}_ms"]) / 1000 for one in ("period", "timeout"))
    tries = int(checks["RAY_health_check_failure_threshold"])
    sent_again = 12.6  # TCP's sixth try, of what is lost at the start of a silence
    assert tries * timeout + (tries - 1) * period > sent_again + 3, "Ray must not drop a node for it"


def test_a_cut_off_head_has_stopped_before_nodes_leave_its_population() -> None:
    assert POPULATION_S > 2 * HEAD_EXPIRED_S


def test_a_launch_gives_a_node_up_only_after_its_agent_has_stopped_itself() -> None:
    assert rises(EXPIRED_S, CONNECT_S, PATIENCE_S)
    assert rises(EXPIRED_S, CONNECT_S, JOIN_S)


def test_health_is_asked_and_answered_before_a_gang_is_judged_without_it() -> None:
    assert rises(health_polling.AGAIN_S, EVIDENCE_S, WITNESS_S)
    assert rises(health_polling.AGAIN_S, RECOVERED_S, PROVEN_S)


def test_tries_and_waits_rise_together() -> None:
    assert rises(KILL_TRIES_SHOWN, KILL_TRIES_NOT_FREE, KILL_TRIES_POWER_OFF)
    assert sum(2.0**at for at in range(TRIES - 1)) == 15.0
    assert rises(DEAD_IN_RAY_S, PLACE_S, LONGEST_WAIT_S, ALLOT_WAIT_S)
    assert rises(fence.FENCE_S, POWER_OFF_AGAIN_S)
    assert rises(STEADY_S, RELEASE_PENDING_S)


def test_every_time_says_its_unit() -> None:
    limits = {name: value for name, value in vars(timing).items() if name.isupper()}
    assert all(isinstance(value, float) is name.endswith("_S") for name, value in limits.items())
