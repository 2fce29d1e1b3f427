"""Protocol buffers read back what an encoder of the tests wrote, and refuse what is not sound."""

from __future__ import annotations

import numpy as np
import pytest

from tests.frontend.protobuf import encode, varint
from tilewright.errors import ModelError
from tilewright.frontend.messages import Record, Schema
from tilewright.frontend.text_format import read_text
from tilewright.frontend.wire import looks_like, read_message

SCHEMA = Schema(
    """
    Net name=1:string layer=2:Layer* count=3:int32=7 sizes=4:int64* weights=5:float* raw=6:bytes
      table=7:map/string/Layer ratio=8:double=0.5 on=9:bool=true modes=10:enum/Mode* deltas=11:sint64* small=12:fixed32
    Layer name=1:string inner=2:Layer mode=3:enum/Mode=AVE flags=4:bool* numbers=5:map/int32/int64
    # not -1
    enum Mode MAX AVE LAST=-3
    """.replace("\n    ", "\n")
)
VALUES = {
    "name": "net",
    "layer": [{"name": "a", "mode": "MAX"}, {"inner": {"inner": {"name": "deep"}}, "flags": [True, False]}],
    "sizes": [1, -2, 1 << 62, 300],
    "weights": [0.5, -1.25],
    "raw": b"\x00\xff",
    "table": {"x": {"name": "entry"}, "": {}},
    "modes": ["AVE", "LAST"],
    "deltas": [-1, 1, -(1 << 40)],
    "small": 0xFFFFFFFF,
}


def read(data: bytes, kind: str = "Net") -> Record:
    return read_message(data, SCHEMA, kind, "net.bin", "a net")


def test_every_kind_of_field_reads_back() -> None:
    net = read(encode(SCHEMA, "Net", VALUES))
    assert (net.name, net.count, net.ratio, net.on, net.small) == ("net", 7, 0.5, True, 0xFFFFFFFF)
    assert [layer.mode for layer in net.layer] == ["MAX", "AVE"]
    assert net.layer[1].inner.inner.name == "deep"
    assert list(net.layer[1].flags) == [True, False]
    assert list(net.sizes) == VALUES["sizes"]
    assert list(net.deltas) == VALUES["deltas"]
    assert net.weights.dtype == np.float32
    assert list(net.weights) == VALUES["weights"]
    assert bytes(net.raw) == b"\x00\xff"
    assert net.table["x"].name == "entry"
    assert sorted(net.table) == ["", "x"]
    assert net.modes == ["AVE", "LAST"]
    assert net.has("raw")
    assert not net.has("count")


def test_numbers_may_be_packed_or_not_and_messages_come_in_pieces() -> None:
    single = b"".join(varint(4 << 3) + varint(value) for value in (5, -6))
    packed = encode(SCHEMA, "Net", {"sizes": [7]})
    assert list(read(single + packed).sizes) == [5, -6, 7]
    pieces = encode(SCHEMA, "Layer", {"inner": {"name": "x"}}) + encode(SCHEMA, "Layer", {"inner": {"mode": "LAST"}})
    inner = read(pieces, "Layer").inner
    assert (inner.name, inner.mode) == ("x", "LAST")


def test_many_numbers_that_are_not_packed_are_read_at_once() -> None:
    values = np.arange(300_000, dtype="<f4")
    tag = varint(5 << 3 | 5)
    run = b"".join(tag + value.tobytes() for value in values)
    name = encode(SCHEMA, "Net", {"name": "n"})
    found = read(name + run + name + run[:10] + encode(SCHEMA, "Net", {"weights": [7.0]}))
    np.testing.assert_array_equal(found.weights, np.concatenate([values, values[:2], [7.0]]))
    assert found.name == "n"
    twice = (varint(12 << 3 | 5) + b"\1\0\0\0") + (varint(12 << 3 | 5) + b"\2\0\0\0")
    assert read(twice).small == 2
    with pytest.raises(ModelError, match="reaches byte"):
        read(run[:-1])
    with pytest.raises(ModelError, match="wire type 5"):
        read((varint(1 << 3 | 5) + b"abcd") * 3)


