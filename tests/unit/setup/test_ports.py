"""The one map of ports."""

import itertools

import pytest

from launcher.setup import ports

EVERY = {"local": ports.narrow(), "host": ports.wide(), "head": ports.heads()}


@pytest.mark.parametrize("blocks", EVERY.values(), ids=EVERY.keys())
def test_every_port_is_inside_its_block_and_has_one_use(blocks: ports.Blocks) -> None:
    for start in blocks.starts:
        of = blocks.ports(start)
        single = [of.gcs, of.heartbeat, of.client, of.dashboard, of.node_manager, of.object_manager, of.metrics]
        single += [of.runtime_env_agent, of.agent_http, of.agent_grpc]
        used = [*single, *range(of.workers[0], of.workers[1] + 1), *range(of.master[0], of.master[1] + 1)]
        assert sorted(used) == list(range(start, start + blocks.size))
        assert used[-1] < ports.LAST
        assert sorted(single) == list(range(start, start + ports.PINNED))


def test_narrow_blocks_do_not_overlap_and_leave_out_what_people_use() -> None:
    starts = ports.narrow().starts
    assert all(later - earlier >= ports.NARROW for earlier, later in itertools.pairwise(starts))
    assert not [start for start in starts for port in ports.BUSY if start <= port < start + ports.NARROW]
    assert len(starts) > 48, "two runs of 24 local nodes must fit"


def test_a_head_has_no_port_of_the_raylet_beside_it() -> None:
    beside = max(ports.wide().starts) + ports.WIDE
    assert min(ports.heads().starts) >= beside


def test_the_rendezvous_port_changes_with_every_attempt() -> None:
    of = ports.narrow().ports(ports.FIRST)
    ten = [of.master_ports(attempt)[0] for attempt in range(10)]
    assert all(earlier != later for earlier, later in itertools.pairwise(ten))
    assert all(set(of.master_ports(at)) == set(range(of.master[0], of.master[1] + 1)) for at in range(10))
    assert all(of.master[0] <= port <= of.master[1] for port in ten)


def test_a_block_begins_where_all_of_it_is_ours() -> None:
    for blocks in (ports.wide(), ports.narrow(), ports.heads()):
        assert all(blocks.has(start) for start in blocks.starts)
        assert not any(blocks.has(start) for start in (-1, 0, 22, ports.FIRST - 1, ports.LAST - blocks.size + 1, 10**9))
