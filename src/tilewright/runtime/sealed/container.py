"""Bytes encrypted (AES-256-GCM) and signed (Ed25519): one file, of which nothing is used before both were checked.

    make_key("weights.key")                                     # 32 random bytes, as 64 hexadecimal digits
    data = seal(contents, "mine.pem", "weights.key")
    unseal(data, "mine.pub.pem", "weights.key") == contents

Header (48 bytes: format, number of bytes, what they belong to, nonce), encrypted bytes, tag (16), signature (64). The
tag covers the header, the signature all before it. The package `cryptography` does the arithmetic; `reader.py` has the
reader in C for machines without it.
"""

from __future__ import annotations

import os
import secrets
import struct
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.errors import ArtifactError, EnvironmentError_, InputError
from tilewright.runtime.container import begins_with
from tilewright.runtime.signing import Key, private_key, public_key
from tilewright.support.cache import atomic_file

FORMAT = b"TWSEAL01"
_HEADER = struct.Struct("<8sQ16s12s4x")
_TAG, _SIGNATURE = 16, 64
_KEY_BYTES = 32


class Seal(NamedTuple):
    """The private key that signs, and the key that encrypts."""

    sign: Key
    encrypt: Key


def make_key(path: str | os.PathLike[str]) -> Path:
    """Write a new key of encryption, readable by its owner alone; its path. Raises `InputError` where a file is."""
    made = Path(path)
    if os.path.lexists(made):
        raise InputError(f"{made} is there already, and is not replaced by another key; choose another name")
    try:
        with atomic_file(made, mode=0o600) as temporary:
            temporary.write_text(f"{secrets.token_hex(_KEY_BYTES)}\n")
    except OSError as error:
        raise EnvironmentError_(f"cannot write {made}: {error.strerror or error}") from None
    return made


def is_sealed(path: str | os.PathLike[str]) -> bool:
    """True if the file begins like sealed data."""
    return begins_with(path, FORMAT)


def seal(contents: bytes, sign: Key, encrypt: Key, owner: bytes = bytes(16)) -> bytes:
    """`contents` encrypted with a key of `make_key` and signed with a private one; `owner` is what they belong to."""
    secret, signer = encryption_key(encrypt), private_key(sign)
    nonce = secrets.token_bytes(12)
    header = _HEADER.pack(FORMAT, len(contents), owner, nonce)
    body = header + _cipher(secret).encrypt(nonce, contents, header)
    return body + signer.sign(body)


def unseal(sealed: bytes, verify: Key, decrypt: Key, owner: bytes = bytes(16), name: str = "the data") -> bytes:
    """The contents. Raises `ArtifactError` where they are not whole, or not those that the keys' owners sealed."""
    if not sealed.startswith(FORMAT):
        raise ArtifactError(f"{name} is not sealed, or by another version: seal it again")
    ends = _HEADER.size + _TAG + _SIGNATURE
    if len(sealed) < ends or len(sealed) - ends != _HEADER.unpack_from(sealed)[1]:
        raise ArtifactError(f"{name} is truncated: its header announces another number of bytes")
    _, _, found, nonce = _HEADER.unpack_from(sealed)
    body, signature = sealed[:-_SIGNATURE], sealed[-_SIGNATURE:]
    try:
        public_key(verify).verify(signature, body)
    except InputError:
        raise
    except Exception:  # the package's InvalidSignature, which has no text
        raise ArtifactError(f"{name} was not signed with that key, or was changed since. It was not used") from None
    if found != owner:
        raise ArtifactError(f"{name} belongs to another model")
    try:
        return bytes(_cipher(encryption_key(decrypt)).decrypt(nonce, body[_HEADER.size :], body[: _HEADER.size]))
    except InputError:
        raise
    except Exception:  # the package's InvalidTag, which has no text
        raise ArtifactError(f"{name} was encrypted with another key. It was not used") from None


def encryption_key(key: Key) -> bytes:
    """The 32 bytes of a key: of a file of `make_key`, or as they are. Raises `InputError`."""
    if isinstance(key, bytes):
        found = key
    else:
        try:
            found = bytes.fromhex(Path(key).read_text(encoding="ascii"))
        except OSError as error:
            raise InputError(f"cannot read the key {os.fspath(key)}: {error.strerror or error}") from None
        except ValueError:
            found = b""
    if len(found) != _KEY_BYTES:
        named = "the key given as bytes" if isinstance(key, bytes) else os.fspath(key)
        raise InputError(f"{named} is no key of encryption; `tilewright keygen NAME --encryption` makes one")
    return found


def _cipher(secret: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError:
        raise EnvironmentError_(
            "sealing needs the package cryptography, which is not installed; run: pip install 'tilewright[sign]'"
        ) from None
    return AESGCM(secret)
