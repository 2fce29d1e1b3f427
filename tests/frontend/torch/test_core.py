"""The list of core ATen operators is PyTorch's own."""

from __future__ import annotations

import pytest

from tilewright.frontend.formats.table import FRONTENDS
from tilewright.frontend.torch.core import CORE, missing_core, overload


def test_every_operator_of_the_list_has_a_way() -> None:
    (frontend,) = [one for one in FRONTENDS if one.name == "torch"]
    assert frontend.missing() == missing_core() and not missing_core()
    assert "add" in frontend.operators()["ATen operators"] and len(set(CORE)) == len(CORE) == 193


def test_the_list_is_that_of_pytorch() -> None:
    torch = pytest.importorskip("torch", reason="needs torch: see docs/pytorch.md")
    if not torch.__version__.startswith("2.13"):
        pytest.skip(f"the list is that of PyTorch 2.13, not {torch.__version__}")
    tagged = set()
    for schema in torch._C._jit_get_all_schemas():
        packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"), None) if "aten::" in schema.name else None
        found = getattr(packet, schema.overload_name or "default", None)
        if found is not None and torch.Tag.core in found.tags:
            tagged.add(str(found))
    assert {overload(name) for name in CORE} == tagged
