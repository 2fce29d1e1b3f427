"""Mutations of model files and saved artifacts: nothing but a `UserError` may come of them, in bounded time and memory.

    python -m bench.fuzz.mutations [--kind models|artifacts|fields] [--count 1000] [--seed 0] [--seconds 20]

A case is a number: it chooses the seed model (`seeds.py`) and what is done to it. Models are changed as bytes and as
messages (attributes, dimensions, types, inputs, operators, functions); artifacts in their header, manifest, object code
and the lengths of their sections, after which all checksums are made right again; "fields" are artifacts in which one
field of the manifest after the other is replaced, `VALUES` in turn. A model is compiled; an artifact is loaded, and run
and profiled where its code is still what the compiler made: other native code may do what it likes (docs/security.md).

Cases run in forked processes of bounded memory. What is counted as a finding: an exception that is no `UserError`, a
process that dies, and one that takes longer than `--seconds` or more memory than `_MEMORY`. Status 1 if there is one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import random
import resource
import struct
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto

import tilewright as tw
import tilewright.codegen
from bench.fuzz.seeds import seeds
from tilewright.errors import ArtifactError, UserError
from tilewright.runtime.native import native
from tilewright.runtime.signature import ValueSpec

#: Bytes of address space that a process may take beside what it has at its start.
_MEMORY = 3 << 30
#: Cases of one process, and those that are in memory at a time.
_BATCH, _TOGETHER = 50, 1000

#: Numbers at which sizes, counts and positions go wrong.
NUMBERS = (
    0,
    1,
    -1,
    2,
    3,
    7,
    -2,
    127,
    255,
    1 << 16,
    (1 << 31) - 1,
    1 << 31,
    1 << 32,
    1 << 39,
    (1 << 63) - 1,
    -(1 << 63),
)
TEXTS = ("", "x", "y", "NOTSET", "linear", "../../x", "\0", "é" * 40, "a,b->", "ij,jk->ik")

Mutation = Callable[[random.Random, bytes], bytes]


# -------------------------------------------------------------------------------------------------------------- bytes
def mutate_bytes(chance: random.Random, data: bytes) -> bytes:
    """Some bits flipped, bytes set, pieces removed, doubled or swapped, or the end cut off."""
    made = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        if not made:
            break
        at = chance.randrange(len(made))
        end = min(len(made), at + chance.choice((1, 2, 4, 8, 64)))
        match chance.randrange(6):
            case 0:
                made[at] ^= 1 << chance.randrange(8)
            case 1:
                made[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            case 2:
                del made[at:end]
            case 3:
                made[at:at] = made[at:end]
            case 4:
                made[at:end] = chance.randbytes(end - at)
            case 5:
                del made[at if chance.random() < 0.2 else end :]
    return bytes(made)


# ------------------------------------------------------------------------------------------------------------- models
def _mutate_attribute(chance: random.Random, attribute: AttributeProto) -> None:
    lists = [field for field in ("ints", "floats", "strings") if len(getattr(attribute, field))]
    if lists and chance.random() < 0.8:
        values = getattr(attribute, lists[0])
        match chance.randrange(3):
            case 0:
                values.pop(chance.randrange(len(values)))
            case 1:
                values.append(values[0])
            case 2 if lists[0] == "ints":
                values[chance.randrange(len(values))] = chance.choice(NUMBERS)
    elif attribute.type == AttributeProto.INT:
        attribute.i = chance.choice(NUMBERS)
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = chance.choice((0.0, -1.0, float("nan"), float("inf"), 1e38))
    elif attribute.type == AttributeProto.STRING:
        attribute.s = chance.choice(TEXTS).encode()
    elif attribute.type == AttributeProto.TENSOR:
        _mutate_tensor(chance, attribute.t)
    else:
        attribute.type = chance.choice(AttributeProto.AttributeType.values())


def _mutate_tensor(chance: random.Random, tensor: onnx.TensorProto) -> None:
    match chance.randrange(5):
        case 0 if len(tensor.dims):
            tensor.dims[chance.randrange(len(tensor.dims))] = chance.choice(NUMBERS)
        case 1:
            tensor.dims.append(chance.choice(NUMBERS))
        case 2:
            tensor.data_type = chance.randrange(-1, 26)
        case 3:
            tensor.raw_data = mutate_bytes(chance, tensor.raw_data)
        case _ if len(tensor.raw_data) % 8 == 0 and tensor.raw_data:
            tensor.raw_data = struct.pack("<q", chance.choice(NUMBERS)) * (len(tensor.raw_data) // 8)


def _mutate_value(chance: random.Random, value: onnx.ValueInfoProto) -> None:
    kind = value.type.tensor_type
    match chance.randrange(4):
        case 0 if len(kind.shape.dim):
            kind.shape.dim[chance.randrange(len(kind.shape.dim))].dim_value = chance.choice(NUMBERS)
        case 1:
            kind.shape.dim.add().dim_value = chance.choice(NUMBERS)
        case 2:
            kind.elem_type = chance.randrange(-1, 26)
        case _:
            value.name = chance.choice(TEXTS)


def _mutate_node(chance: random.Random, node: onnx.NodeProto, operators: list[str]) -> None:
    names = node.input if chance.random() < 0.7 else node.output
    match chance.randrange(6):
        case 0 if len(names):
            names[chance.randrange(len(names))] = chance.choice([*names, "", "x", "w", "absent"])
        case 1 if len(names):
            names.pop(chance.randrange(len(names)))
        case 2:
            names.append(chance.choice([*node.input, *node.output, "", "x"]))
        case 3:
            node.op_type = chance.choice(operators)
        case _ if len(node.attribute):
            attribute = chance.choice(node.attribute)
            if chance.random() < 0.15:
                node.attribute.remove(attribute)
            else:
                _mutate_attribute(chance, attribute)


def _graphs(graph: Any) -> list[Any]:
    inner = [a.g for node in graph.node for a in node.attribute if a.type == AttributeProto.GRAPH]
    return [graph, *(found for one in inner for found in _graphs(one))]


def mutate_model(chance: random.Random, data: bytes) -> bytes:
    """A few changes to the messages of a model."""
    model = onnx.load_from_string(data)
    operators = sorted({schema.name for schema in onnx.defs.get_all_schemas()})
    for _ in range(chance.choice((1, 1, 2, 3))):
        graph = chance.choice([*_graphs(model.graph), *model.functions])
        initializers = list(getattr(graph, "initializer", ()))
        match chance.randrange(9):
            case 0 if initializers:
                _mutate_tensor(chance, chance.choice(initializers))
            case 1 if isinstance(graph, onnx.GraphProto):
                values = [*graph.input, *graph.output]
                if values:
                    _mutate_value(chance, chance.choice(values))
            case 2 if len(graph.node):
                graph.node.append(chance.choice(graph.node))
            case 3 if len(graph.node):
                graph.node.remove(chance.choice(graph.node))
            case 4 if chance.random() < 0.3:
                chance.choice(model.opset_import).version = chance.choice((*NUMBERS, 1, 9, 13, 26))
            case 5 if len(model.functions):  # a function that calls another, or itself
                body = chance.choice(model.functions).node
                for node in chance.sample(list(body), min(len(body), 1)):
                    node.op_type, node.domain = chance.choice(model.functions).name, "own"
            case 6 if initializers and chance.random() < 0.3:
                tensor = chance.choice(initializers)
                tensor.data_location = onnx.TensorProto.EXTERNAL
                for key in ("location", "offset", "length"):
                    tensor.external_data.add(key=key, value=chance.choice((*TEXTS, *map(str, NUMBERS))))
            case _ if len(graph.node):
                _mutate_node(chance, chance.choice(graph.node), operators)
    return model.SerializeToString()


# ---------------------------------------------------------------------------------------------------------- artifacts
_HEADER = struct.Struct("<16sII7Q")
_HEADER_BYTES = 128


def _mutate_json(chance: random.Random, value: Any) -> Any:
    """One leaf or branch somewhere within is another value, or gone."""
    if isinstance(value, dict) and value and chance.random() < 0.9:
        key = chance.choice(list(value))
        made = dict(value)
        if chance.random() < 0.08:
            del made[key]
        else:
            made[key] = _mutate_json(chance, value[key])
        return made
    if isinstance(value, list) and value and chance.random() < 0.9:
        at = chance.randrange(len(value))
        choice = chance.random()
        if choice < 0.08:
            return value[:at] + value[at + 1 :]
        if choice < 0.16:
            return [*value, value[at]]
        return [*value[:at], _mutate_json(chance, value[at]), *value[at + 1 :]]
    others = (*NUMBERS, *TEXTS, None, True, 1.5, float("nan"), [], {}, [[]], [1, 2], {"a": 1}, "float32", "table")
    return chance.choice(others)


def mutate_artifact(chance: random.Random, data: bytes) -> bytes:
    """A change to header, manifest, code or lengths of an artifact, with the checksums made right afterwards."""
    manifest, code, pool, weights = _sections(data)
    choice = chance.random()
    if choice < 0.1:  # one section shorter or longer, in the file too
        cut = chance.choice((1, 7, 64, 4096, 1 << 20)) * chance.choice((1, 1, -1))
        if chance.random() < 0.7:
            weights = weights[: max(len(weights) - cut, 0)].ljust(max(len(weights) - cut, 0), b"\0")
        else:
            code = code[: max(len(code) - cut, 0)].ljust(max(len(code) - cut, 0), b"\0")
    elif choice < 0.7:
        made = json.loads(manifest)
        for _ in range(chance.choice((1, 1, 2, 4))):
            made = _mutate_json(chance, made)
        manifest = json.dumps(made).encode()
    elif choice < 0.77:
        manifest = mutate_bytes(chance, manifest)
    elif choice < 0.92:
        code = mutate_bytes(chance, code)
    else:
        fields = list(_HEADER.unpack_from(data))
        changed = chance.randrange(1, 10)
        near = [fields[changed] + step for step in (-4096, -64, -1, 1, 64, 4096)]
        fields[changed] = chance.choice([n for n in (*NUMBERS, *near) if 0 <= n < 1 << 31])
        header = _HEADER.pack(*fields)
        sections = [data[at : at + length] for at, length in zip(fields[3:7:2], fields[4:8:2])]
        digest = hashlib.sha256(b"".join([header, *sections])).digest()
        return (header + digest).ljust(_HEADER_BYTES, b"\0") + data[_HEADER_BYTES:]
    return _assembled(manifest, code, pool, weights)


def _sections(data: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    """Manifest, object code, worker pool and weights of a file."""
    manifest_at, manifest_bytes, code_at, code_bytes, weights_at, weights_bytes = _HEADER.unpack_from(data)[3:9]
    manifest = data[manifest_at : manifest_at + manifest_bytes]
    pool_at = -(-(code_at + code_bytes) // 64) * 64
    pool = data[pool_at : pool_at + json.loads(manifest)["pool"]["bytes"]]
    return manifest, data[code_at : code_at + code_bytes], pool, data[weights_at : weights_at + weights_bytes]


def _assembled(manifest: bytes, code: bytes, pool: bytes, weights: bytes) -> bytes:
    """A file of these sections as the writer lays them out (docs/artifact.md)."""
    body = manifest.ljust(-(-(_HEADER_BYTES + len(manifest)) // 64) * 64 - _HEADER_BYTES, b"\0")
    code_at = _HEADER_BYTES + len(body)
    body = (body + code).ljust(-(-(len(body) + len(code)) // 64) * 64, b"\0") + pool
    body += bytes(-(_HEADER_BYTES + len(body)) % 4096)
    weights_at = _HEADER_BYTES + len(body)
    sections = (_HEADER_BYTES, len(manifest), code_at, len(code), weights_at, len(weights), weights_at + len(weights))
    header = _HEADER.pack(b"\x89TILEWRIGHT\r\n\x1a\n\x00", 2, _HEADER_BYTES, *sections)
    digest = hashlib.sha256(header + manifest + code).digest()
    return (header + digest).ljust(_HEADER_BYTES, b"\0") + body + weights


#: What each field of a manifest is replaced by, one after the other. Text stands for what it is followed by.
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 3, 64, 1000, (1 << 31) - 1, 1 << 40, 2.5, "", "x", "float64", [], [0], [[]], {}, {"x": 1},
    "+1", "-1", "+64", "-64", "doubled", "removed",
)  # fmt: skip


#: A prime: numbers in a row are fields far from each other.
_STRIDE = 7919


def positions(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in JSON data."""
    for key, value in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield (*path, key)
        yield from positions(value, (*path, key))


