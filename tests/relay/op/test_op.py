"""The table of operators is complete: each has a compute, a reference and a builder of its name."""

from __future__ import annotations

import functools

import pytest

from tilewright.relay import op
from tilewright.relay.op import registry


@pytest.mark.parametrize("name", registry.names())
def test_operator_is_complete(name):
    entry = registry.get(name)
    assert entry.compute is not None and entry.reference is not None
    builder = functools.reduce(getattr, name.split("."), op)
    assert callable(builder) and builder.__doc__
