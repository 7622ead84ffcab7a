"""When queued runs start, as `queue` lists it."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.admission.queue.listing import list_queue
from launcher.core.model.inventory import Transport
from launcher.core.model.run import RunName
from launcher.core.model.simulation import SimSettings
from launcher.core.queue.backfill import RELEASE_S
from launcher.store.owner import Owner
from launcher.store.store import Store
from tests.unit.store.test_store import a_fleet, a_status, a_task, take


@pytest.mark.parametrize(("transport", "speed"), [(Transport.SIM, 60.0), (Transport.SSH, 1.0)])
def test_a_start_is_in_real_time_also_where_that_of_the_nodes_is_imaginary(
    transport: Transport, speed: float, tmp_path: Path
) -> None:
    store, now = Store(tmp_path), time.time()
    sim = SimSettings(speed=speed) if transport is Transport.SIM else None
    fleet = replace(a_fleet(2), transport=transport, sim=sim)
    task = replace(a_task(2), time_limit=36000.0, stop_grace=60.0)
    first = store.launch(
        name=RunName("first"), task=task, fleet=fleet, decide=take(fleet, 2), source="task.yaml", at=now
    )
    store.publish(first.id, a_status(first, ends_at=now + 300.0))
    waits = store.queue.put(name=RunName("waits"), task=task, fleet=fleet, source="task.yaml", at=now)
    store.owners.take(waits.id, Owner.current())
    (one,) = list_queue(store).runs
    assert one.starts_by == pytest.approx(now + 300.0 + (60.0 + RELEASE_S) / speed, abs=10.0)