def replace_field(data: bytes, number: int) -> bytes:
    """An artifact with another value in one field of its manifest; as many numbers as there are pairs meet them all."""
    text, *others = _sections(data)
    manifest = json.loads(text)
    known = list(positions(manifest))
    pair = number * _STRIDE % (len(known) * len(VALUES))
    path, value = known[pair // len(VALUES)], VALUES[pair % len(VALUES)]
    holder: Any = manifest
    for part in path[:-1]:
        holder = holder[part]
    old = holder[path[-1]]
    if value == "removed":
        del holder[path[-1]]
    elif value == "doubled" and isinstance(holder, list):
        holder.insert(path[-1], old)
    elif isinstance(value, str) and value[:1] in ("+", "-") and isinstance(old, int):
        holder[path[-1]] = old + int(value)
    else:
        holder[path[-1]] = value
    return _assembled(json.dumps(manifest).encode(), *others)


# ---------------------------------------------------------------------------------------------------------- running
#: The object code that the compiler made for the seeds, as digests: only such is run.
_MADE: set[bytes] = set()

#: Elements of an input beyond which a model is not run, and the value of its symbolic dimensions.
_MOST_ELEMENTS, _SIZE = 1 << 20, 3


def compile_case(data: bytes, folder: Path) -> None:
    """Compile a mutated model."""
    tw.compile(data, cache=False, threads=1)


def load_case(data: bytes, folder: Path) -> None:
    """Load a mutated artifact, look at all that its manifest says, run and profile it on inputs as it wants them."""
    path = folder / "model.tw"
    path.write_bytes(data)
    with suppress(ArtifactError):  # what is refused by the checksum of its weights alone is loaded all the same
        tw.load(path, threads=1, check=True)
    executable = tw.load(path, threads=1)
    repr(executable)
    if hashlib.sha256(executable.object_code).digest() not in _MADE:
        return
    given = {spec.name: _value(spec) for spec in executable.inputs}
    if any(value is None for value in given.values()):
        return
    executable.run(given)
    executable.profile(given)
    for _ in range(20):  # functions that are called often are run another way
        executable.run(given)


def _value(spec: Any) -> np.ndarray | None:
    """An array for an input; None where that is no tensor of ordinary size."""
    shape = [size if isinstance(size, int) else _SIZE for size in spec.shape]
    if isinstance(spec, ValueSpec) or math.prod(shape) > _MOST_ELEMENTS:
        return None
    return np.random.default_rng(0).integers(0, 3, shape).astype(spec.numpy)


def saved_seeds(folder: Path) -> list[bytes]:
    """The seed models as artifacts, those of fixed or symbolic sizes without control flow by both their executors."""
    found = []
    for name, model in seeds().items():
        path = folder / f"{name}.tw"
        executable = tw.compile(model, threads=1)
        kinds = ("graph", "aot") if executable.executor == "graph" else (executable.executor,)
        for kind in kinds:
            made = executable if kind == executable.executor else tw.compile(model, threads=1, executor=kind)
            made.save(path, durable=False)
            _MADE.add(hashlib.sha256(made.object_code).digest())
            found.append(path.read_bytes())
    return found


def _outcome(run: Callable[[bytes, Path], None], data: bytes, folder: Path) -> tuple[str, str]:
    """The outcome of a case, in one word and in detail."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(data, folder)
    except UserError as error:
        return "refused", type(error).__name__
    except Exception as error:
        return f"raw {type(error).__name__}", traceback.format_exc(limit=-6)
    return "accepted", ""


def _work(cases: list[tuple[int, bytes]], run: Callable[[bytes, Path], None], folder: Path, sender: Any) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, used + _MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # no processes below this one
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for number, data in cases:
        sender.send((number, "begun", ""))
        sender.send((number, *_outcome(run, data, folder)))
    os._exit(0)


def judge(
    cases: list[tuple[int, bytes]], run: Callable[[bytes, Path], None], folder: Path, seconds: float
) -> list[tuple[int, str, str]]:
    """The outcome of each case: (number, "accepted", "refused" or a finding, details)."""
    native()  # the pool is the compiler's own: that of a mutated artifact is native code like the rest
    context, found = multiprocessing.get_context("fork"), []
    while cases:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(cases[:_BATCH], run, folder, sender), daemon=True)
        process.start()
        sender.close()
        done, at, batch = 0, -1, len(cases[:_BATCH])
        try:
            while done < batch:
                if not receiver.poll(seconds):
                    process.kill()
                    found.append((at, "took too long", ""))
                    done += 1
                    break
                at, what, detail = receiver.recv()
                if what != "begun":
                    found.append((at, what, detail))
                    done += 1
        except EOFError:
            process.join()
            found.append((at, f"died with status {process.exitcode}", ""))
            done += 1
        process.join()
        cases = cases[done:]
    return found


def made_cases(kind: str, numbers: range, originals: list[bytes]) -> list[tuple[int, bytes]]:
    """The mutated files of the cases `numbers`."""
    made = []
    for number in numbers:
        chance = random.Random(f"{kind} {number}")
        original = originals[number % len(originals)]
        if kind == "fields":
            made.append((number, replace_field(original, number // len(originals))))
            continue
        mutation = mutate_artifact if kind == "artifacts" else chance.choice((mutate_model, mutate_model, mutate_bytes))
        made.append((number, mutation(chance, original)))
    return made


def survey(kind: str, numbers: range, seconds: float) -> tuple[Counter[str], list[tuple[int, str, str]]]:
    """Counts of the outcomes of the cases `numbers`, and the findings among them."""
    with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
        position = Path(folder)
        originals = saved_seeds(position) if kind != "models" else [m.SerializeToString() for m in seeds().values()]
        run = load_case if kind != "models" else compile_case
        found = []
        for first in range(numbers.start, numbers.stop, _TOGETHER):
            cases = made_cases(kind, range(first, min(first + _TOGETHER, numbers.stop)), originals)
            found += judge(cases, run, position, seconds)
    return Counter(what for _, what, _ in found), [one for one in found if one[1] not in ("accepted", "refused")]


def main() -> int:
    """Run the cases of the command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("models", "artifacts", "fields"), default="models")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="the number of the first case")
    parser.add_argument("--seconds", type=float, default=20, help="that a case may take")
    args = parser.parse_args()
    counts, findings = survey(args.kind, range(args.seed, args.seed + args.count), args.seconds)
    for number, what, detail in findings:
        print(f"{args.kind} {number}: {what}\n{detail}")
    print(
        f"{args.kind} from {args.seed}, {sum(counts.values())} cases: "
        + ", ".join(f"{n} {what}" for what, n in counts.most_common())
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
