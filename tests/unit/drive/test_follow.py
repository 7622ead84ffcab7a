"""What a follower of a run tells of its journal."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.cli.output.follow import RunProgress
from launcher.core.model.actions import Acquire
from launcher.core.model.nodeset import NodeName
from launcher.core.model.receipt import Answer, Result
from launcher.drive.follow import Follower
from launcher.store.store import Store
from tests.unit.store.test_store import REASON, launch


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path)
    yield made
    made.close()


def test_a_warning_that_many_nodes_give_is_told_once(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    run = launch(store)
    answer = Answer(result=Result.DONE, warnings=("IMEX does not run\nat all",))
    for at in range(3):
        store.receipts(run.id, [(Acquire(reason=REASON, node=NodeName(f"r1-n0{at}")), answer)], float(at))
    with RunProgress() as progress:
        follower = Follower(store, run.id, progress)
        follower.poll()
        follower.poll()
    assert capsys.readouterr().err == "warning: acquire:r1-n00: IMEX does not run\nat all\n"
