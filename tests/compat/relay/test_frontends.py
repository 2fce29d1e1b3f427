"""Classic names of importers: they lead to ours, with the classic arguments."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.tensorflow.test_damaged import graph
from tilewright.compat.relay.frontend import from_keras, from_tensorflow, from_tflite
from tilewright.errors import UnsupportedError
from tilewright.relay import interpret


class GraphDef:
    """The fields and methods of TensorFlow's messages."""

    def SerializeToString(self) -> bytes:
        return graph()


def test_graphs_by_shape_and_outputs() -> None:
    mod, params = from_tensorflow(GraphDef(), layout="NCHW", shape={"x": (2, 3)}, outputs=["z"])
    assert params == {}
    assert interpret(mod, {"x": np.ones((2, 3), "float32")})[0].shape == (2, 2)
    mod, _ = from_tensorflow(GraphDef(), shape={"x": (2, 3)}, outputs="y")
    assert mod["main"].attrs["output_names"] == ("y",)


def test_keras_models_have_channels_second_unless_told() -> None:
    pytest.importorskip("h5py", reason="h5py is not installed")
    from tests.frontend.keras.test_damaged import archive, config

    described = config()
    layers = described["config"]["layers"]
    layers[0]["config"]["batch_shape"] = [None, 5, 6, 4]
    mod, _ = from_keras(archive(described), shape={"x": (1, 4, 5, 6)})
    assert interpret(mod, {"x": np.ones((1, 4, 5, 6), "float32")})[0].shape == (1, 3, 5, 6)
    mod, _ = from_keras(archive(described), shape={"x": (1, 5, 6, 4)}, layout="NHWC")
    assert interpret(mod, {"x": np.ones((1, 5, 6, 4), "float32")})[0].shape == (1, 5, 6, 3)
    with pytest.raises(UnsupportedError, match="layout 'CHWN'"):
        from_keras(archive(described), layout="CHWN")


def test_tflite_takes_no_converters_of_its_own() -> None:
    with pytest.raises(UnsupportedError, match="op_converter is not supported"):
        from_tflite(b"", op_converter=object())
