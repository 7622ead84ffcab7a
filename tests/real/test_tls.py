"""`ray_tls` with real Ray: who has no certificate of the run is refused at every port."""

import socket
import ssl
from dataclasses import replace
from pathlib import Path

from launcher.core.model.task import Group, TopologyRule
from launcher.setup.ray import TLS_CA, TLS_CERTIFICATE, TLS_KEY
from tests.real import local

HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""What a gRPC client says first; a server answers with its settings."""


def greet(port: tuple[str, int], context: ssl.SSLContext | None) -> bool:
    """Whether a gRPC server greets back."""
    try:
        with socket.create_connection(port, timeout=10) as plain:
            stream = context.wrap_socket(plain, server_hostname=port[0]) if context else plain
            stream.sendall(HELLO)
            return len(stream.recv(9)) == 9
    except OSError:
        return False


def context(ca: Path, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=str(ca))
    made.set_alpn_protocols(["h2"])
    if certificate and key:
        made.load_cert_chain(certificate, key)
    return made


def ports(raylet: int) -> dict[str, tuple[str, int]]:
    """Return the ports of a raylet, and of the head that it talks to."""
    words = Path(f"/proc/{raylet}/cmdline").read_text().split("\0")
    given = dict(word.lstrip("-").split("=", 1) for word in words if "=" in word)
    host, _, gcs = given["gcs-address"].rpartition(":")
    address = given["node_ip_address"]
    return {
        "head": (host, int(gcs)),
        "raylet": (address, int(given["node_manager_port"])),
        "object store": (address, int(given["object_manager_port"])),
    }


def test_nobody_without_a_certificate_of_the_run_talks_to_its_ray(home: Path) -> None:
    fleet = replace(local.inventory(home, racks=1, nodes=1), ray_tls=True)
    group = Group(name="main", topology=TopologyRule(slices=1, nodes_per_slice=1), gpus=4, run="true")
    stand = local.Stand(home, local.place(fleet, "tls-abcdef", group))
    try:
        stand.bring_up()
        (keys,) = home.glob("nodes/r1-n1/tls-abcdef/tls")
        ca, certificate, key = (keys.parent / name for name in (TLS_CA, TLS_CERTIFICATE, TLS_KEY))
        raylets = local.raylets(fleet.nodes[0].access.address)
        assert len(raylets) == 2, "the head's and the slot's"
        for name, port in [found for raylet in raylets for found in ports(raylet).items()]:
            assert greet(port, context(ca, certificate, key)), name
            assert not greet(port, context(ca, None, None)), f"{name} needs no certificate of a client"
            assert not greet(port, None), f"{name} is not encrypted"
    finally:
        stand.take_down()
    assert list(home.glob("nodes/**/*.pem")) == []
