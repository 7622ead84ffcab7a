"""The certificates with which the Ray processes of a run know each other.

The run has an authority of its own, whose key stays on the launching machine. Each unit gets a key and a certificate
for its address when its agent starts. All of it is removed when the run ends.
"""

import ipaddress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from threading import Lock

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from launcher.core.model.run import RunId
from launcher.setup.ray import TLS_CA, TLS_CERTIFICATE, TLS_KEY
from launcher.transport.private import made_once

EARLY = timedelta(days=1)
"""How far the clock of a node may be behind."""

VALID = timedelta(days=3650)
"""Longer than any run: Ray reads certificates at its start only. What ends their use is that the keys are removed."""

_AUTHORITY = "authority.pem"
_MAKING = Lock()


def of_unit(home: Path, run: RunId, address: str) -> dict[str, tuple[bytes, int]]:
    """Return the files of a unit at an address: authority, certificate and key.

    The first call for a run makes its authority. The certificate is valid for the address and for loopback.
    """
    authority, issuer = _authority(home / "runs" / run / "tls")
    key = ec.generate_private_key(ec.SECP256R1())
    names = [_name(one) for one in dict.fromkeys((address, "127.0.0.1", "localhost"))]
    certificate = (
        _begin(address, key, issuer.subject)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(authority, hashes.SHA256())
    )
    return {
        TLS_CA: (issuer.public_bytes(serialization.Encoding.PEM), 0o600),
        TLS_CERTIFICATE: (certificate.public_bytes(serialization.Encoding.PEM), 0o600),
        TLS_KEY: (_pem(key), 0o600),
    }


def _authority(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Return the key and the certificate of a run's authority; two processes that ask at once get the same."""
    path = folder / _AUTHORITY
    with _MAKING:
        content = made_once(path, lambda: _new_authority(f"nvlaunch {path.parent.parent.name}"))
    key = serialization.load_pem_private_key(content, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key, x509.load_pem_x509_certificate(content)


def _new_authority(name: str) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = (
        _begin(name, key, x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return _pem(key) + certificate.public_bytes(serialization.Encoding.PEM)


def _begin(name: str, key: ec.EllipticCurvePrivateKey, issuer: x509.Name) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])]))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLY)
        .not_valid_after(now + VALID)
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    return key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)


def _name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address.strip("[]")))
    except ValueError:
        return x509.DNSName(address)
