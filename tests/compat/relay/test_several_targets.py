"""Models built for a device and its host: where operators run, on which devices they are put, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError, UnsupportedError
from tilewright.runtime.gpu.devices import open_device

RNG = np.random.default_rng(5)
WEIGHT, X = (RNG.random(shape, dtype=np.float32) for shape in ((8, 8), (4, 8)))


@pytest.fixture(autouse=True)
def _opencl() -> None:
    try:
        open_device("opencl", False)
    except Exception as error:
        pytest.skip(f"no OpenCL device: {error}")


def _mod(marked: bool) -> Any:
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(4, 8))
    y = relay.sigmoid(relay.nn.dense(x, relay.const(WEIGHT)))
    y = relay.annotation.on_device(y, tvm.cpu()) if marked else y
    return tvm.IRModule.from_expr(relay.Function([x], relay.exp(y)))


EXPECTED = np.exp(1 / (1 + np.exp(-(X @ WEIGHT.T))))


def test_marks_and_the_rest() -> None:
    import tvm
    from tvm import relay

    targets = (
        {"cpu": "llvm", "opencl": "opencl"},
        {tvm.opencl(): tvm.target.Target("opencl"), tvm.cpu(): "llvm"},
        ["llvm", "opencl"],
    )
    for target in targets:
        lib = relay.build(_mod(marked=True), target=target)
        assert [(part.device, len(part.segments)) for part in lib.executable.manifest.parts] == [("gpu", 1), ("cpu", 1)]
        module = tvm.contrib.graph_executor.GraphModule(lib["default"](tvm.cpu(0), tvm.opencl(0)))
        module.run(x=X)
        np.testing.assert_allclose(module.get_output(0).numpy(), EXPECTED, rtol=1e-5)
    with pytest.raises(InputError, match=r"cuda\(0\) is not a device that models run on here"):
        lib["default"](tvm.cpu(0), tvm.cuda(0))


def test_without_marks_the_device_computes_all(tmp_path: Path) -> None:
    import tvm
    from tvm import relay

    graph, lib, _ = relay.build(_mod(marked=False), target={"cpu": "llvm", "opencl": "opencl"})
    assert lib.executable.manifest.device == "gpu"
    lib.export_library(str(tmp_path / "model.so"))
    loaded = tvm.runtime.load_module(str(tmp_path / "model.so"))
    for one in (lib, loaded):
        module = tvm.contrib.graph_executor.create(graph, one, [tvm.cpu(0)])
        module.run(x=X)
        np.testing.assert_allclose(module.get_output(0).numpy(), EXPECTED, rtol=1e-5)


def test_the_virtual_machine_takes_them_too() -> None:
    import tvm
    from tvm import relay

    target = {"cpu": "llvm", "opencl": "opencl"}
    machine = tvm.runtime.vm.VirtualMachine(relay.vm.compile(_mod(True), target=target), [tvm.cpu(), tvm.opencl()])
    np.testing.assert_allclose(machine.run(X).numpy(), EXPECTED, rtol=1e-5)


@pytest.mark.parametrize("target", [["llvm", "llvm"], {"opencl": "opencl", "cuda": "cuda"}])
def test_what_is_refused(target: Any) -> None:
    from tvm import relay

    kinds = ", ".join(target)
    with pytest.raises(UnsupportedError, match=f"for one target, or a device and its host, not for {kinds}"):
        relay.build(_mod(marked=False), target)
