"""Every schedule template of devices under Oclgrind's race checker, with small sizes: `python bench/gpu_races.py`.

    python bench/gpu_races.py [--only product,rows] [--list]

Oclgrind (Debian: `apt install oclgrind`) is an OpenCL device that follows each access of each thread. A case is a
computation that a template schedules, by default or (`each`) by each configuration of the template's space; its result
is compared with that of the processor or of NumPy too. Prints a line a case: kernels run, races, results that differ.
Exit status 1 where there are any.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import relay, te
from tilewright.relay.ir.expr import Expr

ROOT = Path(__file__).resolve().parent.parent
RNG = np.random.default_rng(0)


def normal(*shape: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    """An array of normal numbers; of integers small ones."""
    made = RNG.standard_normal(shape)
    return (made * 20 if np.issubdtype(np.dtype(dtype), np.integer) else made).astype(dtype)


def weight(*shape: int) -> Expr:
    """A constant."""
    return relay.const(normal(*shape))


# ---------------------------------------------------------------------------------------------------- computations
def rows(x: Expr) -> Expr:
    """Softmax and a normalization: several reductions of a row in one launch."""
    return relay.Tuple([relay.nn.softmax(x), relay.nn.log_softmax(x)])


def reduced(x: Expr) -> Expr:
    """Sums, extremes and positions over the last axis, the first and all."""
    return relay.Tuple(
        [relay.sum(x, axis=-1), relay.max(x, axis=0), relay.mean(x), relay.argmax(x, axis=-1), relay.argmin(x)]
    )


def pooled(x: Expr) -> Expr:
    """Windows, and a mean of each channel."""
    pool = relay.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    return relay.Tuple([pool, relay.nn.avg_pool2d(x, pool_size=(2, 2)), relay.nn.global_avg_pool2d(x)])


def depthwise(x: Expr) -> Expr:
    """Direct convolutions: depthwise, grouped."""
    y = relay.nn.conv2d(x, weight(8, 1, 3, 3), padding=(1, 1), groups=8)
    return relay.nn.relu(relay.nn.conv2d(y, weight(8, 2, 3, 3), padding=(1, 1), groups=4))


def convolution(x: Expr) -> Expr:
    """An implicit product with padding and an epilogue."""
    return relay.nn.relu(relay.nn.conv2d(x, weight(12, 8, 3, 3), padding=(1, 1)))


def winograd(x: Expr) -> Expr:
    """The same by Winograd, in three launches."""
    transformed = relay.nn.contrib_conv2d_winograd_weight_transform(
        weight(16, x.type_annotation.shape[1], 3, 3), 4, block=16
    )
    y = relay.nn.contrib_conv2d_winograd_without_weight_transform(x, transformed, 4, (1, 1), "NCHW")
    return relay.nn.relu(relay.nn.bias_add(y, weight(16)))


def transposed(x: Expr) -> Expr:
    """A transposed convolution."""
    return relay.nn.conv2d_transpose(x, weight(8, 4, 3, 3), strides=(2, 2))


def elements(x: Expr) -> Expr:
    """A pass over elements that reads across."""
    return relay.add(relay.transpose(relay.nn.relu(x), axes=(1, 0)), relay.const(np.float32(1)))


def loops(x: Expr) -> Expr:
    """Loops written by hand."""
    where = relay.const(RNG.integers(0, 5, (3, 70)).astype("int32"))
    found = relay.scatter_elements(x, where, weight(3, 70), axis=0)
    return relay.Tuple([relay.sort(x, axis=1), relay.cumsum(x, axis=1), found, relay.argsort(x, axis=1)])


#: Name -> (what it computes, its inputs); all default schedules.
MODELS: dict[str, tuple[Callable[..., Expr], tuple[np.ndarray[Any, Any], ...]]] = {
    "rows, a warp each": (rows, (normal(70, 33),)),
    "rows, a block each": (rows, (normal(2, 1500),)),
    "rows, short": (rows, (normal(5, 7),)),
    "reductions, few terms": (reduced, (normal(40, 3),)),
    "reductions, a warp": (reduced, (normal(6, 100),)),
    "reductions, a block": (reduced, (normal(3, 1100),)),
    "reductions, many rows": (reduced, (normal(300, 40),)),
    "layer norm": (lambda x: relay.nn.layer_norm(x, weight(48), weight(48)), (normal(6, 48),)),
    "pooling": (pooled, (normal(1, 6, 12, 12),)),
    "depthwise": (depthwise, (normal(1, 8, 9, 9),)),
    "convolution": (convolution, (normal(1, 8, 10, 10),)),
    "winograd convolution": (winograd, (normal(1, 8, 12, 12),)),
    "transposed convolution": (transposed, (normal(1, 8, 5, 5),)),
    "elements": (elements, (normal(33, 40),)),
    "loops": (loops, (normal(5, 70),)),
    "attention": (
        lambda q, k, v: relay.nn.batch_matmul(
            relay.nn.softmax(relay.nn.batch_matmul(q, k)), relay.transpose(v, axes=(0, 2, 1))
        ),
        (normal(2, 20, 16), normal(2, 24, 16), normal(2, 24, 16)),
    ),
    "int8 product": (
        lambda x, y: relay.nn.dense(x, y, out_dtype="int32"),
        (normal(20, 32, dtype="int8"), normal(24, 32, dtype="int8")),
    ),
    "float16 product": (
        lambda x, y: relay.nn.dense(x, y),
        (normal(20, 32, dtype="float16"), normal(24, 32, dtype="float16")),
    ),
}  # fmt: skip


def run_model(name: str) -> tuple[int, bool]:
    """(kernels, whether the results are the processor's) of a computation by its default schedules."""
    import tilewright as tw

    body, inputs = MODELS[name]
    params = [relay.var(f"x{i}", shape=x.shape, dtype=str(x.dtype)) for i, x in enumerate(inputs)]
    module = relay.IRModule.from_expr(relay.Function(params, body(*params)))
    ours = tw.compile(module, target="opencl", cache=False)
    found, wanted = (_list(model(*inputs)) for model in (ours, tw.compile(module, cache=False)))
    return len(ours.manifest.kernels), all(_near(one, other) for one, other in zip(found, wanted, strict=True))


#: The same of which each configuration of the search spaces is run.
SPACES: dict[str, tuple[Callable[..., Expr], tuple[np.ndarray[Any, Any], ...]]] = {
    "reduce, each, long": (lambda x: relay.sum(x, axis=-1), (normal(6, 1100),)),
    "reduce, each, columns": (lambda x: relay.max(x, axis=0), (normal(300, 5),)),
    "reduce, each, windows": (lambda x: relay.nn.avg_pool2d(x, pool_size=(7, 7)), (normal(1, 3, 14, 14),)),
    "rows, each": (relay.nn.softmax, (normal(3, 700),)),
    "attention, each": (
        lambda q, k, v, mask: relay.nn.attention(q, k, v, mask, scale=0.25),
        (normal(1, 2, 20, 16), normal(1, 1, 40, 16), normal(1, 1, 40, 12), normal(1, 1, 20, 40)),
    ),
    "attention, each, parts of the keys": (
        lambda q, k, v: relay.nn.attention(q, k, v, scale=0.3),
        (normal(1, 4, 2, 8), normal(1, 2, 270, 8), normal(1, 2, 270, 8)),
    ),
    "attention, each, causal": (
        lambda q, k, v: relay.nn.attention(q, k, v, scale=0.3, causal=True, out_layout="BSHD"),
        (normal(1, 2, 37, 8), normal(1, 2, 37, 8), normal(1, 2, 37, 20)),
    ),
    "product, each, float16": (
        lambda x, y: relay.nn.dense(x, y),
        (normal(66, 20, dtype="float16"), normal(130, 20, dtype="float16")),
    ),
    "product, each, int8": (
        lambda x, y: relay.nn.dense(x, y, out_dtype="int32"),
        (normal(66, 20, dtype="int8"), normal(130, 20, dtype="int8")),
    ),
    "product, each, convolution": (
        lambda x, w: relay.nn.relu(relay.nn.conv2d(x, w, padding=(1, 1), strides=(2, 2))),
        (normal(1, 6, 9, 9), normal(20, 6, 3, 3)),
    ),
    "winograd, each": (winograd, (normal(2, 3, 10, 14),)),
}


def run_space(name: str) -> Iterator[tuple[str, int, bool]]:
    """(name, kernels, whether it is right) of a computation by each configuration of its template's space."""
    from tilewright.autotvm.task.extract import extract_from_program
    from tilewright.backend.build import build
    from tilewright.driver.lower import lower_function
    from tilewright.relay.interpreter.interpreter import interpret
    from tilewright.target import Target

    body, arrays = SPACES[name]
    params = [relay.var(f"x{i}", shape=x.shape, dtype=str(x.dtype)) for i, x in enumerate(arrays)]
    module = relay.IRModule.from_expr(relay.Function(params, body(*params)))
    for task in extract_from_program(module, "opencl"):
        inputs = [normal(*a.shape, dtype=a.dtype) for a in task.arguments[:-1]]
        (wanted,) = interpret(task.function, inputs)
        for point in range(len(task.points)):
            config = dict(task.points.config(point))
            built = build(lower_function(task.function, "kernel", Target("opencl"), config), Target("opencl"))
            found = np.zeros(wanted.shape, wanted.dtype)
            built["kernel"](*inputs, found)
            yield f"{task.key.template} {config}", len(built.functions["kernel"].launches), _near(found, wanted)


def _list(results: Any) -> list[np.ndarray[Any, Any]]:
    return results if isinstance(results, list) else [results]


def _near(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    wide = [array.astype("float64") for array in (one, other)]
    tolerance = 2e-2 if one.dtype == np.float16 else 1e-4
    return one.dtype == other.dtype and bool(np.allclose(*wide, rtol=tolerance, atol=tolerance))


def product(m: int, n: int, depth: int) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """Both operands of a product, and twice the product."""
    a, b = te.placeholder((m, depth), name="A"), te.placeholder((depth, n), name="B")
    k = te.reduce_axis((0, depth), name="k")
    sums = te.compute((m, n), lambda i, j: te.sum(a(i, k) * b(k, j), axis=k), name="C")
    return a, b, te.compute((m, n), lambda i, j: sums(i, j) * 2.0, name="D")


def run_product() -> Iterator[tuple[str, int, bool]]:
    """(name, kernels, whether it is right) of a product by each tile of the template, and by parts of its terms."""
    from tilewright.backend.build import build
    from tilewright.backend.gpu.schedule.dispatch import schedule, space_of
    from tilewright.target import Target

    target = Target("opencl")
    seen: set[str] = set()
    for m, n, depth in ((20, 24, 40), (130, 140, 24), (5, 7, 300), (8, 128, 64)):
        a, b, out = product(m, n, depth)
        left, right = normal(m, depth), normal(depth, n)
        for config in space_of([out], target) or ():
            name = str(dict(config.items_))
            if name in seen:
                continue
            seen.add(name)
            s = schedule([out], target, dict(config.items_))
            module = build(te.lower(s, [a, b, out], name="product", target=target), target)
            result = np.zeros((m, n), "float32")
            module["product"](left, right, result)
            yield name, 1, bool(np.allclose(result, left @ right * 2, rtol=1e-3, atol=1e-3))


def child(name: str) -> None:
    """Run one case on the device at hand, which is to be Oclgrind."""
    from tilewright.runtime.gpu.opencl import opencl_device

    assert "oclgrind" in opencl_device().name.lower(), opencl_device().name
    cases = run_product() if name == "product" else run_space(name) if name in SPACES else [(name, *run_model(name))]
    for title, kernels, right in cases:
        print(f"CASE {kernels} {int(right)} {title}", flush=True)


def main() -> None:
    """Run each case under Oclgrind."""
    names = ["product", *MODELS, *SPACES]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="cases whose names contain one of these words, separated by commas")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return
    if options.list:
        print("\n".join(names))
        return
    failed = False
    for name in names:
        if options.only and not any(word in name for word in options.only.split(",")):
            continue
        command = ["oclgrind", "--data-races", sys.executable, __file__, "--child", name]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
        cases = re.findall(r"CASE (\d+) (\d) (.*)", done.stdout)
        text = done.stdout + done.stderr
        races, errors = len(re.findall("data race", text, re.IGNORECASE)), len(re.findall("Invalid|Error", text))
        wrong = [title for _, right, title in cases if right == "0"]
        print(
            f"{name}: {len(cases)} cases, {sum(int(c[0]) for c in cases)} kernels, {races} races, {len(wrong)} wrong",
            flush=True,
        )
        if done.returncode or races or wrong or errors or not cases:
            failed = True
            print(text[-3000:], flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
