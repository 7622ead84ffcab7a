"""The `traffic` of a group, and that of the task for groups without."""

from pathlib import Path

from launcher.core.model.task import Task
from launcher.core.model.traffic import Traffic
from launcher.store.codec import dump, load
from tests.unit.config.task.parsing import complaints, parse


def test_keys_that_are_left_out_are_zero(tmp_path: Path) -> None:
    task = parse(tmp_path, "traffic: {compute_s: 0.9, all_reduce_gb: 40, all_to_all_gb: 6}\nrun: echo").task
    assert task.groups[0].traffic == Traffic(compute_s=0.9, all_reduce_gb=40, all_to_all_gb=6)
    assert load(Task, dump(Task, task)) == task


def test_a_task_without_traffic_has_none(tmp_path: Path) -> None:
    assert parse(tmp_path, "run: echo").task.groups[0].traffic is None
    assert parse(tmp_path, "run: echo\ntraffic: null").task.groups[0].traffic is None


def test_a_group_without_traffic_has_that_of_the_task(tmp_path: Path) -> None:
    groups = "groups:\n  a: {run: echo, traffic: {compute_s: 1}}\n  b: {run: echo}\n"
    task = parse(tmp_path, f"traffic: {{compute_s: 2, all_gather_gb: 3}}\n{groups}").task
    assert [one.traffic for one in task.groups] == [Traffic(compute_s=1), Traffic(compute_s=2, all_gather_gb=3)]


def test_compute_is_required(tmp_path: Path) -> None:
    (said,) = complaints(tmp_path, "run: echo\ntraffic: {all_reduce_gb: 40}")
    assert "`compute_s` is missing in `traffic`" in said
