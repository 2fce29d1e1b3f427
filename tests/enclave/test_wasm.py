"""Models as WebAssembly modules without imports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.driver.test_build_source import reference
from tests.onnx_models import convolution
from tilewright.compile import export_source
from tilewright.enclave import TARGETS, WasmModel, open_enclave
from tilewright.errors import InputError

pytest.importorskip("wasmtime", reason="needs the package wasmtime")
pytest.importorskip("ziglang", reason="needs the package ziglang, for its C compiler")


def test_results_without_imports(tmp_path: Path) -> None:
    files = export_source(convolution(), tmp_path / "net.c", target=TARGETS["wasm"], freestanding=True)
    model = open_enclave(files, "wasm")
    assert isinstance(model, WasmModel)
    x = np.random.default_rng(0).standard_normal((1, 3, 12, 12), dtype=np.float32)
    np.testing.assert_allclose(model(x), reference(convolution(), image=x)[0], rtol=1e-5, atol=1e-5)
    assert len(model.time({"image": x}, repeat=2)) == 2


def test_calls_of_a_library_are_refused(tmp_path: Path) -> None:
    files = export_source(convolution(), tmp_path / "net.c", target=TARGETS["wasm"], freestanding=True)
    text = files[0].read_text().replace("_run(const void", "_run2(const void")
    call = "int getpid(void);\nint tilewright_net_run(const void *const *i, void *const *o, void *w, size_t s)"
    files[0].write_text(f"{text}\n{call} {{ (void)i; (void)o; (void)w; (void)s; return getpid(); }}\n")
    with pytest.raises(InputError, match=r"calls env\.getpid, which a module without imports does not have"):
        open_enclave(files, "wasm")
