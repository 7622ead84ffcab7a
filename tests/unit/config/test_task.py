"""What the command line adds to a task, and what of a file becomes of it."""

import re
from pathlib import Path

import pytest

from launcher.config.inventory.read import built_in
from launcher.config.schema.fields import Section
from launcher.config.task.counts import LEAST_NODES, MOST_NODES, default_split
from launcher.config.task.envs import Given
from launcher.config.task.fields import RECOVERY, TASK
from launcher.config.task.levels import check_levels
from launcher.config.task.named import unknown_names
from launcher.config.task.read import ParsedTask, read_task
from launcher.core.model.task import OnNoSpare, RecoveryPolicy, RestartWith, Task
from launcher.errors import SpecError


def parse(folder: Path, text: str, given: Given | None = None) -> ParsedTask:
    path = folder / "my task.v2.yaml"
    path.write_text(text)
    return read_task(path, given=given)


def complaints(folder: Path, text: str, given: Given | None = None) -> list[str]:
    with pytest.raises(SpecError) as refusal:
        parse(folder, text, given)
    return [str(mistake).replace(str(folder), "DIR") for mistake in refusal.value.mistakes]


def test_name_is_given_or_written_or_that_of_the_file(tmp_path: Path) -> None:
    assert parse(tmp_path, "name: a\nrun: x", Given(name="b")).task.name == "b"
    assert parse(tmp_path, "name: a\nrun: x").task.name == "a"
    assert parse(tmp_path, "run: x").task.name == "my-task-v2"


def test_given_name_must_be_a_name(tmp_path: Path) -> None:
    (said,) = complaints(tmp_path, "run: x", Given(name="a/../b"))
    assert said.startswith("--name: `a/../b` cannot be the name of a run")


def test_given_variables_win_over_the_file_and_its_groups(tmp_path: Path) -> None:
    text = "envs: {A: 1, B: null}\ngroups:\n  one: {envs: {A: 2}, run: x}\n  two: {run: x}"
    task = parse(tmp_path, text, Given(envs={"A": "3", "B": "4", "C": "5"})).task
    assert [dict(group.envs) for group in task.groups] == [{"A": "3", "B": "4", "C": "5"}] * 2


def test_a_null_that_a_group_fills_needs_no_option_there(tmp_path: Path) -> None:
    text = "envs: {A: null}\ngroups:\n  one: {envs: {A: 2}, run: x}\n  two: {run: x}"
    (said,) = complaints(tmp_path, text)
    assert said.startswith("DIR/my task.v2.yaml:1:8: the variable `A` has no value")


@pytest.mark.parametrize("escape", [r"\0", r"\ud800", r"\udc00\ud800"])
def test_what_no_program_can_be_given_is_refused_wherever_it_stands(tmp_path: Path, escape: str) -> None:
    said = complaints(tmp_path, f'envs: {{A: "x{escape}"}}\nrun: "echo {escape}"')
    assert [one.split(": ", 1)[0] for one in said] == ["DIR/my task.v2.yaml:1:11", "DIR/my task.v2.yaml:2:6"]


def test_a_character_in_two_escapes_is_one_as_in_json(tmp_path: Path) -> None:
    task = parse(tmp_path, r'{"run": "echo", "envs": {"A": "\ud83d\ude00"}}').task
    assert dict(task.groups[0].envs) == {"A": "\N{GRINNING FACE}"}


def test_a_variable_longer_than_linux_passes_on_is_refused(tmp_path: Path) -> None:
    assert parse(tmp_path, f"envs: {{A: {'x' * 130_000}}}\nrun: x").task.groups[0].envs["A"] == "x" * 130_000
    (said,) = complaints(tmp_path, f"envs: {{A: {'x' * 130_001}}}\nrun: x")
    assert said.startswith("DIR/my task.v2.yaml:1:11: the value of `envs.A` has 130,001 bytes")


def test_bad_options_are_named_as_options(tmp_path: Path) -> None:
    said = complaints(tmp_path, "run: x", Given(envs={"1A": "x", "B": "y"}, secrets=frozenset({"B", "C-D"})))
    assert [one.split(":")[0] for one in said] == ["--env", "--secret", "--secret"]


def test_secrets_are_names_only_and_values_of_the_file_stay_out_of_sight(tmp_path: Path) -> None:
    text = "secrets: {A: null, B: hunter2}\nrun: x"
    parsed = parse(tmp_path, text, Given(secrets=frozenset({"A", "C"})))
    assert parsed.task.secrets == ("A", "B", "C")
    assert parsed.secrets == {"B": "hunter2"}
    assert "hunter2" not in repr(parsed) + "".join(map(str, parsed.warnings))


def test_a_secret_is_not_taken_from_env(tmp_path: Path) -> None:
    (said,) = complaints(tmp_path, "secrets: {A: null}\nrun: x", Given(envs={"A": "hunter2"}))
    assert "hint: give it with `--secret A`" in said
    assert "hunter2" not in said


def test_a_secret_fills_a_null_variable_and_never_hides_a_value(tmp_path: Path) -> None:
    given = Given(secrets=frozenset({"A"}))
    task = parse(tmp_path, "envs: {A: null}\nrun: x", given).task
    assert (task.secrets, dict(task.groups[0].envs)) == (("A",), {})
    (said,) = complaints(tmp_path, "envs: {A: 1}\nrun: x", given)
    assert "`A` is given by `--secret`, and has a value here" in said


