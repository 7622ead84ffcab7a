"""Which names of variables tell of a secret."""

import pytest

from launcher.core.model.secret_names import is_secret_name

TELLING = """OPENAI_APIKEY APIKEY API_KEYS ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY AUTH BASIC_AUTH PASSPHRASE PASSWD DB_PWD
PGPASSWORD HF_TOKEN HF_TOKENS HF_TOKEN2 wandbApiKey GOOGLE_APPLICATION_CREDENTIALS api-key"""
PLAIN = "PWD OLDPWD TOKENIZERS_PARALLELISM TOKENIZER AUTHOR KEYBOARD MONKEY NUM_PASSES COMPASS NCCL_DEBUG"


@pytest.mark.parametrize("name", TELLING.split())
def test_a_name_tells_of_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", PLAIN.split())
def test_a_name_tells_of_none(name: str) -> None:
    assert not is_secret_name(name)
