"""The figures of all runs for Prometheus, made of their journals and snapshots at each scrape."""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from launcher.core.model.run import RunId, RunState
from launcher.drive.run_stats import Tally
from launcher.errors import LaunchError, OtherVersionError, StoreError
from launcher.store.rows import RunRow, readable
from launcher.store.store import Store

BUCKETS = (5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 300.0, 600.0, 1800.0)
"""Upper bounds of the times to recover (s): close where the product promises something, 12, 35 and 60 s."""

RECENT_S = 3600.0
"""How long a run that is over is still shown (s), so that no scrape misses how it ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """What a snapshot says: the state and the rack of each rank, and the rack of each spare."""

    ranks: tuple[tuple[str, str], ...] = ()
    spares: Mapping[str, str] = field(default_factory=dict)


class RunCollector(Collector):
    """Reads on in the journals since the last scrape."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tallies: dict[RunId, Tally] = {}
        self._shown: dict[RunId, _Shown] = {}

    def collect(self) -> Iterator[Metric]:
        """Return every figure; series of runs have the labels `run`, `id` and `inventory`. Of a store that fails there
        is but one."""
        store = GaugeMetricFamily("nvlaunch_store_readable", "1 where what is known of runs can be read.")
        try:
            figures = list(self._figures(time.time()))
        except StoreError:
            store.add_metric([], 0.0)
        else:
            store.add_metric([], 1.0)
            yield from figures
        yield store

    def _figures(self, now: float) -> Iterator[Metric]:
        rows = [row for row in self._store.runs() if row.ended is None or now - row.ended < RECENT_S]
        self._tallies = {row.id: self._read(row) for row in rows}
        strange = {error.run for error in self._store.live()[1]}
        self._shown = {}
        for row in rows:
            try:
                self._shown[row.id] = _shown(row)
            except OtherVersionError as error:
                self._shown[row.id] = _Shown()
                strange.add(error.run)
        yield from self._states(rows)
        yield from self._times(rows, now)
        yield from self._recoveries(rows)
        yield from self._spares(rows)
        yield from self._nodes()
        message = "Runs of which this version cannot read all that another one wrote."
        yield GaugeMetricFamily("nvlaunch_runs_unreadable", message, value=len(strange))

    def _read(self, row: RunRow) -> Tally:
        tally = self._tallies.get(row.id) or Tally()
        for event in self._store.events(row.id, after=tally.seen):
            tally.take(event)
        return tally

    def _states(self, rows: list[RunRow]) -> Iterator[Metric]:
        state = GaugeMetricFamily(
            "nvlaunch_run_state", "1 for the state that a run is in, 0 for the others.", labels=[*_RUN, "state"]
        )
        driven = GaugeMetricFamily(
            "nvlaunch_run_driven", "1 where a live controller looks after a run.", labels=list(_RUN)
        )
        ranks = GaugeMetricFamily("nvlaunch_ranks", "Ranks of a run by their state.", labels=[*_RUN, "state"])
        for row in rows:
            for one in RunState:
                state.add_metric([*_of(row), one.value], float(one is row.state))
            if row.ended is None:
                driven.add_metric(_of(row), float(row.owner is not None and row.owner.alive()))
                for name, number in Counter(state for state, _ in self._shown[row.id].ranks).items():
                    ranks.add_metric([*_of(row), name], number)
        yield from (state, driven, ranks)

    def _times(self, rows: list[RunRow], now: float) -> Iterator[Metric]:
        spent = CounterMetricFamily(
            "nvlaunch_node_seconds", "Node-time of a run by the state it was in.", labels=[*_RUN, "state"]
        )
        goodput = GaugeMetricFamily(
            "nvlaunch_goodput_ratio", "Share of the node-time of a run in which its ranks ran.", labels=list(_RUN)
        )
        for row in rows:
            tally, nodes = self._tallies[row.id], len(self._shown[row.id].ranks)
            for name, seconds in tally.spent_by(now).items():
                spent.add_metric([*_of(row), name], nodes * seconds)
            goodput.add_metric(_of(row), tally.goodput(now))
        yield from (spent, goodput)

    def _recoveries(self, rows: list[RunRow]) -> Iterator[Metric]:
        starts = CounterMetricFamily(
            "nvlaunch_gang_restarts", "Starts of a gang after its first, by reason.", labels=[*_RUN, "reason"]
        )
        joins = CounterMetricFamily(
            "nvlaunch_slot_replacements",
            "Raylets started after a loss, by reason; `swap` counts nodes replaced.",
            labels=[*_RUN, "reason"],
        )
        took = HistogramMetricFamily(
            "nvlaunch_recovery_seconds",
            "From the first act of a recovery until every rank ran again, by kind.",
            labels=[*_RUN, "kind"],
        )
        for row in rows:
            tally = self._tallies[row.id]
            for family, counts in ((starts, tally.attempts), (joins, tally.joins)):
                for why, number in counts.items():
                    family.add_metric([*_of(row), why.value], number)
            for kind in {why for why, _ in tally.recoveries}:
                seconds = [one for why, one in tally.recoveries if why is kind]
                took.add_metric([*_of(row), kind.value], buckets=_buckets(seconds), sum_value=sum(seconds))
        yield from (starts, joins, took)

    def _spares(self, rows: list[RunRow]) -> Iterator[Metric]:
        left = GaugeMetricFamily("nvlaunch_spares", "Spares that a run has left, by rack.", labels=[*_RUN, "rack"])
        for row in rows:
            shown = self._shown[row.id] if row.ended is None else _Shown()
            racks = Counter({rack: 0 for _, rack in shown.ranks})
            racks.update(shown.spares.values())
            for rack, number in racks.items():
                left.add_metric([*_of(row), rack], number)
        yield left

    def _nodes(self) -> Iterator[Metric]:
        out = GaugeMetricFamily(
            "nvlaunch_nodes_out_of_service", "Nodes kept out of placement, by why.", labels=["inventory", "why"]
        )
        for fleet in self._store.ledger.fleets():
            out.add_metric([fleet, "quarantined"], len(self._store.ledger.quarantines(fleet)))
            out.add_metric([fleet, "drained"], len(self._store.ledger.drains(fleet)))
        yield out