def test_what_protobuf_writes_reads_back() -> None:
    onnx = pytest.importorskip("onnx", reason="the onnx extra is not installed")
    tensor = onnx.helper.make_tensor("w", onnx.TensorProto.INT64, [2, 2], [1, -5, 1 << 50, 0])
    schema = Schema("T dims=1:int64* type=2:int32 data=7:int64* name=8:string")
    found = read_message(tensor.SerializeToString(), schema, "T", "w", "a tensor")
    assert (found.name, list(found.dims), list(found.data)) == ("w", [2, 2], [1, -5, 1 << 50, 0])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x0a\xff\xff\xff\xff\x0f", "reaches byte"),
        (b"\x0a", "unfinished number"),
        (b"\x0b", "wire type 3"),
        (b"\x08\x01", "the field name has wire type 0"),
        (b"\x22\x01\x80", "unfinished number among packed ones"),
        (b"\x2a\x03abc", "3 bytes of numbers"),
        (varint(3 << 3) + b"\xff" * 12, "unfinished number"),
    ],
)
def test_what_is_not_sound_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        read(data)


def test_messages_too_deep_or_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b""
    for _ in range(150):
        data = varint(2 << 3 | 2) + varint(len(data)) + data
    with pytest.raises(ModelError, match="deep"):
        repr(read(data, "Layer"))
    monkeypatch.setattr("tilewright.frontend.wire._MOST_VALUES", 100)
    with pytest.raises(ModelError, match="more than 100"):
        read(b"\x12\x00" * 101)


def test_every_cut_and_mutation_gives_one_error_or_a_message() -> None:
    whole = encode(SCHEMA, "Net", VALUES)
    rng = np.random.default_rng(0)
    changed = [whole[:length] for length in range(len(whole))]
    for _ in range(500):
        data = bytearray(whole)
        for position in rng.integers(0, len(data), 3):
            data[position] = int(rng.integers(256))
        changed.append(bytes(data))
    refused = 0
    for data in changed:
        try:
            repr(read(data))  # which looks at all that is in it
        except ModelError:
            refused += 1
    assert refused > 100


def test_messages_within_are_read_when_they_are_looked_at() -> None:
    net = read(encode(SCHEMA, "Net", {"name": "n"}) + b"\x12\x02\x0a\x7f" + encode(SCHEMA, "Net", {"layer": [{}]}))
    assert net.name == "n"
    assert len(net.layer) == 2
    assert net.layer[1].name == ""
    for _ in range(2):
        with pytest.raises(ModelError, match="in a Layer, the field 1 at byte 0 reaches byte 129 of 2"):
            net.layer[0].name  # noqa: B018  (looking at it is what is tested)


def test_formats_are_told_apart_by_their_first_fields() -> None:
    whole = encode(SCHEMA, "Net", VALUES)
    assert looks_like(memoryview(whole)[:9], SCHEMA, "Net") == {"name", "layer"}
    assert looks_like(memoryview(b"hello world"), SCHEMA, "Net") is None


TEXT = """
# a comment
name: "a" 'b\\n\\x41\\101'   count: -0x10, ratio: 1e-2f on: false
layer { name: "x" mode: MAX flags: [true, 0] strange_param { factor: 1.5 kind: FAST kind: SLOW } }
layer: < inner { mode: 1 } >
sizes: [1, -2]; sizes: 010
weights: -inf weights: .5 modes: LAST
table { key: "k" value { name: "v" } }
"""


def test_text_reads_as_the_wire_does() -> None:
    net = read_text(TEXT, SCHEMA, "Net", "net.txt")
    assert (net.name, net.count, net.ratio, net.on) == ("ab\nAA", -16, 0.01, False)
    assert net.layer[0].extra["strange_param"][0].extra == {"factor": [1.5], "kind": ["FAST", "SLOW"]}
    assert (net.layer[0].mode, net.layer[0].flags, net.layer[1].inner.mode) == ("MAX", [True, False], "AVE")
    assert (net.sizes, net.weights, net.modes) == ([1, -2, 8], [-np.inf, 0.5], ["LAST"])
    assert net.table["k"].name == "v"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name: 3", "line 1: 3 is no value for name, a string"),
        ("\nlayer {", "line 2: the text ends within a Layer"),
        ("layer { mode: UP }", "UP is no value for mode"),
        ("count: 1.5", "1.5 is no value"),
        ("layer: 3", "is a message"),
        ("name { }", "not a message"),
        ("}", "closes nothing"),
        ("name \"x\"", "':' is expected"),
        ("sizes: [1 2]", "']' is expected"),
        ("name: \"x", "begins nothing"),
        ("layer { >", "is expected, and not '>'"),
        ("layer {" * 150, "deep"),
        ("3: x", "stands where the name"),
        ("count:", "the text ends before"),
        ("count: \"x\"", "no value for count"),
    ],
)  # fmt: skip
def test_text_that_is_not_sound_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(ModelError, match=says):
        read_text(text, SCHEMA, "Net", "net.txt")
