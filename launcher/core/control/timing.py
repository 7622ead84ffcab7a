"""Every time and count limit of the control room.

Times are in seconds and end in `_S`; all others are counts.

Why the limits fit together, in the order in which they matter for a node that stops answering:

* We look every `STEADY_S`, or `BUSY_S` while something is under way. People are told of a lost view after `BLINK_S` <
  `WITNESS_S`: no message appears for a lost packet, and one appears before anything is done.
* The node's own agent kills its ranks and its Ray `SELF_STOP_S` after the head last answered it. Ten seconds of silence
  have to cost nothing: a node that is cut off tries a new connection each `heartbeat.CONNECT_S`, so that it is answered
  within a second after them. That leaves a second for an agent that waits for its turn on a busy machine; without
  silence it may wait for all of `SELF_STOP_S`.
* We count on its end at `EXPIRED_S`: `MARGIN_S` later. The head heard a heartbeat after the node sent it, so its count
  begins no earlier than the node's: the margin is for the kill, and for clocks that run apart (7 ms). The agent's own
  check is late by `heartbeat.LEAST_S`; an agent that is stopped is replaced by the parents of its ranks, each of which
  is late by `rank.LATE_S`, and by `rank.LOOK_S` more where the deadline was drawn nearer just now.
* The head is given up at `HEAD_EXPIRED_S`: `HEAD_MARGIN_S` after `SELF_STOP_S`. There the counts begin the other way
  round: the head may have heard one heartbeat whose reply was lost (`PERIOD_S` + `REPLY_S` after the last one that was
  answered). It finds out within `heartbeat_server.ROUND_S`, ranks beside it are told one `PERIOD_S` later, and what is
  left is for the kill. `launcher/runtime/heartbeat.py` argues both from the node's side; `transport` gives it
  `SELF_STOP_S` and `POPULATION_S`, so that there is one number.
* A witness counts at `WITNESS_S` < `SELF_STOP_S`: by the time a node may have stopped itself it is known who misses it.
* Whether a node is off is asked at `POWER_QUERY_S` < `WITNESS_S`, since asking changes nothing. The answer is a proof
  by itself. It counts only if no witness has heard the node for as long, some eight heartbeats: a switch that is asked
  about another machine says nothing of one that is heard.
* Power is cut at `POWER_OFF_S` > `WITNESS_S`, and no earlier: ten seconds of silence have to cost nothing. It needs two
  witnesses, and each that can say since when has to have missed the node for so long. It spares the wait for
  `EXPIRED_S` alone if it takes less than the rest of it.
* Ray itself drops a silent raylet after 17 to 18 s (`setup/ray.environment`). A slice is reserved again without waiting
  for that (`slots/handover.py`), where a spare is ready.
* A failed gang waits `SILENCE_S` > `EXPIRED_S` for news of a silent node: long enough for the proof that it stopped.
  Only after that, at `UNPROVEN_S`, a person is asked to confirm.
* The head is lost when more than half of its peers missed it for `HEAD_EXPIRED_S` within one `POPULATION_S`, so that
  `POPULATION_S` has to be more than twice `HEAD_EXPIRED_S`.
* Before any rank ran, waiting costs nothing but time. A node that a spare can replace is given up at `CONNECT_S`, after
  `EXPIRED_S`, so that it cannot come back with a lease of this run; any other at `PATIENCE_S`.
* Retries wait 1, 2, 4, 8, ... s up to `LONGEST_WAIT_S`: `TRIES` take 15 s. Kills that fail are shown to people
  (`KILL_TRIES_SHOWN`), then cost a node its slot (`KILL_TRIES_NOT_FREE`), then its power (`KILL_TRIES_POWER_OFF`).
"""

# Heartbeats. Twins on the node: `heartbeat.PERIOD_S` and `heartbeat.REPLY_S` (0.5 s, 1 s), `rank.LOOK_S` (1 s).
SELF_STOP_S = 12.0
"""An agent that the head's machine has not answered for so long kills its ranks and its Ray (suspension included).

An agent keeps the number it was started with. If you lower it, `EXPIRED_S` would count an agent of the version before
as stopped too early: raise `runtime/protocol.PROTOCOL` with it, so that such an agent is not reused."""
MARGIN_S = 2.0
"""How much longer we wait than that for a node: a kill takes a moment, and clocks of machines run a little apart."""
EXPIRED_S = SELF_STOP_S + MARGIN_S
"""After so long without a heartbeat a node is proven to run nothing of the run."""
HEAD_MARGIN_S = 3.0
"""The same for the head, which may have heard one heartbeat more than its peers know of."""
HEAD_EXPIRED_S = SELF_STOP_S + HEAD_MARGIN_S
"""After so long without an answer to most of its peers the head is proven to run nothing of the run."""
ABANDONED_S = 600.0
"""An agent that has stopped its node, and that no launcher has asked for so long, ends and releases the lease: nobody
could do it otherwise, if the run has ended meanwhile. Longer than a switch takes to restart (`PATIENCE_S`), so that a
run without a spare finds its node still its own after that."""
POPULATION_S = 60.0
"""The head's agent counts on nodes that it heard within so long; with less than half of them it stops itself."""
WITNESS_S = 8.0
"""How long a witness (we, the head, a peer) must have missed a node before it counts as a witness."""
POWER_QUERY_S = 4.0
"""The same before it is asked whether the node is off (`power_query`): that costs a node nothing."""
POWER_OFF_S = 10.0
"""How long every witness that knows since when must have missed a node before its power is cut (`fence_command`)."""
UNPROVEN_S = 40.0
"""How long a node may be silent without proof that it stopped, before a person is asked to confirm it."""