def test_workdir_is_relative_to_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a b").mkdir()
    monkeypatch.chdir(tmp_path / "a b")
    assert parse(tmp_path, "workdir: .\nrun: x").task.workdir == str(tmp_path / "a b")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse(tmp_path, "workdir: ~/a b\nrun: x").task.workdir == str(tmp_path / "a b")


def test_defaults_of_the_table_are_those_of_the_types(tmp_path: Path) -> None:
    task = parse(tmp_path, "run: x").task
    assert (task.stop_signal, task.stop_grace) == (Task(name="", groups=()).stop_signal, 60.0)
    assert (TASK.fields["stop_signal"].default, TASK.fields["stop_grace"].default) == ("TERM", 60)
    assert task.groups[0].recovery == RecoveryPolicy()
    shown = {name: RECOVERY.fields[name].default for name in ("max_restarts", "node_attempts")}
    assert shown == {"max_restarts": RecoveryPolicy().max_restarts, "node_attempts": RecoveryPolicy().node_attempts}
    assert RECOVERY.fields["restart_with"].default == RestartWith.RUN.value
    assert RECOVERY.fields["on_no_spare"].default == OnNoSpare.WAIT.value


def test_every_key_that_is_not_executed_says_why_or_what_instead() -> None:
    def rows(section: Section) -> list[str]:
        inner = [row for one in section.fields.values() if isinstance(one.shape, Section) for row in rows(one.shape)]
        silent = {
            name for name, row in section.fields.items() if row.use.name in ("IGNORED", "REFUSED") and not row.why
        }
        return [*inner, *silent]

    assert rows(TASK) == []


@pytest.mark.parametrize(
    ("nodes", "split"),
    [(1, (1, 1)), (16, (1, 16)), (18, (2, 9)), (24, (2, 12)), (40, (4, 10)), (128, (8, 16)), (17, None), (38, None)],
)
def test_default_split(nodes: int, split: tuple[int, int] | None) -> None:
    counts = default_split(nodes)
    assert (counts and (counts.slices, counts.nodes_per_slice)) == split


def test_default_split_is_the_one_with_the_largest_slices() -> None:
    for nodes in range(1, 300):
        sizes = [size for size in range(1, MOST_NODES + 1) if nodes % size == 0]
        sizes = sizes if nodes <= MOST_NODES else [size for size in sizes if size >= LEAST_NODES]
        counts = default_split(nodes)
        assert (counts and counts.nodes_per_slice) == (max(sizes) if sizes else None)


def test_sizes_named_for_a_count_that_does_not_split_do_split(tmp_path: Path) -> None:
    text = "resources: {accelerators: GB300:4}\nnum_nodes: %s\nrun: x"
    for nodes in (17, 19, 38, 61, 997):
        (said,) = complaints(tmp_path, text % nodes)
        for size in re.findall(r"(\d+) \(\d+ x \d+\)", said):
            assert parse(tmp_path, text % size).task.groups[0].topology.nodes == int(size)


def test_a_level_that_the_inventory_lacks_is_named_where_it_stands(tmp_path: Path) -> None:
    text = "run: x\ntopology: {within: rak, prefer: zone, spread: node}"
    parsed = parse(tmp_path, text)
    with pytest.raises(SpecError) as refusal:
        check_levels(parsed.task, built_in(), where="task.yaml", places=parsed.places)
    assert [str(mistake) for mistake in refusal.value.mistakes] == [
        "task.yaml:2:20: `within: rak` is no level of inventory `local`\n  hint: did you mean `rack`?",
        (
            "task.yaml:2:33: `prefer: zone` is no level of inventory `local`\n"
            "  hint: its levels are `rack`, `node`, `any`; `-i` chooses another inventory"
        ),
    ]


@pytest.mark.parametrize(
    ("topology", "said"),
    [
        ("within: [rack, rack]", "`within: [rack, rack]`: `rack` is not above `rack`"),
        ("within: [node, rack]", "`within: [node, rack]`: `node` is not above `rack`"),
        (
            "nodes_per_slice: 2, spread_members: rack",
            "`spread_members: rack` is not below `within: rack`: a slice would",
        ),
        ("slices: 2, nodes_per_slice: 1, spread: any", "`spread: any` keeps 2 slices out of one place"),
    ],
)
def test_levels_that_no_placement_can_hold_are_refused(tmp_path: Path, topology: str, said: str) -> None:
    parsed = parse(tmp_path, f"run: x\ntopology: {{{topology}}}")
    with pytest.raises(SpecError, match=re.escape(said)):
        check_levels(parsed.task, built_in(), where="task.yaml", places=parsed.places)


def test_levels_that_the_inventory_has_pass(tmp_path: Path) -> None:
    for level in ("rack", "node", "any"):
        check_levels(parse(tmp_path, f"run: x\ntopology: {{within: {level}}}").task, built_in())


def test_a_name_that_the_inventory_lacks_is_told_where_it_stands(tmp_path: Path) -> None:
    text = "run: x\ntopology: {racks: [r1, 'r*', rack7], exclude_nodes: ['r1-n[01-03]', 'r1-n[1-9]']}"
    parsed = parse(tmp_path, text)
    said = unknown_names(parsed.task, built_in(), where="task.yaml", places=parsed.places)
    assert [str(mistake) for mistake in said] == [
        (
            "task.yaml:2:19: `racks`: `rack7` is no rack of inventory `local`\n"
            "  hint: `nvlaunch racks -o json` lists the racks"
        ),
        (
            "task.yaml:2:53: `exclude_nodes`: `r1-n[01-03]` is no node of inventory `local`\n"
            "  hint: did you mean `r1-n3`?"
        ),
    ]
