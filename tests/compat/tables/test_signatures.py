"""Classic parameters: docs/compat_signatures.md is what its script writes, and no difference passes in silence."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tilewright.compat.tables.signatures import by_classic_parameters, classic_signature
from tilewright.errors import UnsupportedError

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "compat_signatures.py"


def script():
    spec = importlib.util.spec_from_file_location("compat_signatures", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, f"run python scripts/compat_signatures.py {done.stderr}"


def test_no_difference_passes_in_silence() -> None:
    found, _ = script().compare()
    assert {name: silent for name, (_, silent) in found.items() if silent} == {}


def test_arguments_by_the_classic_names_and_positions() -> None:
    import tvm
    from tvm import relay, topi

    x = relay.var("x", shape=(2, 4))
    assert relay.clip(a=x, a_min=0, a_max=1).op.name == "clip"
    assert str(classic_signature("tvm.relay.op.take")) == str(classic_signature("tvm.relay.take"))
    image = relay.var("image", shape=(1, 1, 5, 5))
    call = relay.nn.avg_pool2d(image, (2, 2), (2, 2), (1, 1), (0, 0), "NCHW", "", True)
    assert call.attrs["ceil_mode"]
    assert relay.nn.leaky_relu(x).attrs["alpha"] == 0.01
    a = tvm.te.placeholder((3,), name="a")
    assert topi.add(lhs=a, rhs=a).shape[0] == 3


def test_an_argument_that_makes_no_difference_here_is_refused() -> None:
    from tvm import relay

    image = relay.var("image", shape=(1, 1, 5, 5))
    with pytest.raises(UnsupportedError, match="out_layout='NHWC' is not taken here; leave it out"):
        relay.nn.avg_pool2d(image, (2, 2), out_layout="NHWC")
    with pytest.raises(TypeError, match="unexpected keyword argument 'windows'"):
        relay.nn.avg_pool2d(image, windows=(2, 2))


def test_a_function_of_keywords_is_called_by_the_classic_parameters() -> None:
    @by_classic_parameters("tvm.relay.clip")
    def clip(a_max: int, **more: object) -> object:
        """Cut off."""
        return a_max, more

    @by_classic_parameters("tvm.relay.nn.bitserial_dense")
    def dense(units: int, **more: object) -> object:
        return units, sorted(more), more["pack_dtype"]

    assert clip("x", 0, 1) == (1, {"a": "x", "a_min": 0})
    left = ["data", "data_bits", "out_dtype", "pack_dtype", "unipolar", "weight", "weight_bits"]
    assert dense("x", "w", 3) == (3, left, "uint32")
    assert (clip.__name__, clip.__doc__, clip.__module__) == ("clip", "Cut off.", __name__)
    with pytest.raises(TypeError, match="missing a required argument: 'a_max'"):
        clip("x", 0)


def test_transposed_kernels_by_their_classic_layout() -> None:
    from tvm import relay

    data, kernel = np.random.rand(1, 3, 6).astype("float32"), np.random.rand(3, 2, 3).astype("float32")
    x, w = relay.var("x", shape=(1, 3, 6)), relay.var("w", shape=(3, 2, 3))
    made = relay.nn.conv1d_transpose(x, w, channels=2, kernel_size=3, kernel_layout="OIW")
    found = relay.create_executor("graph").evaluate(relay.Function([x, w], made))(data, kernel).numpy()
    expected = np.zeros((1, 2, 8), "float32")
    for position in range(6):
        expected[:, :, position : position + 3] += np.einsum("nc,cok->nok", data[:, :, position], kernel)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
