"""Sealed weights: the reader in C beside the package cryptography, and each way of being refused."""

from __future__ import annotations

import ctypes
import hashlib
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tests.onnx_models import perceptron
from tilewright.codegen.source.compile_c import SEMANTICS
from tilewright.compile import export_source
from tilewright.enclave import undefined_symbols
from tilewright.errors import ArtifactError, InputError
from tilewright.runtime import signing
from tilewright.runtime.sealed.container import make_key, seal, unseal
from tilewright.runtime.sealed.reader import reader_text

pytest.importorskip("cryptography", reason="needs the package cryptography")
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler on PATH")

_CALLS = """
void hash(const uint8_t *data, size_t bytes, uint8_t *digest) {
  sealed_hash state;
  sealed_hash_begin(&state);
  sealed_hash_add(&state, data, bytes);
  sealed_hash_end(&state, digest);
}
int verify(const uint8_t *signature, const uint8_t *key, const uint8_t *message, size_t bytes) {
  return sealed_verify(signature, key, message, bytes);
}
void decrypt(const uint8_t *key, const uint8_t *nonce, const uint8_t *header, size_t header_bytes, const uint8_t *data,
             size_t bytes, uint8_t *to, uint8_t *tag) {
  sealed_cipher cipher;
  sealed_expand_key(&cipher, key);
  sealed_tag(&cipher, nonce, header, header_bytes, data, bytes, tag);
  sealed_decrypt(&cipher, nonce, data, bytes, to);
}
int open_sealed(const uint8_t *sealed, size_t bytes, const uint8_t *model, const uint8_t *public_key,
                const uint8_t *key, uint8_t *memory, size_t memory_bytes) {
  return sealed_open(sealed, bytes, model, public_key, key, memory, memory_bytes);
}
"""


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the keys mine, other (each .pem, .pub.pem) and one.key, two.key."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("mine", "other"):
        signing.make_keys(folder / name)
    for name in ("one", "two"):
        make_key(folder / f"{name}.key")
    return folder


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The reader as a library of this process."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "reader.c").write_text(reader_text() + _CALLS)
    warnings = ["-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror"]
    command = ["cc", "-std=c99", "-O1", *warnings, "-fPIC", "-c", "reader.c", "-o", "reader.o"]
    subprocess.run(command, cwd=folder, check=True)
    assert undefined_symbols((folder / "reader.o").read_bytes()) <= {"memcpy", "memset"}
    subprocess.run(["cc", "-shared", "reader.o", "-o", "reader.so"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "reader.so"))


def _size(value: int) -> ctypes.c_size_t:
    return ctypes.c_size_t(value)


def _decrypted(reader: Any, key: bytes, nonce: bytes, header: bytes, data: bytes) -> tuple[bytes, bytes]:
    plain, tag = ctypes.create_string_buffer(len(data) or 1), ctypes.create_string_buffer(16)
    reader.decrypt(key, nonce, header, _size(len(header)), data, _size(len(data)), plain, tag)
    return plain.raw[: len(data)], tag.raw


@needs_cc
def test_digests(reader: Any) -> None:
    rng = np.random.default_rng(0)
    digest = ctypes.create_string_buffer(64)
    for size in (0, 1, 111, 112, 119, 120, 127, 128, 129, 1000):
        data = rng.bytes(size)
        reader.hash(data, _size(size), digest)
        assert digest.raw == hashlib.sha512(data).digest(), size


