"""Policy files and CSV files: what is read, and what is refused where."""

from pathlib import Path

import pytest

from launcher.core.model.task import OnNoSpare
from launcher.errors import SpecError
from launcher.simulate.job_file import job_of_task, read_jobs
from launcher.simulate.policy import Policy, QueueOrder
from launcher.simulate.policy_file import read_policy


def written(folder: Path, text: str, name: str = "mine.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_policy_completes_the_defaults(tmp_path: Path) -> None:
    text = "spares: 0\non_no_spare: relocate\nqueue: fifo\ncheckpoint: 15m\ntime_limit_factor: inf\nslice_nodes: 8\n"
    assert read_policy(written(tmp_path, text)) == Policy(
        name="mine",
        spares=0,
        on_no_spare=OnNoSpare.RELOCATE,
        queue=QueueOrder.FIFO,
        checkpoint_s=900.0,
        time_limit_factor=None,
        slice_nodes=8,
    )


def test_every_mistake_of_a_policy_has_its_line(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as error:
        read_policy(written(tmp_path, "spare: 1\nqueue: lifo\nslice_nodes: 0\n"))
    assert [one.line for one in error.value.mistakes] == [1, 2, 3]
    assert error.value.mistakes[0].hint == "did you mean `spares`?"


def test_jobs_of_a_csv_file_are_read_by_the_names_of_columns(tmp_path: Path) -> None:
    text = "user,duration_s,gpus,arrival_s\nann,60,8,100\n\nbob,1e3,64,5.5\n"
    jobs = read_jobs(written(tmp_path, text, "jobs.csv"))
    assert [(job.arrives_s, job.gpus, job.work_s) for job in jobs] == [(5.5, 64, 1000.0), (100.0, 8, 60.0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column `arrival_s` is missing"),
        ("arrival_s,gpus\n1,2\n", "column `duration_s` is missing"),
        ("arrival_s,gpus,duration_s\n", "the file has no jobs"),
        ("arrival_s,gpus,duration_s\n-1,8,60\n", "`arrival_s` must be seconds from 0, not `-1`"),
        ("arrival_s,gpus,duration_s\n1,1.5,60\n", "`gpus` must be a whole number above 0, not `1.5`"),
        ("arrival_s,gpus,duration_s\n1,8,nan\n", "`duration_s` must be seconds above 0, not `nan`"),
        ("arrival_s,gpus,duration_s\n1,8\n", "`duration_s` must be seconds above 0, not ``"),
        (f"arrival_s,gpus,duration_s\n1,8,{'9' * 200_000}\n", "not CSV"),
    ],
)
def test_wrong_jobs_are_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SpecError) as error:
        read_jobs(written(tmp_path, text, "jobs.csv"))
    assert message in error.value.mistakes[0].what


def test_wrong_rows_are_reported_with_their_lines_but_not_all_of_a_wrong_file(tmp_path: Path) -> None:
    rows = "".join("x,8,60\n" for _ in range(1000))
    with pytest.raises(SpecError) as error:
        read_jobs(written(tmp_path, f"arrival_s,gpus,duration_s\n{rows}", "jobs.csv"))
    assert [one.line for one in error.value.mistakes] == list(range(2, 12))


def test_a_task_gives_its_gpus(tmp_path: Path) -> None:
    text = (
        "name: pretrain\nrun: 'true'\ntopology: {slices: 2, nodes_per_slice: 4}\nresources: {accelerators: GB300:4}\n"
    )
    job = job_of_task(written(tmp_path, text, "task.yaml"), 60.0)
    assert (job.gpus, job.work_s) == (32, 60.0)
