"""Addresses that lead to one machine have one form."""

import pytest

from launcher.core.model.address import canonical, endpoint, is_loopback, read_ip


@pytest.mark.parametrize(
    ("form", "spellings"),
    [
        ("fd00::1", ["fd00::1", "fd00:0::1", "FD00::0001", "fd00:0:0:0:0:0:0:1", "[fd00::1]", "[fd00:0::1]:22"]),
        ("fe80::1%eth0", ["fe80::1%eth0", "FE80:0::1%eth0"]),
        ("10.0.0.1", ["10.0.0.1", "::ffff:10.0.0.1", "::FFFF:a00:1"]),
        ("n1.dc.example", ["n1.dc.example", "N1.DC.example", "n1.dc.example."]),
    ],
)
def test_spellings_of_one_address_have_one_form(form: str, spellings: list[str]) -> None:
    assert {canonical(spelled) for spelled in spellings} == {form}


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.1", "::1", "::ffff:127.0.0.1", "localhost", "LOCALHOST."])
def test_a_loopback_address_leads_to_the_machine_itself(address: str) -> None:
    assert is_loopback(address)
    assert not is_loopback("10.0.0.1")
    assert not is_loopback("fd00::1")


@pytest.mark.parametrize(
    ("address", "shown"), [("10.0.0.1", "10.0.0.1:6400"), ("n1.dc", "n1.dc:6400"), ("fd00::1", "[fd00::1]:6400")]
)
def test_a_port_stands_behind_brackets_where_the_address_has_colons(address: str, shown: str) -> None:
    assert endpoint(address, 6400) == shown


def test_different_machines_stay_different() -> None:
    written = ["n01.r1.dc", "n01.r2.dc", "n01", "n01-ib", "10.0.0.1", "10.0.0.11", "fd00::1", "fd00::10", "1", "01"]
    assert len({canonical(one) for one in written}) == len(written)


@pytest.mark.parametrize(("text", "version"), [("10.0.0.1", 4), ("fd00::1", 6), ("n1", None), ("1", None), ("", None)])
def test_a_name_is_no_ip_address(text: str, version: int | None) -> None:
    found = read_ip(text)
    assert (found.version if found else None) == version
