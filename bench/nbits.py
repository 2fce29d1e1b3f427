"""Products with weights of few bits beside onnxruntime, ggml and the rate of memory: bench/nbits.py [--rows M].

Two products one after the other, K -> N -> K, as a layer of a decoder has them. Each contender runs in turns with the
others, and so does a pass that only reads the same bytes by as many threads; minimum and median of all turns, the error
against float64, and the share of the rate of memory. Beside onnxruntime runs ggml, of 4 bits in blocks of 32 (Q4_0, in
llama.cpp's order for this processor): that of the package xllamacpp, where it is installed, and with `--ggml FILE` a
library of one's own build. Weights shall be larger than the last cache: `--copies` models of other weights are run in
turn.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

import tilewright as tw
from bench.ggml_products import library, packaged, products
from tilewright import relay
from tilewright.relay.ir.module import IRModule
from tilewright.topi.reference.blockwise import code_bits, dense_blockwise, packed_codes

Array = np.ndarray[Any, Any]


def weights_of(depth: int, units: int, bits: int, block: int, seed: int) -> list[tuple[Array, Array]]:
    """Codes and scales of the two products."""
    rng, made = np.random.default_rng(seed), []
    for inside, outside in ((depth, units), (units, depth)):
        codes = rng.integers(0, 1 << bits, (outside, inside // block, block)).astype(np.uint8)
        scales = (rng.random((outside, inside // block)) + 0.5) / inside**0.5 / (1 << (bits - 1))
        made.append((packed_codes(codes, bits), scales.astype(np.float16).astype(np.float32)))  # as ggml has them
    return made


def model_of(weights: list[tuple[Array, Array]], rows: int, bits: int, block: int, level: int) -> ModelProto:
    """An ONNX model of MatMulNBits for each of `weights`."""
    nodes, tensors, name = [], [], "x"
    for number, (codes, scales) in enumerate(weights):
        outside, inside = len(codes), codes.shape[1] * block
        attrs = {"N": outside, "K": inside, "bits": bits, "block_size": block, "accuracy_level": level}
        result = f"y{number}"
        inputs = [name, f"w{number}", f"s{number}"]
        nodes.append(helper.make_node("MatMulNBits", inputs, [result], domain="com.microsoft", **attrs))
        tensors += [numpy_helper.from_array(codes, inputs[1]), numpy_helper.from_array(scales.reshape(-1), inputs[2])]
        name = result
    depth = weights[0][0].shape[1] * block
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, depth])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, len(weights[-1][0])])],
        tensors,
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def module_of(weights: list[tuple[Array, Array]], rows: int, bits: int, level: int) -> IRModule:
    """The same products in Relay, which has weights of any bits."""
    result: relay.Expr = relay.var("x", shape=(rows, weights[0][0].shape[1] * weights[0][0].shape[2] * 8 // bits))
    data = [result]
    for codes, scales in weights:
        operands = relay.const(codes), relay.const(scales)
        result = relay.nn.dense_blockwise(result, *operands, bits=bits, accuracy_level=level)
    return IRModule.from_expr(relay.Function(data, result))


def session(model: ModelProto, threads: int) -> Callable[[Array], Array]:
    """The model by onnxruntime."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 3
    opened = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda x: opened.run(None, {"x": x})[0]


def reader(size: int, threads: int) -> Callable[[], None]:
    """A pass that reads `size` bytes of other memory each time, in as many threads."""
    parts = [np.ones(size // 8 // threads, np.int64) for _ in range(threads)]
    pool = ThreadPoolExecutor(threads)
    return lambda: list(pool.map(np.max, parts)) and None


def turns(
    contenders: dict[str, Callable[[int], Any]], count: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Seconds of each contender by `clock`, in turns; each is called with the number of the turn."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in range(count):
        for name, run in contenders.items():
            start = clock()
            run(turn)
            seconds[name].append(clock() - start)
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--depth", type=int, default=4096)
    parser.add_argument("--units", type=int, default=11008)
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--bits", type=int, default=4)
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--copies", type=int, default=2, help="models of other weights, run in turn")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--cpu", action="store_true", help="time of the processor, for one thread of a busy machine")
    parser.add_argument("--ggml", type=Path, metavar="FILE", help="a libggml.so beside that of xllamacpp")
    args = parser.parse_args()
    weights = [weights_of(args.depth, args.units, args.bits, args.block, seed) for seed in range(args.copies)]
    runs: dict[str, list[Callable[[Array], Array]]] = {}
    for level in (0, 4):
        modules = [module_of(one, args.rows, args.bits, level) for one in weights]
        runs[f"tilewright, level {level}"] = [tw.compile(module, threads=args.threads) for module in modules]
        if args.bits in (2, 4, 8):
            models = [model_of(one, args.rows, args.bits, args.block, level) for one in weights]
            runs[f"onnxruntime, level {level}"] = [session(model, args.threads) for model in models]
    if (args.bits, args.block) == (4, 32):
        parts = [[(code_bits(codes, 4), scales) for codes, scales in one] for one in weights]
        for name, path in {"ggml, xllamacpp": packaged(), "ggml, own build": args.ggml}.items():
            if path is not None:
                runs[name] = [products(library(path), one, args.rows, args.threads) for one in parts]
    x = np.random.default_rng(99).standard_normal((args.rows, args.depth)).astype(np.float32)
    exact = x.astype(np.float64)
    for codes, scales in weights[0]:
        exact = dense_blockwise(exact, codes, scales, None, args.bits)
    size = sum(codes.nbytes + scales.nbytes for codes, scales in weights[0])
    readers = [reader(size, args.threads) for _ in weights]
    contenders: dict[str, Callable[[int], Any]] = {
        name: lambda turn, found=found: found[turn % args.copies](x) for name, found in runs.items()
    }
    contenders["reading as many bytes"] = lambda turn: readers[turn % args.copies]()
    seconds = turns(contenders, args.turns, time.process_time if args.cpu else time.perf_counter)
    least = min(seconds["reading as many bytes"])
    print(f"{args.rows} rows, {args.depth} -> {args.units} -> {args.depth}, {args.bits} bits, blocks of {args.block},")
    print(f"{args.threads} threads, {size / 1e6:.1f} MB of weights, {args.copies} models of them in turn")
    print(f"{'':24}{'min ms':>9}{'median':>9}{'GB/s':>8}{'of reading':>12}{'error':>10}")
    for name, found in seconds.items():
        error = np.abs(runs[name][0](x) - exact).max() / np.abs(exact).max() if name in runs else 0.0
        low, middle = min(found), statistics.median(found)
        share = least / low
        print(f"{name:24}{low * 1e3:9.3f}{middle * 1e3:9.3f}{size / low / 1e9:8.1f}{share:12.2f}{error:10.1e}")


if __name__ == "__main__":
    main()
