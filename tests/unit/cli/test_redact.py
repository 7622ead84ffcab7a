"""What a report takes out as nobody's business, and what it must leave for a post-mortem."""

import json
import time

import pytest

from launcher.cli.redact import Redactor, command_passwords, distinct


@pytest.mark.parametrize(("value", "is_one"), [("hunter2-env", True), ("disabled", False), ("40960000", False)])
def test_words_and_numbers_are_found_everywhere(value: str, is_one: bool) -> None:
    assert distinct(value) is is_one


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("at postgres://me:pw@host/db now", "at postgres://<hidden>@host/db now"),
        ("postgres://me:p@s/s@host/db", "postgres://<hidden>@host/db"),
        ("redis://:pw@h:6379/0", "redis://<hidden>@h:6379/0"),
        ("https://ghp_abc@github.com/x", "https://<hidden>@github.com/x"),
        ("HF_TOKEN=abc python train.py", "HF_TOKEN=<hidden> python train.py"),
        ("export DB_PASSWORD='two words'; x", "export DB_PASSWORD='<hidden>'; x"),
        ("wandb login --api-key s3-cr3t", "wandb login --api-key <hidden>"),
        ("wandb login --api-key=s3-cr3t", "wandb login --api-key=<hidden>"),
        ("authorization: Bearer abcd1234", "authorization: Bearer <hidden>"),
        ("http://h:8080/x@y", "http://h:8080/x@y"),
        ("docker://nvcr.io:443/nvidia/pytorch@sha256:1", "docker://nvcr.io:443/nvidia/pytorch@sha256:1"),
        ("git@github.com:x/y", "git@github.com:x/y"),
        ("step=3 tokens=1.5e9 key=value", "step=3 tokens=1.5e9 key=value"),
        ("token=$HF_TOKEN", "token=$HF_TOKEN"),
        ("Basic training", "Basic training"),
    ],
)
def test_secrets_are_known_by_how_they_are_written(text: str, clean: str) -> None:
    assert Redactor(()).text(text) == clean


def test_a_command_gives_passwords_away() -> None:
    assert list(command_passwords("ipmitool -H {address} -U admin -P hunter2 power off")) == ["hunter2"]
    assert list(command_passwords("off --password=one PASSWORD=two --token three")) == ["one", "two", "three"]


def test_json_stays_json_and_names_stay_names() -> None:
    shape = {
        "main": {
            "node": "true",
            "why": "main",
            "message": ["main is true", 'say "hi"'],
            "on": True,
            "none": None,
            "n": 1234,
        },
        "env": {"X": "a true word", "HF_TOKEN": "short"},
        "fence_command": "off",
        "power_query": "ask",
        "key": "start:main@1234",
    }
    blank = Redactor(["true", "main", "null", "1234", 'say "hi"', "message"], {"main", "start"})
    assert json.loads(json.dumps(blank.shape(shape))) == {
        "main": {
            "node": "<hidden>",
            "why": "main",
            "message": ["<hidden> is <hidden>", "<hidden>"],
            "on": True,
            "none": None,
            "n": 1234,
        },
        "env": {"X": "a <hidden> word", "HF_TOKEN": "<hidden>"},
        "fence_command": "<hidden>",
        "power_query": "<hidden>",
        "key": "start:main@1234",
    }


def test_a_log_that_is_no_text_keeps_its_bytes() -> None:
    assert Redactor(["hunter2"]).data(b"\xff\x00 hunter2 \xc3\xa9\r") == b"\xff\x00 <hidden> \xc3\xa9\r"


@pytest.mark.parametrize("line", ["http://a:", "a-", "k=", "--a ", "token=a", "a.b", "x://<hidden>"])
def test_no_log_takes_long(line: str) -> None:
    text = line * (64 * 1024 // len(line)) + "="
    spent = time.process_time()
    Redactor(["hunter2"]).text(text)
    assert time.process_time() - spent < 3
