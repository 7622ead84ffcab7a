"""What `up` shows of a program, with real Ray on local racks."""

import pytest

from tests.desk import Desk
from tests.real.test_up import desk as desk  # noqa: PLC0414 a fixture

TASK = """
name: {name}
topology: {{nodes_per_slice: 2}}
secrets: {{WORD: null}}
stop_grace: 1
run: |
{body}
"""
BODY = r"""
  printf 'rank %s \033]0;title\007says %s' "$NODE_RANK" "$(printf %s "$WORD" | cut -c1-5)"
  sleep 1.5
  printf '%s caf\351\n' "$(printf %s "$WORD" | cut -c6-)"
  for at in $(seq 30); do printf '\r%s%%' "$at"; sleep 0.02; done
  echo; [ "$NODE_RANK" = 0 ] || { echo went wrong; exit 3; }
  sleep 60
"""
SECRET = "hunter2-hunter2"


@pytest.mark.parametrize("rank", [None, "all", "none"])
def test_the_output_of_a_rank_is_shown_as_text_without_secrets(desk: Desk, rank: str | None) -> None:
    name = f"shows-{rank or 'first'}"  # a second run of one program would avoid the node where the first failed
    file = desk.task(name, TASK.format(name=name, body=BODY))
    desk.env["WORD"] = SECRET
    words = [] if rank is None else ["--rank", rank]
    up = desk.run(*desk.up_args(file, "--secret", "WORD", *words))
    assert up.returncode == 1, up.stderr
    assert "main/1 on a2 exited with 3" in up.stderr
    line = "rank {} says <hidden> caf\ufffd"
    expected = {
        None: [line.format(0), "30%"],
        "all": [f"[main/{rank}] {text}" for rank in (0, 1) for text in (line.format(rank), "30%")]
        + ["[main/1] went wrong"],
        "none": [],
    }[rank]
    shown = [text for text in up.stdout.splitlines() if "%" not in text or "30%" in text]
    assert sorted(shown) == sorted(expected)
    assert SECRET not in up.stdout + up.stderr
    assert ("Output of " in up.stderr) == (rank != "none")


def test_a_rank_that_the_task_does_not_have_is_refused_before_anything_starts(desk: Desk) -> None:
    file = desk.task("refused", TASK.format(name="refused", body=BODY))
    desk.env["WORD"] = SECRET
    up = desk.run(*desk.up_args(file, "--secret", "WORD", "--rank", "7"))
    assert up.returncode == 2
    assert "`--rank 7`: not one rank of `refused`" in up.stderr
    assert "no run" in desk.run("status", "refused").stderr