@needs_cc
def test_encrypted_bytes(reader: Any) -> None:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    rng = np.random.default_rng(1)
    for size in (0, 1, 15, 16, 17, 255, 256, 257, 1000):
        key, nonce, header, plain = rng.bytes(32), rng.bytes(12), rng.bytes(size // 3), rng.bytes(size)
        sealed = AESGCM(key).encrypt(nonce, plain, header)
        assert _decrypted(reader, key, nonce, header, sealed[:-16]) == (plain, sealed[-16:]), size


@needs_cc
def test_a_published_case_of_the_cipher(reader: Any) -> None:
    """Case 16 of McGrew and Viega, The Galois/Counter Mode of Operation (GCM), appendix B."""
    key = bytes.fromhex("feffe9928665731c6d6a8f9467308308" * 2)
    nonce, header = bytes.fromhex("cafebabefacedbaddecaf888"), bytes.fromhex("feedfacedeadbeef" * 2 + "abaddad2")
    data = bytes.fromhex(
        "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
        "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662"
    )
    plain, tag = _decrypted(reader, key, nonce, header, data)
    assert tag.hex() == "76fc6ece0f4e1768cddf8853bb2d551b"
    assert plain.hex().startswith("d9313225f88406e5a55909c5aff5269a") and plain.hex().endswith(
        "b16aedf5aa0de657ba637b39"
    )


@needs_cc
def test_signatures(reader: Any) -> None:
    """Tests 1 to 3 of RFC 8032, section 7.1, and random ones of the package."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    published = [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe"
            "24655141438e7a100b",
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302a"
            "eeb00d291612bb0c00",
        ),
    ]
    for _, public, message, signature in published:
        key, data, given = (bytes.fromhex(text) for text in (public, message, signature))
        assert reader.verify(given, key, data, _size(len(data))) == 0
    rng = np.random.default_rng(2)
    for turn in range(12):
        private, data = Ed25519PrivateKey.from_private_bytes(rng.bytes(32)), rng.bytes(turn * 37)
        key, signature = private.public_key().public_bytes_raw(), private.sign(data)
        assert reader.verify(signature, key, data, _size(len(data))) == 0
        wrong = bytearray(signature)
        wrong[int(rng.integers(64))] ^= 1 << int(rng.integers(8))
        assert reader.verify(bytes(wrong), key, data, _size(len(data))) == 1
        assert reader.verify(signature, key, data + b"x", _size(len(data) + 1)) == 1
    raised = int.from_bytes(signature[32:], "little") + 2**252 + 27742317777372353535851937790883648493
    assert reader.verify(signature[:32] + raised.to_bytes(32, "little"), key, data, _size(len(data))) == 1


def test_python_opens_what_it_sealed_and_nothing_else(keys: Path) -> None:
    contents = np.random.default_rng(3).bytes(1000)
    sealed = seal(contents, keys / "mine.pem", keys / "one.key")
    assert contents not in sealed
    assert unseal(sealed, keys / "mine.pub.pem", keys / "one.key") == contents
    for wrong, verify, decrypt, owner, message in (
        (sealed, "other.pub.pem", "one.key", bytes(16), "not signed with that key"),
        (sealed, "mine.pub.pem", "two.key", bytes(16), "encrypted with another key"),
        (sealed, "mine.pub.pem", "one.key", bytes(range(16)), "another model"),
        (sealed[:-1], "mine.pub.pem", "one.key", bytes(16), "truncated"),
        (sealed[:500] + b"?" + sealed[501:], "mine.pub.pem", "one.key", bytes(16), "was changed since"),
        (contents, "mine.pub.pem", "one.key", bytes(16), "is not sealed"),
    ):
        with pytest.raises(ArtifactError, match=message):
            unseal(wrong, keys / verify, keys / decrypt, owner)
    with pytest.raises(InputError, match="no key of encryption"):
        unseal(sealed, keys / "mine.pub.pem", keys / "mine.pem")


def test_artifacts(keys: Path, tmp_path: Path) -> None:
    exe = tw.compile(perceptron())
    exe.save(tmp_path / "plain.tw")
    sealed = tmp_path / "model.tw"
    sealed.write_bytes(seal((tmp_path / "plain.tw").read_bytes(), keys / "mine.pem", keys / "one.key"))
    x = np.random.default_rng(4).standard_normal((1, 8), dtype=np.float32)
    loaded = tw.load(sealed, verify=keys / "mine.pub.pem", decrypt=keys / "one.key")
    np.testing.assert_array_equal(loaded(x), exe(x))
    with pytest.raises(ArtifactError, match="encrypted with another key"):
        tw.load(sealed, verify=keys / "mine.pub.pem", decrypt=keys / "two.key")
    with pytest.raises(InputError, match="name the public key as well"):
        tw.load(sealed, decrypt=keys / "one.key")


@needs_cc
def test_models_in_c_refuse_by_a_code(keys: Path, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    mine, other = (
        load_pem_public_key((keys / f"{n}.pub.pem").read_bytes()).public_bytes_raw() for n in ("mine", "other")
    )
    one, two = (bytes.fromhex((keys / f"{name}.key").read_text()) for name in ("one", "two"))
    files = export_source(
        perceptron(), tmp_path / "net.c", freestanding=True, seal=(keys / "mine.pem", keys / "one.key")
    )
    assert [file.name for file in files] == ["net.c", "net.h", "net.weights.sealed"]
    command = ["cc", "-std=c99", "-O1", *SEMANTICS, "-shared", "-fPIC", "net.c", "-o", "net.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    loaded = ctypes.CDLL(str(tmp_path / "net.so"))
    sealed = files[2].read_bytes()
    size = len(sealed) - 128
    assert f"#define TILEWRIGHT_NET_WEIGHTS_BYTES {size}\n" in files[1].read_text()
    room = np.full(size + 192, 0xA5, np.uint8)
    memory = room.ctypes.data + -room.ctypes.data % 64

    def load(data: bytes, public: bytes | None, key: bytes, position: int = memory, nbytes: int = size) -> int:
        arguments = data, _size(len(data)), public, key, ctypes.c_void_p(position), _size(nbytes)
        return int(loaded.tilewright_net_load_weights(*arguments))

    x, y = np.random.default_rng(5).standard_normal((1, 8), dtype=np.float32), np.zeros((1, 4), np.float32)
    arrays = [(ctypes.c_void_p * 1)(array.ctypes.data) for array in (x, y)]
    workspace = np.zeros(1 << 16, np.uint8)
    start = workspace.ctypes.data + -workspace.ctypes.data % 64

    def run(x_at: int = 0, y_at: int = 0, at: int = 0) -> int:
        moved = [(ctypes.c_void_p * 1)(one[0] + by) for one, by in zip(arrays, (x_at, y_at), strict=True)]
        return int(loaded.tilewright_net_run(*moved, ctypes.c_void_p(start + at), _size(1 << 15)))

    assert run() == 1  # no weights yet
    for position in (60, 200, len(sealed) - 70, len(sealed) - 1):
        assert load(sealed[:position] + bytes([sealed[position] ^ 1]) + sealed[position + 1 :], mine, one) == 104
    assert load(sealed, other, one) == 104
    assert load(sealed, mine, two) == 105
    assert load(sealed, mine, one, nbytes=size - 1) == 3
    assert load(sealed, mine, one, memory + 4) == 4
    assert load(sealed, None, one) == 1 and load(sealed, mine, one, 0) == 1
    assert load(sealed[:-1], mine, one) == 101 and load(sealed[:100], mine, one) == 101
    assert load(b"?" + sealed[1:], mine, one) == 102
    assert load(sealed[:16] + bytes(16) + sealed[32:], mine, one) == 103
    assert (room == 0xA5).all() and run() == 1  # nothing was decrypted, and nothing is in use
    assert load(sealed, mine, one) == 0
    for moved in range(1, 4):  # of a float's four bytes
        assert run(x_at=moved) == 4 and run(y_at=moved) == 4 and run(at=moved) == 4
    assert (y == 0).all() and (workspace == 0).all()
    assert run(x_at=-arrays[0][0]) == 1
    assert run() == 0
    np.testing.assert_allclose(y, tw.compile(perceptron())(x), rtol=1e-5, atol=1e-6)
