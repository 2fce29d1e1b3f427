"""Who is who in a fleet: one authority, a certificate for each tracker, device and user, and TLS 1.3 both ways.

    make_authority("fleet")                         # fleet/authority.{pem,key}: the key signs all others, keep it
    make_bundle("fleet", "device", "pi-4")          # fleet/device-pi-4/: what is copied to that device
    revoke("fleet", "user", "anna")                 # in fleet/revoked.pem, which all that listen read

A certificate names its role and its holder in one URI, ``tilewright://device/pi-4``. Whoever listens requires a
certificate and compares the role: a device's certificate opens no session, a user's registers no device. Keys are ECDSA
on P-256; names of hosts do not matter. The package `cryptography` makes certificates; the standard library speaks TLS.
"""

from __future__ import annotations

import datetime
import functools
import ipaddress
import os
import re
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.errors import EnvironmentError_, InputError, RpcError
from tilewright.rpc.frames import FRAME_SECONDS, ConnectionLost
from tilewright.support.cache import atomic_file

ROLES = ("tracker", "device", "user")
_SCHEME = "tilewright"
_AUTHORITY, _REVOKED, _CERTIFICATE, _KEY = "authority.pem", "revoked.pem", "certificate.pem", "key.pem"
_AUTHORITY_KEY = "authority.key"
_DAYS = 825
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


class Impostor(RpcError):
    """A peer without a certificate of this fleet, or with one of another role."""


@dataclass(frozen=True)
class Peer:
    """The identity of the peer; none over a plaintext connection, which only loopback allows."""

    role: str
    name: str

    def __str__(self) -> str:
        return f"{self.role} {self.name}"


@dataclass(frozen=True)
class Bundle:
    """A folder with one holder's certificate and key, the authority's certificate and what it revoked."""

    folder: Path

    @property
    def authority(self) -> Path:
        """The certificate that all others are checked against."""
        return self.folder / _AUTHORITY

    def context(self, listening: bool) -> ssl.SSLContext:
        """TLS 1.3 with our certificate, asking for the peer's. Raises `EnvironmentError_` for an unusable bundle.

        A listener takes one that was made of the same files again: who is revoked counts from the next connection on,
        but reading certificates for each of many connections would keep everybody waiting.
        """
        if not listening:
            return self._made(listening)
        try:
            stats = [(self.folder / name).stat() for name in (_CERTIFICATE, _KEY, _AUTHORITY, _REVOKED)]
        except OSError as error:
            raise self._unusable(error) from None
        return _context(self, tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats))

    def _unusable(self, error: Exception) -> EnvironmentError_:
        return EnvironmentError_(
            f"{self.folder} is no usable bundle of certificates ({error}); `tilewright rpc init` makes them"
        )

    def _made(self, listening: bool) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if listening else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.check_hostname = False
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_cert_chain(self.folder / _CERTIFICATE, self.folder / _KEY)
            context.load_verify_locations(self.authority)
            context.load_verify_locations(self.folder / _REVOKED)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        except (OSError, ssl.SSLError) as error:
            raise self._unusable(error) from None
        return context


@functools.lru_cache(maxsize=16)
def _context(bundle: Bundle, files: tuple[tuple[int, int, int], ...]) -> ssl.SSLContext:
    """The context of a listener with a bundle whose files are these."""
    context = bundle._made(listening=True)
    context.num_tickets = 0  # who comes again shows the certificate again
    return context


def secured(connection: socket.socket, bundle: Bundle, listening: bool, roles: tuple[str, ...]) -> tuple[Any, Peer]:
    """TLS over `connection`, with a peer of one of `roles`; the socket and the peer. Raises `Impostor`, `RpcError`."""
    context = bundle.context(listening)
    connection.settimeout(FRAME_SECONDS)
    try:
        wrapped = context.wrap_socket(connection, server_side=listening)
        if listening and wrapped.version() != "TLSv1.3":
            raise Impostor(f"a peer offers {wrapped.version()}; TLS 1.3 is needed")
    except ssl.SSLError as error:
        raise Impostor(f"the other end is not of this fleet: {error.reason or error}") from None
    except OSError as error:
        raise ConnectionLost(f"the other end left during the TLS handshake: {error}") from None
    peer = _peer_of(wrapped.getpeercert())
    if peer.role not in roles:
        wrapped.close()
        raise Impostor(f"the certificate of {peer} is not one of a {' or '.join(roles)}")
    return wrapped, peer


def _peer_of(certificate: Any) -> Peer:
    for kind, value in (certificate or {}).get("subjectAltName", ()):
        scheme, _, rest = value.partition("://")
        role, _, name = rest.partition("/")
        if kind == "URI" and scheme == _SCHEME and role in ROLES and name:
            return Peer(role, name)
    raise Impostor("the peer's certificate names no role in a fleet")


def require_loopback(host: str) -> None:
    """Raise `InputError` unless `host` is this machine alone: what plaintext is allowed on."""
    try:
        found = {info[4][0] for info in socket.getaddrinfo(host, None)}
    except OSError as error:
        raise InputError(f"{host!r} is no address: {error}") from None
    if not found or not all(ipaddress.ip_address(str(address).split("%")[0]).is_loopback for address in found):
        raise InputError(
            f"without certificates only this machine itself may connect, and {host!r} is reached from others: "
            "use a bundle of `tilewright rpc init`, or listen on 127.0.0.1"
        )