def serve(home: Path, address: str, port: int) -> WSGIServer:
    """Begin to answer scrapes of all runs of a home; LaunchError where the port cannot be had."""
    registry = CollectorRegistry()
    registry.register(RunCollector(Store(home)))
    try:
        server, _ = start_http_server(port, addr=address, registry=registry)
    except (OSError, OverflowError, UnicodeError) as error:  # the last two: no port, and no name, that could be one
        why = getattr(error, "strerror", None) or str(error)
        message = f"cannot answer scrapes on {address}:{port}: {why.lower()}"
        raise LaunchError(message, hints=("choose another `--metrics-port` or `--metrics-address`",)) from error
    return server


_RUN = ("run", "id", "inventory")


def _shown(row: RunRow) -> _Shown:
    """Return what the snapshot of a run says; OtherVersionError where this version cannot read it."""
    with readable(row.id):
        plain = json.loads(row.snapshot)
        ranks = tuple((str(rank["state"]), str(rank["rack"])) for rank in plain["ranks"])
        # Slices of one rack may share a spare, and each of them lists it.
        return _Shown(ranks=ranks, spares={str(spare["node"]): str(spare["rack"]) for spare in plain["spares"]})


def _of(row: RunRow) -> list[str]:
    return [row.name, row.id, row.fleet]


def _buckets(seconds: list[float]) -> list[tuple[str, float]]:
    bounds = [(str(bound), float(sum(one <= bound for one in seconds))) for bound in BUCKETS]
    return [*bounds, ("+Inf", float(len(seconds)))]
