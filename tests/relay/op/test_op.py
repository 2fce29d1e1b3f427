"""The table of operators is complete: each has a compute, a reference and a builder of its name."""

from __future__ import annotations

import functools
import json

import pytest

from tests.relay.helpers import FORMATS
from tests.relay.op.cases import CASES
from tilewright import relay
from tilewright.relay import op
from tilewright.relay.ir import registry

#: Host operators (`data_dependent`) are tested with the host functions they name.
COMPILED = [
    name
    for name in registry.names()
    if not registry.get(name).data_dependent and not name.startswith(("relay.op.", "vta."))
]


@pytest.mark.parametrize("name", COMPILED)
def test_operator_is_complete(name):
    entry = registry.get(name)
    assert entry.reference is not None
    assert entry.compute is not None or entry.expansion is not None
    builder = functools.reduce(getattr, name.split("."), op)
    assert callable(builder) and builder.__doc__


@pytest.mark.parametrize("name", sorted(CASES))
def test_calls_survive_text_and_json(name):
    """All attributes of all cases."""
    for call in CASES[name]:
        mod = relay.IRModule.from_expr(call)
        assert relay.structural_equal(mod, relay.parse(mod.astext()))
        assert relay.structural_equal(mod, relay.load_json(relay.save_json(mod)))


def test_every_classic_operator_is_there():
    path = FORMATS.parent / "classic_ops.json"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    assert not set(json.loads(path.read_text())["relay_ops"]) - set(registry.names())
