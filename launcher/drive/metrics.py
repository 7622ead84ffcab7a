"""Metrics of all runs for Prometheus.

Computed from journals and snapshots at each scrape.
"""

import ipaddress
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from launcher.core.model.run import RunId, RunState
from launcher.drive.run_stats import RunStats
from launcher.errors import LaunchError, OtherVersionError, StoreError
from launcher.store.rows import RunRow, readable
from launcher.store.store import Store

_App: TypeAlias = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

BUCKETS = (5.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0, 90.0, 120.0, 300.0, 600.0, 1800.0)
"""Upper bounds of the recovery times (s), close together near the targets of 12, 35 and 60 s."""

RECENT_S = 3600.0
"""How long an ended run is still exported (s), so that no scrape misses its outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """The state and rack of each rank, and the rack of each spare, from a snapshot."""

    ranks: tuple[tuple[str, str], ...] = ()
    spares: Mapping[str, str] = field(default_factory=dict)


class RunCollector(Collector):
    """Computes the metrics; each scrape reads only new journal entries."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stats: dict[RunId, RunStats] = {}
        self._shown: dict[RunId, _Shown] = {}

    def collect(self) -> Iterator[Metric]:
        """Return all metrics; those of runs have the labels `run`, `id` and `inventory`.

        Where the store fails, only `nvlaunch_store_readable` is exported.
        """
        store = GaugeMetricFamily("nvlaunch_store_readable", "Whether the store of runs can be read (1) or not (0).")
        try:
            metrics = list(self._metrics(time.time()))
        except StoreError:
            store.add_metric([], 0.0)
        else:
            store.add_metric([], 1.0)
            yield from metrics
        yield store

    def _metrics(self, now: float) -> Iterator[Metric]:
        rows = [row for row in self._store.runs() if row.ended is None or now - row.ended < RECENT_S]
        self._stats = {row.id: self._read(row) for row in rows}
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
        message = "Runs that another version wrote and this one cannot read."
        yield GaugeMetricFamily("nvlaunch_runs_unreadable", message, value=len(strange))

    def _read(self, row: RunRow) -> RunStats:
        stats = self._stats.get(row.id) or RunStats()
        for event in self._store.journal.events(row.id, after=stats.seen):
            stats.add(event)
        return stats

    def _states(self, rows: list[RunRow]) -> Iterator[Metric]:
        state = GaugeMetricFamily(
            "nvlaunch_run_state", "1 for the current state of a run, 0 for the others.", labels=[*_RUN, "state"]
        )
        driven = GaugeMetricFamily(
            "nvlaunch_run_driven", "Whether a run has a live controller (1) or not (0).", labels=list(_RUN)
        )
        ranks = GaugeMetricFamily("nvlaunch_ranks", "Ranks of a run by state.", labels=[*_RUN, "state"])
        for row in rows:
            for one in RunState:
                state.add_metric([*_of(row), one.value], float(one is row.state))
            if row.ended is None:
                driven.add_metric(_of(row), float(row.owner is not None and row.owner.alive()))
                for name, number in Counter(state for state, _ in self._shown[row.id].ranks).items():
                    ranks.add_metric([*_of(row), name], number)
        yield from (state, driven, ranks)

    def _times(self, rows: list[RunRow], now: float) -> Iterator[Metric]:
        spent = CounterMetricFamily("nvlaunch_node_seconds", "Node-seconds of a run by state.", labels=[*_RUN, "state"])
        goodput = GaugeMetricFamily(
            "nvlaunch_goodput_ratio",
            "Share of the node-seconds of a run in which its ranks were running.",
            labels=list(_RUN),
        )
        for row in rows:
            stats, nodes = self._stats[row.id], len(self._shown[row.id].ranks)
            for name, seconds in stats.spent_by(now).items():
                spent.add_metric([*_of(row), name], nodes * seconds)
            goodput.add_metric(_of(row), stats.goodput(now))
        yield from (spent, goodput)

    def _recoveries(self, rows: list[RunRow]) -> Iterator[Metric]:
        starts = CounterMetricFamily(
            "nvlaunch_gang_restarts", "Restarts of a gang, by reason.", labels=[*_RUN, "reason"]
        )
        joins = CounterMetricFamily(
            "nvlaunch_slot_replacements",
            "Raylets started after a failure, by reason; `replace` counts replaced nodes.",
            labels=[*_RUN, "reason"],
        )
        took = HistogramMetricFamily(
            "nvlaunch_recovery_seconds",
            "Time from the first action of a recovery until all ranks run again, by kind.",
            labels=[*_RUN, "kind"],
        )
        for row in rows:
            stats = self._stats[row.id]
            for family, counts in ((starts, stats.attempts), (joins, stats.joins)):
                for why, number in counts.items():
                    family.add_metric([*_of(row), why.value], number)
            for kind in {why for why, _ in stats.recoveries}:
                seconds = [one for why, one in stats.recoveries if why is kind]
                took.add_metric([*_of(row), kind.value], buckets=_buckets(seconds), sum_value=sum(seconds))
        yield from (starts, joins, took)

    def _spares(self, rows: list[RunRow]) -> Iterator[Metric]:
        left = GaugeMetricFamily("nvlaunch_spares", "Spare nodes of a run, by rack.", labels=[*_RUN, "rack"])
        for row in rows:
            shown = self._shown[row.id] if row.ended is None else _Shown()
            racks = Counter({rack: 0 for _, rack in shown.ranks})
            racks.update(shown.spares.values())
            for rack, number in racks.items():
                left.add_metric([*_of(row), rack], number)
        yield left

    def _nodes(self) -> Iterator[Metric]:
        out = GaugeMetricFamily(
            "nvlaunch_nodes_out_of_service", "Nodes excluded from placement, by reason.", labels=["inventory", "why"]
        )
        for fleet in self._store.ledger.fleets():
            out.add_metric([fleet, "quarantined"], len(self._store.ledger.quarantines(fleet)))
            out.add_metric([fleet, "drained"], len(self._store.ledger.drains(fleet)))
        yield out


