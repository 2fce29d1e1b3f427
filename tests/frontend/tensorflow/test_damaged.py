"""Truncated, mutated and hostile SavedModels and graphs give one error; needs no TensorFlow."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import InputError, ModelError, UnsupportedError, UserError
from tilewright.frontend.formats.table import frontend_of
from tilewright.frontend.tensorflow import from_tensorflow
from tilewright.relay import interpret

MODEL = Path(__file__).resolve().parents[3].parent / "shared/models/real/tf_savedmodel/basic_pitch/nmp"


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(number: int, value: bytes | int) -> bytes:
    """A field of a message."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def attr(name: str, value: bytes) -> bytes:
    """An attribute of a node."""
    return field(5, field(1, name.encode()) + field(2, value))


def node(name: str, kind: str, inputs: tuple[str, ...] = (), *attributes: bytes) -> bytes:
    """A node of a graph."""
    read = b"".join(field(3, one.encode()) for one in inputs)
    return field(1, field(1, name.encode()) + field(2, kind.encode()) + read + b"".join(attributes))


def shape(*extents: int) -> bytes:
    """A TensorShapeProto."""
    return b"".join(field(2, field(1, extent & (1 << 64) - 1)) for extent in extents)


def constant(name: str, data: np.ndarray, said: tuple[int, ...] | None = None) -> bytes:
    """A constant of float32."""
    content = field(1, 1) + field(2, shape(*(data.shape if said is None else said))) + field(4, data.tobytes())
    return node(name, "Const", (), attr("dtype", field(6, 1)), attr("value", field(8, content)))


def graph(*more: bytes) -> bytes:
    """x [batch, 3] times a constant, through Relu."""
    x = node("x", "Placeholder", (), attr("dtype", field(6, 1)), attr("shape", field(7, shape(-1, 3))))
    w = constant("w", np.arange(6, dtype="float32").reshape(3, 2) - 3)
    return x + w + node("y", "MatMul", ("x", "w")) + node("z", "Relu", ("y",)) + b"".join(more)


def converts_or_refuses(data: bytes | Path) -> bool:
    """True where it is a model; anything but a `UserError` fails the test."""
    try:
        from_tensorflow(data)
    except UserError as error:
        assert str(error)
        return False
    return True


def test_a_graph_is_read() -> None:
    mod, specs = from_tensorflow(graph())
    assert [spec.name for spec in specs] == ["x"] and mod["main"].attrs["output_names"] == ("z",)
    mod, _ = from_tensorflow(graph(), {"x": (2, 3)}, outputs=["y"])
    x = np.ones((2, 3), "float32")
    np.testing.assert_array_equal(interpret(mod, {"x": x})[0], x @ (np.arange(6, dtype="float32").reshape(3, 2) - 3))
    assert frontend_of(graph()).name == "tensorflow"


def test_mutated_graphs_give_one_error_or_a_model() -> None:
    whole, rng, refused = graph(), np.random.default_rng(2), 0
    for _ in range(400):
        data = bytearray(whole)
        for position in rng.integers(0, len(data), rng.integers(1, 10)):
            data[position] = int(rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))]))
        refused += not converts_or_refuses(bytes(data))
    assert refused > 100
    for length in range(1, len(whole)):
        converts_or_refuses(whole[:length])


@pytest.mark.skipif(not MODEL.is_dir(), reason="../shared/models/real/tf_savedmodel is absent")
def test_mutated_saved_models_give_one_error_or_a_model(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(MODEL, folder)
    rng = np.random.default_rng(3)
    files = [folder / "saved_model.pb", folder / "variables" / "variables.index"]
    for file, count in zip(files, (8, 30)):
        whole = file.read_bytes()
        for _ in range(count):
            data = bytearray(whole)
            for position in rng.integers(0, len(data), rng.integers(1, 30)):
                data[position] = int(rng.integers(256))
            file.write_bytes(bytes(data))
            converts_or_refuses(folder)
        for length in np.linspace(0, len(whole) - 1, 12).astype(int):
            file.write_bytes(whole[:length])
            assert not converts_or_refuses(folder)
        file.write_bytes(whole)
    numbers = folder / "variables" / "variables.data-00000-of-00001"
    numbers.write_bytes(numbers.read_bytes()[:1000])
    with pytest.raises(ModelError, match="bytes at byte"):
        from_tensorflow(folder)


def test_huge_declared_constants_are_refused_before() -> None:
    with pytest.raises(ModelError, match="24 bytes for float32 of shape"):
        from_tensorflow(graph(constant("v", np.zeros(6, "float32"), (1 << 40, 3)), node("u", "Relu", ("v",))))
    said = field(1, 1) + field(2, shape(1 << 40)) + field(5, b"\0\0\0\0")
    with pytest.raises(ModelError, match="1 numbers for a constant of shape"):
        from_tensorflow(graph(node("v", "Const", (), attr("value", field(8, said))), node("u", "Relu", ("v",))))


def test_circles_are_refused() -> None:
    with pytest.raises(ModelError, match="needs its own result"):
        from_tensorflow(graph(node("a", "Add", ("b", "x")), node("b", "Relu", ("a",)), node("c", "Relu", ("b",))))


def test_a_loop_that_reads_its_own_result_is_refused() -> None:
    loop = [
        node("e", "Enter", ("x",)), node("m", "Merge", ("e", "n")), node("t", "IsFinite", ("m",)),
        node("l", "LoopCond", ("t",)), node("s", "Switch", ("m", "l")), node("q", "Exit", ("s",)),
        node("a", "Add", ("s:1", "q")), node("n", "NextIteration", ("a",)),
    ]  # fmt: skip
    with pytest.raises(ModelError, match="more than 20 loops within each other"):
        from_tensorflow(graph(*loop), outputs=["q"])


def test_what_a_graph_lacks_is_named() -> None:
    with pytest.raises(ModelError, match="needs 'nothing', which is not there"):
        from_tensorflow(graph(node("a", "Relu", ("nothing",))))
    with pytest.raises(InputError, match="has no node 'q' to be an output"):
        from_tensorflow(graph(), outputs=["q"])
    with pytest.raises(UnsupportedError, match="no converter for the operator Wavelet"):
        from_tensorflow(graph(node("a", "Wavelet", ("z",))))


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    for data in (b"", b"\n", b"\n\x05abc", b"\x08\x01"):
        assert not converts_or_refuses(data)
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ModelError, match="is a SavedModel without a graph"):
        from_tensorflow(tmp_path)