def make_authority(folder: str | os.PathLike[str]) -> Path:
    """Make the authority of a new fleet in `folder`; the path of its certificate. Raises `InputError` if one is."""
    x509, hashes, _serialization, ec = _cryptography()
    position = Path(folder)
    if (position / _AUTHORITY).exists():
        raise InputError(f"{position / _AUTHORITY} is there already; a fleet has one authority: choose another folder")
    position.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _named(x509, "Tilewright fleet authority")
    certificate = (
        _begun(x509, name, name, key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(x509, signs=True), critical=True)
        .sign(key, hashes.SHA256())
    )
    _write(position / _AUTHORITY_KEY, _secret(key), 0o600)
    _write(position / _AUTHORITY, _public(certificate), 0o644)
    _write_revoked(position, [])
    return position / _AUTHORITY


def make_bundle(folder: str | os.PathLike[str], role: str, name: str, days: int = _DAYS) -> Path:
    """Certify `name` as a `role` of the fleet in `folder`; the folder of its bundle. Raises `InputError`."""
    x509, hashes, _serialization, ec = _cryptography()
    if role not in ROLES or not _NAME.fullmatch(name):
        raise InputError(f"{role} {name!r}: a role is one of {', '.join(ROLES)}, a name has letters, digits, . _ -")
    position = Path(folder)
    authority, signer = _authority(position)
    bundle = position / f"{role}-{name}"
    if bundle.exists():
        raise InputError(f"{bundle} is there already; revoke it first, or choose another name")
    key = ec.generate_private_key(ec.SECP256R1())
    identity = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(f"{_SCHEME}://{role}/{name}")])
    certificate = (
        _begun(x509, _named(x509, f"{role} {name}"), authority.subject, key, days)
        .add_extension(identity, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(x509, signs=False), critical=True)
        .sign(signer, hashes.SHA256())
    )
    bundle.mkdir()
    _write(bundle / _KEY, _secret(key), 0o600)
    _write(bundle / _CERTIFICATE, _public(certificate), 0o644)
    for shared in (_AUTHORITY, _REVOKED):
        _write(bundle / shared, (position / shared).read_bytes(), 0o644)
    return bundle


def revoke(folder: str | os.PathLike[str], role: str, name: str) -> Path:
    """Revoke the certificate of `name`; the path of the list, which is copied into the bundles of all that listen."""
    x509, _hashes, _serialization, _ec = _cryptography()
    position = Path(folder)
    bundle = position / f"{role}-{name}"
    try:
        certificate = x509.load_pem_x509_certificate((bundle / _CERTIFICATE).read_bytes())
        listed = x509.load_pem_x509_crl((position / _REVOKED).read_bytes())
    except (OSError, ValueError) as error:
        raise InputError(f"{bundle} is no bundle of this fleet: {error}") from None
    serials = sorted({entry.serial_number for entry in listed} | {certificate.serial_number})
    _write_revoked(position, serials)
    for beside in sorted(path for path in position.iterdir() if (path / _REVOKED).exists()):
        _write(beside / _REVOKED, (position / _REVOKED).read_bytes(), 0o644)
    return position / _REVOKED


def _cryptography() -> tuple[Any, Any, Any, Any]:
    try:
        # an optional package
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError:
        raise EnvironmentError_(
            "certificates are made by the package cryptography, which is not installed: pip install 'tilewright[rpc]'"
        ) from None
    return x509, hashes, serialization, ec


def _authority(position: Path) -> tuple[Any, Any]:
    x509, _hashes, serialization, _ec = _cryptography()
    try:
        certificate = x509.load_pem_x509_certificate((position / _AUTHORITY).read_bytes())
        key = serialization.load_pem_private_key((position / _AUTHORITY_KEY).read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(
            f"{position} holds no authority ({error}); `tilewright rpc init {position}` makes one"
        ) from None
    return certificate, key


def _begun(x509: Any, subject: Any, issuer: Any, key: Any, days: int = 3650) -> Any:
    """A certificate builder with all that every certificate has; it holds from an hour ago on, as clocks differ."""
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(x509: Any, signs: bool) -> Any:
    others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "encipher_only")
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        decipher_only=False,
        **dict.fromkeys(others, False),
    )


def _write_revoked(position: Path, serials: list[int]) -> None:
    x509, hashes, _serialization, _ec = _cryptography()
    authority, signer = _authority(position)
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(authority.subject)
        .last_update(now - datetime.timedelta(hours=1))
        .next_update(now + datetime.timedelta(days=3650))
    )
    for serial in serials:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        builder = builder.add_revoked_certificate(entry)
    _write(position / _REVOKED, _public(builder.sign(signer, hashes.SHA256())), 0o644)


def _named(x509: Any, text: str) -> Any:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])


def _secret(key: Any) -> bytes:
    _x509, _hashes, serialization, _ec = _cryptography()
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _public(made: Any) -> bytes:
    _x509, _hashes, serialization, _ec = _cryptography()
    return made.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, contents: bytes, mode: int) -> None:
    try:
        with atomic_file(path, mode=mode) as temporary:
            temporary.write_bytes(contents)
    except OSError as error:
        raise EnvironmentError_(f"cannot write {path}: {error.strerror or error}") from None
