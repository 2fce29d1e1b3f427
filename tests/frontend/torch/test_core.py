"""The list of core ATen operators is PyTorch's own, and what is not converted is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from tilewright.errors import UnsupportedError
from tilewright.frontend.torch import from_pytorch
from tilewright.frontend.torch.core import CORE, missing_core, overload
from tilewright.frontends import FRONTENDS


def test_the_list_names_what_the_format_cannot() -> None:
    (frontend,) = [one for one in FRONTENDS if one.name == "torch"]
    assert frontend.missing() == missing_core() and set(missing_core()) < set(CORE)
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


def test_complex_numbers_are_refused_by_the_operator_s_name() -> None:
    torch = pytest.importorskip("torch", reason="needs torch: see docs/pytorch.md")

    class Spectrum(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.fft.rfft(x).abs()

    with pytest.raises(UnsupportedError, match="_fft_r2c"):
        from_pytorch(torch.export.export(Spectrum(), (torch.ones(8),)).run_decompositions())
