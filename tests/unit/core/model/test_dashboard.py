"""How a person reaches the dashboard of a run, by where its head is."""

from dataclasses import replace

from launcher.core.model.dashboard import describe_dashboard, forwarding
from launcher.core.model.inventory import Access, Transport
from tests.unit.setup.test_environ import make_run


def test_a_head_on_a_node_is_reached_by_forwarding_a_port_of_its_loopback_address() -> None:
    assert (
        describe_dashboard(make_run(), 6413) == "`ssh -N -L 8265:127.0.0.1:6413 10.0.1.1`, then http://127.0.0.1:8265"
    )


def test_the_machine_for_heads_is_named_with_all_that_ssh_needs() -> None:
    run = make_run()
    run = replace(run, fleet=replace(run.fleet, head=Access(address="10.0.9.9", user="ubuntu")))
    assert "6413 ubuntu@10.0.9.9`" in str(describe_dashboard(run, 6413))
    access = Access(address="fd00::7", user="me", port=2222, identity_file="/a key", proxy_jump="jump:22")
    assert forwarding(access, 7) == "ssh -N -L 8265:127.0.0.1:7 -J jump:22 -i '/a key' -p 2222 me@fd00::7"


def test_local_racks_need_no_ssh() -> None:
    run = make_run()
    assert (
        describe_dashboard(replace(run, fleet=replace(run.fleet, transport=Transport.LOCAL)), 7) == "http://127.0.0.1:7"
    )


def test_a_dashboard_that_does_not_run_is_explained_and_an_unknown_one_not_mentioned() -> None:
    assert describe_dashboard(make_run(), 0) == "none: Ray's Python on the head (r1-n1) lacks `ray[default]`"
    assert describe_dashboard(make_run(), None) is None