def serve(home: Path, address: str, port: int) -> WSGIServer:
    """Serve the metrics of all runs of a home.

    LaunchError where the port cannot be opened.
    """
    registry = CollectorRegistry()
    registry.register(RunCollector(Store(home)))
    try:
        server, _ = start_http_server(port, addr=address, registry=registry)
    except (OSError, OverflowError, UnicodeError) as error:  # the last two: not a port number, not a host name
        why = getattr(error, "strerror", None) or str(error)
        message = f"cannot serve metrics on {address}:{port}: {why.lower()}"
        raise LaunchError(message, hints=("choose another `--metrics-port` or `--metrics-address`",)) from error
    app = server.get_app()
    if app is not None and ipaddress.ip_address(str(server.server_address[0])).is_loopback:
        server.set_app(_of_this_machine(app, address))
    return server


def _of_this_machine(app: _App, name: str) -> _App:
    """Return an application that answers only requests for this machine.

    A page of the web may point its own name at the loopback address, and read what is there in the browser of a user.
    """

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        host = str(environ.get("HTTP_HOST", name))
        if _host_of(host) in ("localhost", name.lower()) or _is_address(_host_of(host)):
            return app(environ, start)
        start("421 Misdirected Request", [("Content-Type", "text/plain")])
        return [b"metrics are served to this machine only; use its address, or `localhost`\n"]

    return answer


def _host_of(header: str) -> str:
    """Return the host of a `Host` header, without its port."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


_RUN = ("run", "id", "inventory")


def _shown(row: RunRow) -> _Shown:
    """Return the ranks and spares in the snapshot of a run.

    OtherVersionError where this version cannot read it.
    """
    with readable(row.id):
        plain = json.loads(row.snapshot)
        ranks = tuple((str(rank["state"]), str(rank["rack"])) for rank in plain["ranks"])
        # Slices of one rack may share a spare; each of them lists it.
        return _Shown(ranks=ranks, spares={str(spare["node"]): str(spare["rack"]) for spare in plain["spares"]})


def _of(row: RunRow) -> list[str]:
    return [row.name, row.id, row.fleet]


def _buckets(seconds: list[float]) -> list[tuple[str, float]]:
    bounds = [(str(bound), float(sum(one <= bound for one in seconds))) for bound in BUCKETS]
    return [*bounds, ("+Inf", float(len(seconds)))]
