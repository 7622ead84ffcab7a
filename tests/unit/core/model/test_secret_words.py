"""Words of a command that must not be stored with what it prints."""

import pytest

from launcher.core.model.secret_words import HIDDEN, is_secret_name, secret_values, without_own_words, words_of

TELLING = """OPENAI_APIKEY APIKEY API_KEYS ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AUTH BASIC_AUTH PASSPHRASE PASSWD DB_PWD
PGPASSWORD HF_TOKEN HF_TOKENS HF_TOKEN2 wandbApiKey GOOGLE_APPLICATION_CREDENTIALS api-key"""
PLAIN = "PWD OLDPWD TOKENIZERS_PARALLELISM TOKENIZER AUTHOR KEYBOARD MONKEY NUM_PASSES COMPASS NCCL_DEBUG"


@pytest.mark.parametrize(
    ("command", "printed", "kept"),
    [
        ("ipmitool -P hunter2 power off", "bad password hunter2", f"bad password {HIDDEN}"),
        ("ipmitool -P hunter2 power off", "power is off, ipmitool -P", "power is off, ipmitool -P"),
        ("fence --password=hunter2", "hunter2?", f"{HIDDEN}?"),
        (
            "curl https://ann:hunter2@bmc/redfish",
            "https://bmc: ann:hunter2?",
            f"https://bmc: ann:{HIDDEN}?",
        ),
        ("off r1-n1 --force", "r1-n1 is off", "r1-n1 is off"),
        ("off 'one two", "two", "two"),
        ("off", "off", "off"),
    ],
)
def test_words_of_the_command_itself_are_hidden_and_what_it_did_is_not(command: str, printed: str, kept: str) -> None:
    assert without_own_words([printed], words_of(command), names={"r1-n1"}) == (kept,)


def test_the_longest_secret_is_hidden_as_a_whole() -> None:
    assert without_own_words(["abcdefgh abcd"], ["x"], ["abcd", "abcdefgh"]) == (f"{HIDDEN} {HIDDEN}",)


def test_secrets_are_told_by_the_names_of_variables() -> None:
    assert secret_values({"IPMI_PASSWORD": "a", "HOME": "b", "GH_TOKEN": "c"}) == ("a", "c")


@pytest.mark.parametrize("name", TELLING.split())
def test_a_name_tells_of_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", PLAIN.split())
def test_a_name_tells_of_none(name: str) -> None:
    assert not is_secret_name(name)
