"""`import tvm` means this package in the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tilewright import compat


@pytest.fixture(autouse=True)
def classic() -> Iterator[None]:
    """The finder is in place during each test, and `tvm` forgotten after it."""
    compat.install()
    yield
    compat.uninstall()
