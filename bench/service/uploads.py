"""Uploads that no client would send: a number chooses one, with the framework that its request claims.

Half are mutated models of all formats; the others are bombs, tricks with names, sizes that overflow, and models that
would compile for ever, some of each in turn.
"""

from __future__ import annotations

import gzip
import io
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from bench.fuzz.mutations import NUMBERS, mutate_bytes, mutate_model
from bench.fuzz.seeds import seeds
from bench.service.models import REAL, darknet, small_models

#: The bytes of an upload, and the framework of its request.
Upload = tuple[bytes, str]
_HUGE = (1 << 60, 1 << 62, (1 << 63) - 1, 1 << 40, 1 << 31)
#: What names in archives are to lead to; no such file may come to be.
ESCAPED = "/tmp/tilewright-escaped"
#: A file that no job may read, as seen from anywhere.
SECRET = "/tmp/tilewright-secret"


def originals(folder: Path) -> list[Upload]:
    """Models to mutate, of all formats that there are small ones of."""
    found = [(file.read_bytes(), framework) for file, framework in small_models(folder).values()]
    found += [(model.SerializeToString(), "ONNX") for model in seeds().values()]
    found.append((darknet(folder).read_bytes(), "DARKNET"))
    real = {"tflite/micro_wakeword/hey_jarvis.tflite": "TFLITE", "keras/deepcut/deepcut_rebuilt.keras": "KERAS",
            "torchscript/silero_vad/silero_vad.jit": "PYTORCH", "coreml/basic_pitch/nmp.mlpackage": "ONNX",
            "tf_savedmodel/basic_pitch/nmp": "TENSORFLOW", "caffe/wechat_qr/sr.caffemodel": "ONNX"}  # fmt: skip
    for name, framework in real.items():
        path = REAL / name
        if path.is_dir():
            packed = io.BytesIO()
            with tarfile.open(fileobj=packed, mode="w") as archive:
                archive.add(path, path.name)
            found.append((packed.getvalue(), framework))
        elif path.exists():
            found.append((path.read_bytes(), framework))
    return found


def _mutated(chance: random.Random, known: list[Upload]) -> Upload:
    # the larger ones, which take seconds, more rarely
    data, framework = chance.choices(known, [1 if len(data) > 100_000 else 8 for data, _ in known])[0]
    if data[:4] == b"PK\3\4" and chance.random() < 0.7:
        return _mutated_zip(chance, data), framework
    if framework == "ONNX" and chance.random() < 0.6:
        return mutate_model(chance, chance.choice(list(seeds().values())).SerializeToString()), framework
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return mutate_bytes(chance, data), framework


