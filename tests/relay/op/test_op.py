"""The table of operators is complete: each has a compute, a reference and a builder of its name."""

from __future__ import annotations

import functools
import json

import pytest

from tests.relay.helpers import FORMATS
from tilewright.relay import op
from tilewright.relay.op import registry

#: Host operators (`data_dependent`) are tested with the host functions they name.
COMPILED = [
    name for name in registry.names() if not registry.get(name).data_dependent and not name.startswith("relay.op.")
]


@pytest.mark.parametrize("name", COMPILED)
def test_operator_is_complete(name):
    entry = registry.get(name)
    assert entry.reference is not None
    assert entry.compute is not None or entry.expansion is not None
    builder = functools.reduce(getattr, name.split("."), op)
    assert callable(builder) and builder.__doc__


def test_every_classic_operator_is_there():
    path = FORMATS.parent / "classic_ops.json"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    assert not set(json.loads(path.read_text())["relay_ops"]) - set(registry.names())
