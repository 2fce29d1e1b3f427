"""All operators that are drawn by name, each with the family that draws its calls, and the case that a seed is.

They are those of ai.onnx, and at times some of ai.onnx.ml or of onnxruntime's own domain (`com.microsoft.QGemm`).
"""

from __future__ import annotations

import random
from collections.abc import Callable

import onnx
from onnx import defs, helper

from bench.fuzz import (
    contrib,
    control,
    convolutions,
    elementwise,
    indexing,
    learning,
    networks,
    quantized,
    reductions,
    shaping,
    text,
)
from bench.fuzz.case import Case, Settings
from bench.fuzz.contrib_schemas import DOMAIN, VERSION, declare
from bench.fuzz.draft import Draft, Rejected, Value, reads, value_type_open
from bench.fuzz.references import ir_version
from bench.fuzz.values import type_proto

FAMILY: dict[str, Callable[[Draft, str], None]] = {
    **elementwise.FAMILY, **reductions.FAMILY, **shaping.FAMILY, **indexing.FAMILY, **convolutions.FAMILY,
    **networks.FAMILY, **quantized.FAMILY, **control.FAMILY, **text.FAMILY, **learning.FAMILY,
}  # fmt: skip

CONTRIB = {f"{DOMAIN}.{name}": function for name, function in contrib.FAMILY.items()}

#: Operators that are not drawn, and why.
LEFT_OUT = {
    "Multinomial": "chance decides, and ONNX leaves open which",
    "ImageDecoder": "reads files of pictures; decoders differ by one level of a color",
}

#: The first opset of graphs that may have operators of ai.onnx.ml, and the version of those.
OLDEST_WITH_ML, NEWEST_ML = 9, 3
OLDEST, NEWEST = 7, defs.onnx_opset_version()
#: How often a graph may have operators of onnxruntime's domain, and of which opsets those are.
CONTRIB_SHARE, CONTRIB_OPSETS = 0.1, range(11, 22)


def available(opset: int) -> list[str]:
    """The operators that can be drawn at an opset."""
    schemas = ((name, _schema(name, opset)) for name in sorted(FAMILY) if name not in learning.FAMILY)
    return [name for name, schema in schemas if schema is not None and not schema.deprecated]


def _schema(name: str, opset: int) -> defs.OpSchema | None:
    try:
        return defs.get_schema(name, opset)
    except defs.SchemaError:
        return None


def draw_case(seed: int, operators: tuple[str, ...] = ()) -> Case:
    """The case of a seed: a graph of at most 20 nodes, of `operators` only where some are named."""
    rng = random.Random(seed)
    opset = rng.choice([*range(OLDEST, NEWEST + 1), 13, 17, 21, 21, NEWEST])
    draw = Draft(rng.getrandbits(64), opset)
    names = [name for name in available(opset) if not operators or name in operators]
    if opset >= OLDEST_WITH_ML and (any(name in learning.FAMILY for name in operators) or rng.random() < 0.08):
        draw.domains[learning.ML] = NEWEST_ML
        learned = [name for name in sorted(learning.FAMILY) if not operators or name in operators]
        names = [*(names if operators else rng.sample(names, min(len(names), len(learned)))), *learned]
    chosen = [name for name in sorted(CONTRIB) if name in operators]
    if chosen or (opset in CONTRIB_OPSETS and random.Random(f"contrib {seed}").random() < CONTRIB_SHARE):
        declare(contrib.FAMILY)
        draw.domains[DOMAIN] = VERSION
        names = [
            *(names if operators else rng.sample(names, min(len(names), len(CONTRIB)))),
            *(chosen or sorted(CONTRIB)),
        ]
    if rng.random() < 0.5 and len(names) > 12:
        names = rng.sample(names, 12)  # a few operators, so that they meet more often
    size = rng.choice([1, 2, 3, 4, 6, 8, 12, 16])
    for _ in range(4 * size):
        if len(draw.nodes) >= size:
            break
        name = rng.choice(names) if names else ""
        try:
            if name in CONTRIB:
                CONTRIB[name](draw, name.removeprefix(f"{DOMAIN}."))
            else:
                FAMILY[name](draw, name)
        except (Rejected, KeyError):
            continue
    return _finished(draw, seed, rng)


def _finished(draw: Draft, seed: int, rng: random.Random) -> Case:
    """The case of a draft: what nothing reads becomes an output, what stays unread is left out."""
    nodes = draw.nodes[:20]
    read = {name for node in nodes for name in reads(node)}
    made = {name for node in nodes for name in node.output if name}
    shown = [v for v in draw.values if v.name in made and v.kind in ("tensor", "sequence") and v.element]
    ends = [v for v in shown if v.name not in read or rng.random() < 0.15]
    draw.inputs = [value for value in draw.inputs if value.name in read]
    draw.constants = [value for value in draw.constants if value.name in read]
    draw.nodes = nodes
    graph = draw.graph(f"seed{seed}", ends)
    for output, value in zip(graph.output, ends):
        output.CopyFrom(helper.make_value_info(value.name, _output_type(value)))
    open_sizes = rng.random() < 0.25
    if open_sizes:
        _open_sizes(graph, rng)
    imports = [helper.make_opsetid("", draw.opset), *(helper.make_opsetid(*entry) for entry in draw.domains.items())]
    model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version(draw.opset))
    settings = Settings(
        opt_level=rng.choice([0, 1, 2, 3, 3, 3]),
        threads=rng.choice([1, 1, 1, 2]),
        executor=rng.choice(["auto", "auto", "auto", "auto", "vm"]),
        fixed=open_sizes and rng.random() < 0.3,
    )
    undefined = frozenset(value.name for value in draw.values if value.undefined)
    feeds = {value.name: value.contents for value in draw.inputs}
    return Case(seed, model, feeds, settings, undefined, dict(draw.rejected))


def _output_type(value: Value) -> onnx.TypeProto:
    """The type of an output: its rank, and no sizes."""
    return type_proto(value.element, (None,) * value.rank) if value.kind == "tensor" else value_type_open(value)


def _open_sizes(graph: onnx.GraphProto, rng: random.Random) -> None:
    """Leave sizes of the inputs open: equal ones by one name or each by its own, or without a name."""
    shared = rng.random() < 0.8
    for value in graph.input:
        for index, dim in enumerate(value.type.tensor_type.shape.dim):
            if rng.random() < 0.5:
                size = dim.dim_value
                dim.Clear()
                if rng.random() < 0.9:
                    dim.dim_param = f"n{size}" if shared else f"{value.name}_{index}"