def _mutated_zip(chance: random.Random, data: bytes) -> bytes:
    """A zip with one member changed, and its checksum made right."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w") as new:
        names = old.namelist()
        chosen = chance.choice(names)
        for name in names:
            new.writestr(name, mutate_bytes(chance, old.read(name)) if name == chosen else old.read(name))
    return made.getvalue()


# ---------------------------------------------------------------------------------------------------------------- bombs
def _tar(members: list[tuple[tarfile.TarInfo, bytes]], mode: str = "w:gz") -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=mode, format=tarfile.PAX_FORMAT) as archive:  # type: ignore[call-overload]
        for member, contents in members:
            member.size = len(contents)
            archive.addfile(member, io.BytesIO(contents))
    return packed.getvalue()


def _tar_of_zeros(chance: random.Random) -> Upload:
    """Some gigabytes of zeros in some megabytes."""
    header = tarfile.TarInfo("model.onnx")
    header.size = chance.choice((3 << 30, 1 << 36, 1 << 60))
    zeros = gzip.compress(bytes(1 << 24), 1)
    return gzip.compress(header.tobuf(tarfile.GNU_FORMAT), 1) + zeros * 200, "ONNX"


def _tar_of_many(chance: random.Random) -> Upload:
    members = [(tarfile.TarInfo(f"{number}.onnx"), b"") for number in range(20_000)]
    return _tar(members), "ONNX"


def _zip_of_zeros(chance: random.Random) -> Upload:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        names = chance.choice(
            (("config.json", "metadata.json", "model.weights.h5"), ("data.pkl", "code/x.py", "version"))
        )
        for name in names:
            with archive.open(f"{'m/' if 'data.pkl' in names else ''}{name}", "w") as member:
                for _ in range(48):
                    member.write(bytes(1 << 24))
    return made.getvalue(), "KERAS" if "config.json" in names else "PYTORCH"


def _varint(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*made, value])


def _protobuf_nested(chance: random.Random) -> Upload:
    """A graph in an attribute of a node of a graph, and so on."""
    heads, size = list[bytes](), 0  # from the inside
    for _ in range(chance.choice((50, 99, 101, 5_000, 20_000))):
        for field in (b"\x32", b"\x2a", b"\x0a"):  # AttributeProto.g, NodeProto.attribute, GraphProto.node
            heads.append(field + _varint(size))
            size += len(heads[-1])
    inner = b"".join(reversed(heads))
    return b"\x08\x08\x3a" + _varint(len(inner)) + inner, "ONNX"


def _protobuf_of_many(chance: random.Random) -> Upload:
    """Millions of empty messages in a few bytes each."""
    inner = chance.choice((b"\x0a\x00", b"\x2a\x00", b"\x5a\x00")) * 10_000_000
    return b"\x08\x08\x3a" + _varint(len(inner)) + inner, "ONNX"


def _tricky_names(chance: random.Random) -> Upload:
    model = seeds()["perceptron"].SerializeToString()
    up = "../" * chance.randrange(1, 12)
    name = chance.choice(
        (f"{up}{ESCAPED[1:]}", ESCAPED, f"a/{up}{ESCAPED[1:]}", "a/" * 1500 + "m.onnx", "x" * 4000 + ".onnx",
         "new\nline.onnx", "\udcff.onnx", ".", "..", "/", "a//b/./m.onnx", "con:.onnx", " .onnx", "é" * 130 + ".onnx")
    )  # fmt: skip
    return _tar([(tarfile.TarInfo(name), model), (tarfile.TarInfo("model.onnx"), model)]), "ONNX"


def _tricky_kinds(chance: random.Random) -> Upload:
    """Links, devices and pipes, and files written through them."""
    link = tarfile.TarInfo("model.onnx" if chance.random() < 0.5 else "folder")
    kinds = (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"9", b"V")
    link.type = chance.choice(kinds)
    link.linkname = chance.choice((SECRET, "/etc/passwd", "../" * 9 + SECRET[1:], "/tmp", "."))
    link.devmajor, link.devminor = 1, 5
    return _tar([(link, b""), (tarfile.TarInfo("folder/tilewright-escaped"), b"x")]), "ONNX"


def _external_data(chance: random.Random) -> Upload:
    """A model whose weights lie in a file of its choice."""
    model = seeds()["perceptron"]
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    location = chance.choice((SECRET, "../" * 9 + SECRET[1:], "/dev/zero", "/proc/self/mem", "model.onnx", ""))
    for key, value in (("location", location), ("offset", "0"), ("length", str(chance.choice(NUMBERS)))):
        tensor.external_data.add(key=key, value=value)
    data = model.SerializeToString()
    return (_tar([(tarfile.TarInfo("model.onnx"), data)]) if chance.random() < 0.5 else data), "ONNX"


# ------------------------------------------------------------------------------------------------------ sizes and time
def _value(name: str, dims: tuple[int | str, ...], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, dims)


def _model(nodes: list[onnx.NodeProto], dims: tuple[int | str, ...], **weights: np.ndarray) -> bytes:
    constants = [onnx.numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", [_value("x", dims)], [_value("y", ())], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def _huge_shapes(chance: random.Random) -> Upload:
    size = chance.choice(_HUGE)
    node, ints = helper.make_node, lambda *values: np.array(values, np.int64)
    made = {
        "input": ([node("Relu", ["x"], ["y"])], (size, 4), {}),
        "inputs": ([node("MatMul", ["x", "x"], ["y"])], (1 << 30, 1 << 30), {}),
        "filled": ([node("ConstantOfShape", ["s"], ["c"]), node("Add", ["x", "c"], ["y"])], (4,), {"s": ints(size)}),
        "expanded": ([node("Expand", ["x", "s"], ["y"])], (1,), {"s": ints(size, 2)}),
        "tiled": ([node("Tile", ["x", "s"], ["y"])], (4,), {"s": ints(size)}),
        "range": ([node("Range", ["a", "b", "d"], ["r"]), node("Gather", ["x", "r"], ["y"])], (4,),
                  {"a": np.array(0), "b": np.array(size), "d": np.array(1)}),
        "padded": ([node("Pad", ["x", "p"], ["y"])], (4,), {"p": ints(size, size)}),
        "resized": ([node("Resize", ["x", "", "", "z"], ["y"])], (1, 1, 2, 2), {"z": ints(1, 1, size, size)}),
        "hot": ([node("Cast", ["x"], ["i"], to=7), node("OneHot", ["i", "d", "v"], ["y"])], (4,),
                {"d": np.array(size), "v": ints(0, 1)}),
        "windows": ([node("MaxPool", ["x"], ["y"], kernel_shape=[1, 1], pads=[size] * 4)], (1, 1, 2, 2), {}),
    }  # fmt: skip
    nodes, dims, weights = made[chance.choice(sorted(made))]
    return _model(nodes, dims, **weights), "ONNX"


def _endless(chance: random.Random) -> Upload:
    """Models that compile for ever, or as good as."""
    node = helper.make_node
    match chance.randrange(4):
        case 0:  # a chain that is longer than any
            count = 60_000
            nodes = [node("Sin", [f"v{i}" if i else "x"], [f"v{i + 1}"]) for i in range(count)]
            return _model([*nodes, node("Relu", [f"v{count}"], ["y"])], (4,)), "ONNX"
        case 1:  # functions that call each other twice
            functions = []
            for level in range(40):
                inner = f"F{level - 1}" if level else "Sin"
                domain = "own" if level else ""
                calls = [node(inner, ["a"], ["b"], domain=domain), node(inner, ["b"], ["c"], domain=domain)]
                opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
                functions.append(helper.make_function("own", f"F{level}", ["a"], ["c"], calls, opsets))
            graph = helper.make_graph(
                [node("F39", ["x"], ["y"], domain="own")], "g", [_value("x", (4,))], [_value("y", (4,))]
            )
            opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
            return helper.make_model(
                graph, opset_imports=opsets, ir_version=8, functions=functions
            ).SerializeToString(), "ONNX"
        case 2:  # a constant that takes a year to fold
            big = np.zeros((4, 4), np.float32)
            nodes = [node("MatMul", ["w", "w"], ["m0"])]
            nodes += [node("Tile", [f"m{i}", "t"], [f"m{i + 1}"]) for i in range(12)]
            nodes += [node("ReduceSum", ["m12"], ["r"], keepdims=0), node("Add", ["x", "r"], ["y"])]
            return _model(nodes, (4,), w=big, t=np.array([8, 8], np.int64)), "ONNX"
        case _:  # a loop over constants
            body = helper.make_graph(
                [node("Identity", ["c"], ["d"]), node("Sin", ["v"], ["w"])], "b",
                [_value("i", (), TensorProto.INT64), _value("c", (), TensorProto.BOOL), _value("v", (4,))],
                [_value("d", (), TensorProto.BOOL), _value("w", (4,))],
            )  # fmt: skip
            loop = [node("Loop", ["n", "t", "k"], ["l"], body=body), node("Add", ["x", "l"], ["y"])]
            weights = {"n": np.array(1 << 60), "t": np.array(True), "k": np.ones(4, np.float32)}
            return _model(loop, (4,), **weights), "ONNX"


def _deep_text(chance: random.Random) -> Upload:
    depth = 200_000
    return chance.choice(
        (
            (b'{"nodes": ' + b"[" * depth + b"]" * depth + b"}", "MXNET"),
            (b'{"nodes": [' + b'{"op": "null", "name": "x", "inputs": []},' * depth + b"0]}", "MXNET"),
            (b"[net]\nwidth=8\nheight=8\nchannels=3\n" + b"[convolutional]\nfilters=1\nsize=1\n" * 30_000, "DARKNET"),
            (b"layer {" * depth + b"}" * depth, "ONNX"),
            (b"[net]\nwidth=4000000000\nheight=4000000000\nchannels=4000000000\n[maxpool]\n", "DARKNET"),
            (b"", "ONNX"), (b"\0" * 4096, "TFLITE"), (b"\x1c\0\0\0TFL3" + b"\xff" * 4096, "TFLITE"),
            (b"\x89HDF\r\n\x1a\n" + b"\xff" * 4096, "KERAS"), (b"PK\3\4" + b"\xff" * 4096, "PYTORCH"),
            (b"\x1f\x8b" + b"\xff" * 4096, "TENSORFLOW"),
        )
    )  # fmt: skip


#: Kinds, each with its share.
KINDS: dict[str, tuple[Callable[[random.Random], Upload], int]] = {
    "names": (_tricky_names, 100), "kinds": (_tricky_kinds, 90), "external data": (_external_data, 60),
    "shapes": (_huge_shapes, 120), "deep": (_deep_text, 80), "nested": (_protobuf_nested, 20),
    "many messages": (_protobuf_of_many, 8), "tar of zeros": (_tar_of_zeros, 6), "tar of many": (_tar_of_many, 4),
    "zip of zeros": (_zip_of_zeros, 6), "endless": (_endless, 12),
}  # fmt: skip


def upload(seed: int, number: int, known: list[Upload]) -> tuple[str, Upload]:
    """The kind of upload `number`, and what it is."""
    chance = random.Random(f"{seed} {number}")
    if number % 2:
        return "mutated", _mutated(chance, known)
    kind = chance.choices(list(KINDS), [share for _, share in KINDS.values()])[0]
    return kind, KINDS[kind][0](chance)
