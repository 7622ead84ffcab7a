"""Deadlines of commands share one thread."""

import threading

from launcher.transport.ssh.watchdog import Watchdog

SOON_S = 20.0


def test_deadlines_act_in_their_order_and_a_cancelled_one_does_not() -> None:
    watchdog, acted, over = Watchdog(), list[str](), threading.Event()
    watchdog.after(0.06, over.set)
    watchdog.after(0.04, lambda: acted.append("second"))
    cancelled = watchdog.after(0.01, lambda: acted.append("cancelled"))
    watchdog.after(0.02, lambda: acted.append("first"))
    cancelled.cancel()
    assert over.wait(SOON_S)
    assert acted == ["first", "second"]


def test_an_act_that_blocks_delays_no_other() -> None:
    watchdog, blocked, over = Watchdog(), threading.Event(), threading.Event()
    watchdog.after(0.0, lambda: blocked.wait(SOON_S))
    watchdog.after(0.01, over.set)
    assert over.wait(SOON_S)
    blocked.set()
