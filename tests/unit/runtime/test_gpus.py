"""Whether the GPUs of a node are free, and what keeps them."""

import importlib
import time
from pathlib import Path

import pytest

gpus = importlib.import_module("launcher.runtime.gpus")

TRAY = "0, GPU-a\n1, GPU-b\n2, GPU-c\n3, GPU-d\n"


def test_who_computes_is_named_with_all_his_gpus_and_others_gpus_are_nobodys_business() -> None:
    apps = "GPU-b, 999999999, /usr/bin/python, x\nGPU-c, 999999999, /usr/bin/python, x\nGPU-d, 1, init\n"
    assert gpus.computing(TRAY, apps, 3) == ["`python, x` (pid 999999999) computes on GPU 1, 2"]
    assert gpus.computing(TRAY, apps, 4)[1] == "`init` (pid 1, of root) computes on GPU 3"
    assert gpus.computing(TRAY, apps, 1) == []
    assert gpus.computing(TRAY, apps, 4, {"1", "999999999"}) == []
    assert gpus.computing(TRAY, "GPU-a, 7, nvidia-cuda-mps-server\n", 4) == []


@pytest.mark.parametrize(
    ("tray", "apps", "words"),
    [
        ("0, GPU-a\n1, GPU-b\n", "", "the driver has 2 of 4 GPUs"),
        (TRAY, "No devices were found\n", "unexpected output of `nvidia-smi`: `No devices were found`"),
        ("", "", "the driver has 0 of 4 GPUs"),
    ],
)
def test_a_driver_that_does_not_know_is_never_taken_for_free(tray: str, apps: str, words: str) -> None:
    with pytest.raises(OSError, match=words):
        gpus.computing(tray, apps, 4)


def put_tool(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver's tool that does as a script says, and is found first."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(gpus, "ANSWER_S", 1.0)
    monkeypatch.setattr(gpus, "LEAVE_S", 0.0)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("sleep 60", "`nvidia-smi` did not answer within 1 s"),
        ("echo Unable to determine the device handle; exit 9", "ended with 9: Unable to determine the device handle"),
    ],
)
def test_a_sick_driver_gets_its_time_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    put_tool(tmp_path, script, monkeypatch)
    begun = time.monotonic()
    told = gpus.free(4, list)
    assert not told["ok"]
    assert told["message"].startswith("cannot tell whether its GPUs are free: ")
    assert words in told["message"]
    assert time.monotonic() - begun < 20


def test_a_process_that_is_just_dying_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = f"echo x >> {tmp_path}/asked; [ $(wc -l < {tmp_path}/asked) -gt 2 ] || echo GPU-a, 4711, python"
    put_tool(tmp_path, f'case $1 in --query-gpu*) echo "0, GPU-a";; *) {asked};; esac', monkeypatch)
    monkeypatch.setattr(gpus, "LEAVE_S", 20.0)
    assert gpus.free(1, list) == {"ok": True}
    assert len((tmp_path / "asked").read_text().split()) == 3
