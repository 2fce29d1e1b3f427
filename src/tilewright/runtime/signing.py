"""Signatures of artifacts: who saved a file, checked before anything in it is used (docs/security.md).

    make_keys("mine")                       # mine.pem, which stays secret, and mine.pub.pem, which is given away
    sign("model.tw", "mine.pem")            # writes model.tw.sig
    tilewright.load("model.tw", verify="mine.pub.pem")

A signature is Ed25519 (RFC 8032) of the file's SHA-256 behind a prefix that says what is signed, in a file of its own
beside the artifact: one line of text. Keys are PEM files as OpenSSL writes them. The package `cryptography` does the
arithmetic.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from pathlib import Path
from typing import Any

from tilewright.errors import ArtifactError, EnvironmentError_, InputError
from tilewright.support.cache import atomic_file

#: What stands before the signature in its file, and before what is signed.
_FORMAT = "tilewright-signature-1"

#: A key: the path of a PEM file, or its bytes.
Key = str | os.PathLike[str] | bytes


def signature_path(path: str | os.PathLike[str]) -> Path:
    """The path of a file's signature: beside it, with `.sig` behind its name."""
    return Path(f"{os.fspath(path)}.sig")


def make_keys(name: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Write a new pair of keys, NAME.pem (readable by its owner alone) and NAME.pub.pem; their paths.

    Raises `InputError` where one of the files is there already.
    """
    serialization, ed25519 = _cryptography()
    private, public = Path(f"{os.fspath(name)}.pem"), Path(f"{os.fspath(name)}.pub.pem")
    for path in (private, public):
        if os.path.lexists(path):
            raise InputError(f"{path} is there already, and is not replaced by another key; choose another name")
    key = ed25519.Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    shared = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    _write(private, secret, 0o600)
    _write(public, shared, 0o666)
    return private, public


def sign(path: str | os.PathLike[str], key: Key) -> Path:
    """Sign a file with a private key; the path of the signature. Raises `InputError`, `ArtifactError`."""
    private = private_key(key)
    try:
        message = _message(Path(path).read_bytes())
    except OSError as error:
        raise ArtifactError(f"cannot read {path}: {error.strerror or error}") from None
    text = f"{_FORMAT} {base64.b64encode(private.sign(message)).decode()}\n"
    made = signature_path(path)
    _write(made, text.encode(), 0o666)
    return made


def check_signature(path: str | os.PathLike[str], contents: Any, key: Key) -> None:
    """Raise `ArtifactError` unless the signature beside `path` is of `contents` (bytes) and by the owner of `key`.

    `key` is the public one; for another kind of key `InputError`.
    """
    public = public_key(key)
    beside = signature_path(path)
    try:
        name, _, text = beside.read_text(encoding="ascii").partition(" ")
        signature = base64.b64decode(text.strip(), validate=True)
    except FileNotFoundError:
        raise ArtifactError(f"{path} is not signed: there is no {beside}. It was not loaded") from None
    except (OSError, UnicodeDecodeError, binascii.Error) as error:
        raise ArtifactError(f"{beside} is not readable as a signature: {error}. {path} was not loaded") from None
    if name != _FORMAT:
        raise ArtifactError(f"{beside} is no signature that this version knows. {path} was not loaded")
    try:
        public.verify(signature, _message(contents))
    except Exception:  # the package's InvalidSignature, which has no text
        raise ArtifactError(
            f"{path} was not signed with the key of {_named(key)}, or was changed since. It was not loaded"
        ) from None


def private_key(key: Key) -> Any:
    """The key that signs. Raises `InputError` for what is none."""
    serialization, ed25519 = _cryptography()
    try:
        private = serialization.load_pem_private_key(_pem(key), None)
    except (ValueError, TypeError) as error:
        raise InputError(f"{_named(key)} is no private key without a password in PEM form: {error}") from None
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise InputError(f"{_named(key)} is no Ed25519 key; `tilewright keygen NAME` makes one")
    return private


def public_key(key: Key) -> Any:
    """The key that checks a signature. Raises `InputError` for what is none."""
    serialization, ed25519 = _cryptography()
    try:
        public = serialization.load_pem_public_key(_pem(key))
    except (ValueError, TypeError) as error:
        raise InputError(f"{_named(key)} is no public key in PEM form: {error}") from None
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise InputError(f"{_named(key)} is no Ed25519 key; `tilewright keygen NAME` makes one")
    return public


def _message(contents: Any) -> bytes:
    return f"{_FORMAT}\0".encode() + hashlib.sha256(contents).digest()


def _pem(key: Key) -> bytes:
    if isinstance(key, bytes):
        return key
    try:
        return Path(key).read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the key {os.fspath(key)}: {error.strerror or error}") from None


def _named(key: Key) -> str:
    return "the key given as bytes" if isinstance(key, bytes) else os.fspath(key)


def _write(path: Path, contents: bytes, mode: int) -> None:
    try:
        with atomic_file(path, mode=mode) as temporary:
            temporary.write_bytes(contents)
    except OSError as error:
        raise EnvironmentError_(f"cannot write {path}: {error.strerror or error}") from None


def _cryptography() -> tuple[Any, Any]:
    """The modules of the package that are needed, which is an extra."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise EnvironmentError_(
            "signatures need the package cryptography, which is not installed; run: pip install 'tilewright[sign]'"
        ) from None
    return serialization, ed25519
