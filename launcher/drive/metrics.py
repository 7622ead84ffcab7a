"""The figures of all runs for Prometheus, made of their journals and snapshots at each scrape."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from launcher.core.run import RunId, RunState
from launcher.drive.tally import Tally
from launcher.errors import LaunchError
from launcher.store.rows import RunRow
from launcher.store.store import Store

BUCKETS = (5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 300.0, 600.0, 1800.0)
"""Upper bounds of the times to recover (s): close where the product promises something, 12, 35 and 60 s."""

RECENT_S = 3600.0
"""How long a run that is over is still shown (s), so that no scrape misses how it ended."""


class RunCollector(Collector):
    """Reads on in the journals since the last scrape."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tallies: dict[RunId, Tally] = {}

    def collect(self) -> Iterator[Metric]:
        """Answer every figure; series of runs have the labels `run`, `id` and `inventory`."""
        now = time.time()
        rows = [row for row in self._store.runs() if row.ended is None or now - row.ended < RECENT_S]
        self._tallies = {row.id: self._read(row) for row in rows}
        yield from self._states(rows)
        yield from self._times(rows, now)
        yield from self._recoveries(rows)
        yield from self._spares(rows)
        yield from self._nodes()

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
                for name, number in Counter(rank["state"] for rank in json.loads(row.snapshot)["ranks"]).items():
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
            tally, nodes = self._tallies[row.id], len(json.loads(row.snapshot)["ranks"])
            for name, seconds in tally.spent_by(now).items():
                spent.add_metric([*_of(row), name], nodes * seconds)
            goodput.add_metric(_of(row), tally.goodput(now))
        yield from (spent, goodput)

    def _recoveries(self, rows: list[RunRow]) -> Iterator[Metric]:
        starts = CounterMetricFamily(
            "nvlaunch_gang_restarts", "Starts of a gang after its first, by reason.", labels=[*_RUN, "reason"]
        )
        joins = CounterMetricFamily(
            "nvlaunch_seat_replacements",
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
            for family, counts in ((starts, tally.epochs), (joins, tally.joins)):
                for why, number in counts.items():
                    family.add_metric([*_of(row), why.value], number)
            for kind in {why for why, _ in tally.recoveries}:
                seconds = [one for why, one in tally.recoveries if why is kind]
                took.add_metric([*_of(row), kind.value], buckets=_buckets(seconds), sum_value=sum(seconds))
        yield from (starts, joins, took)

    def _spares(self, rows: list[RunRow]) -> Iterator[Metric]:
        left = GaugeMetricFamily("nvlaunch_spares", "Spares that a run has left, by rack.", labels=[*_RUN, "rack"])
        for row in rows:
            shown = json.loads(row.snapshot) if row.ended is None else {"ranks": [], "spares": []}
            racks = Counter({rank["rack"]: 0 for rank in shown["ranks"]})
            # Slices of one rack may share a spare, and each of them lists it.
            racks.update({spare["node"]: spare["rack"] for spare in shown["spares"]}.values())
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
        words = f"cannot answer scrapes on {address}:{port}: {why.lower()}"
        raise LaunchError(words, hints=("choose another `--metrics-port` or `--metrics-address`",)) from error
    return server


_RUN = ("run", "id", "inventory")


def _of(row: RunRow) -> list[str]:
    return [row.name, row.id, row.fleet]


def _buckets(seconds: list[float]) -> list[tuple[str, float]]:
    bounds = [(str(bound), float(sum(one <= bound for one in seconds))) for bound in BUCKETS]
    return [*bounds, ("+Inf", float(len(seconds)))]
