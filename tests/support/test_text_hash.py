"""Hashes of bytes against values that TensorFlow gives, and the one published with SipHash."""

from __future__ import annotations

import pytest

from tilewright.support.text_hash import crossed, fingerprint, keyed_hash

#: By TensorFlow's to_hash_bucket_fast with the largest number of bins.
FINGERPRINTS = {
    b"": 1936946117179621456, b"a": 3694432073954588132, b"hello": 3786372426573024489,
    b"eight by": 8108380835214656674, b"seventeen letters": 7723131893474706300, b"x" * 33: 3046993373088323128,
    bytes(range(64)): 8468179876952591436, bytes(range(65)): 5089956174350597567,
    bytes(range(200)): 525935771297148851,
}  # fmt: skip


@pytest.mark.parametrize("data", list(FINGERPRINTS), ids=len)
def test_fingerprints_equal_tensorflows(data: bytes) -> None:
    assert fingerprint(data) % (2**63 - 1) == FINGERPRINTS[data]


def test_the_keyed_hash_equals_the_published_example() -> None:
    """The example of SipHash's description: key 00 to 0f, message 00 to 0e."""
    key = tuple(int.from_bytes(bytes(range(at, at + 8)), "little") for at in (0, 8))
    assert keyed_hash(bytes(range(15)), key) == 0xA129CA6149BE45E5


def test_crossed_features_equal_tensorflows() -> None:
    """As TensorFlow crosses "a" with 1 and "b" with -2, in 10**9 bins."""
    for first, second, wanted in ((b"a", 1, 153663485), (b"b", -2, 865887154)):
        assert crossed([fingerprint(first), second]) % 10**9 == wanted