# A launch: before any rank ran.
CONNECT_S = 30.0
"""How long a launch waits for a node that a spare can replace, where nothing has to be fenced first; also for a node
that an operator confirmed dead, and with `on_no_spare: fail`."""
PATIENCE_S = 300.0
"""How long a launch waits for a node that nothing can replace: longer than a switch takes to restart."""
JOIN_S = 90.0
"""How long a live raylet may be missing in Ray's table: `ray start` gives up after 30 s, and Ray needs up to 18 s to
notice that a silent raylet is gone. Counted only while the head answers. (`ray_start.HEAD_S` bounds the other wait.)"""
PLACE_S = 10.0
"""How long Ray may take to place a group whose slots are all alive; measured: milliseconds."""
PLACE_TRIES = 2
"""How often a group is removed and reserved again before the run's whole Ray is begun anew."""
HEAD_STARTS = 5
"""How often in a row the head is started and does not answer before the launch fails."""

# Failures: who is at fault.
EVIDENCE_S = 5.0
"""How long the nodes of a failed gang may take to report their health (`drive/health_polling.AGAIN_S`: 1 s)."""
SILENCE_S = 30.0
"""How long a failed gang waits for news of a node that has fallen silent."""
SHARED_FAULT_NODES = 3
"""So many nodes that show the same fault at once are not replaced: the fault is behind them."""
FOLLOWERS_S = 2.0
"""How long after the end of a failed rank its peers are awaited, which may turn out to be the cause: the parent of a
rank writes down its end at once, and a look comes each second. A rank that was killed is not waited for."""
JOINT_FAILURE_S = 5.0
"""Ranks that failed within so long failed together: a program that is killed can take seconds to give back the memory
of its GPUs, and its end is seen after that of the peers whose connections broke."""
FIRST_FAILURES = 3
"""After so many failures of a program whose first failing rank was on one node, another node is tried."""
FAILURES_KEPT = 50
"""So many failures of the program are kept in the record of a run."""
DEAD_IN_RAY_S = 5.0
"""How long Ray may list a raylet as dead that runs: a raylet that learns of it ends itself."""
PROVEN_S = 600.0
"""How long a node has to serve until its failed attempts are forgotten."""
MOVE_S = 1800.0
"""How long the new nodes of a slice that a plan moves may take to be ready, before the slice stays where it is."""
RECOVERED_S = 30.0
"""How far apart two good health reports of a failed node have to be before it is used again."""

# Retries, of one action in a row.
TRIES = 5
"""Failures of one action of the whole run (head, reserve, verify, start) before the run fails."""
LONGEST_WAIT_S = 30.0
"""The longest wait between two tries."""
ALLOT_WAIT_S = 60.0
"""The longest wait before another node or another place is asked for again: each try is a line of the journal."""
KILL_TRIES_SHOWN = 2
"""Failed kills before people are told."""
KILL_TRIES_NOT_FREE = 3
"""Kills that find the GPUs in use by others before the slot goes to another node."""
KILL_TRIES_POWER_OFF = 5
"""Failed kills, over some 20 s, before the node is powered off, where the inventory has a `fence_command`."""
POWER_OFF_AGAIN_S = 120.0
"""When that is tried again: a machine may be seen for a while after its power was cut (`fence.FENCE_S`: 60 s)."""
GROW_LONGEST_S = 3600.0
"""The longest wait for a growth after others that did not last, if `grow_after` is not longer: each costs a restart."""

# Looks.
BUSY_S = 0.3
"""Time between looks while something is under way."""
STEADY_S = 1.0
"""Time between looks while all is well."""
DEMAND_S = 120.0
"""When people are told that a driver runs while Ray cannot place what it asks for, and no GPU is in use: longer than a
`runtime_env` or a model usually takes to load. Again after five times as long, and so on: each is a line of the
journal."""
RELEASE_PENDING_S = 5.0
"""Time between looks while only nodes out of reach are left to release."""
BLINK_S = 5.0
"""How long a node may be out of sight before people are told: an agent that is starting does not answer yet."""
CLOCK_JUMP_S = 1.0
"""Drift of the time of day from the loop's clock that counts as the clock having been set."""
