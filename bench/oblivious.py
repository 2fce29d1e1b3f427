"""Instructions of oblivious kernels on a thousand random inputs: one number each, or data shows.

    python bench/oblivious.py [--only NAME] [--inputs 1000] [--traces 3] [--march haswell]

Each operator is written by `export_source(oblivious=True, freestanding=True)`, compiled by cc -O2, and run under
valgrind: callgrind counts the instructions of each call, and lackey writes the address of every instruction and access
of a few, whose digests must agree. Inputs are normal numbers times 10^-3 to 10^3, some of them 0; integers are of the
whole range.
Operators that `--oblivious` refuses are listed with what it says.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tilewright import relay
from tilewright.compile import export_source
from tilewright.enclave.build import OPTIONS
from tilewright.errors import UserError
from tilewright.relay.ir.visitor import free_vars

Expr = relay.Expr

#: Without a C library, whose start is not the same in each process.
_MAIN = """
#include "net.h"
static _Alignas(64) unsigned char memory[{total}];
void *memcpy(void *to, const void *from, size_t bytes) {{
  for (size_t i = 0; i < bytes; i++) ((volatile char *)to)[i] = ((const char *)from)[i];
  return to;
}}
void *memset(void *to, int value, size_t bytes) {{
  for (size_t i = 0; i < bytes; i++) ((volatile char *)to)[i] = (char)value;
  return to;
}}
static long call(long number, long a, long b, long c) {{
  __asm__ volatile("syscall" : "+a"(number) : "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return number;
}}
__attribute__((used)) void begin(void) {{
  const void *inputs[] = {{{inputs}}};
  void *outputs[] = {{{outputs}}};
  long code = 0;
  while (!code && call(0, 0, (long)memory, {read}) == {read})
    code = tilewright_net_run(inputs, outputs, memory + {workspace}, TILEWRIGHT_NET_WORKSPACE_SIZE);
  for (;;) call(60, code, 0, 0);
}}
__attribute__((naked, used)) void _start(void) {{ __asm__("and $-16, %rsp\\n call begin"); }}
"""


def x(*shape: int, dtype: str = "float32", name: str = "x") -> relay.Var:
    return relay.var(name, shape=shape, dtype=dtype)


def _unary(make: Callable[[Expr], Expr]) -> Callable[[], Expr]:
    return lambda: make(x(3, 37))


def _binary(make: Callable[[Expr, Expr], Expr], dtype: str = "float32") -> Callable[[], Expr]:
    return lambda: make(x(3, 37, dtype=dtype), x(3, 37, dtype=dtype, name="y"))


def _lstm() -> Expr:
    zeros = relay.zeros((1, 1, 8), "float32")
    return relay.nn.lstm(x(4, 1, 32), x(1, 32, 8, name="w"), zeros, zeros)[0]


def _requantized() -> Expr:
    data, weights = x(1, 4, 6, 6, dtype="int8"), x(4, 4, 3, 3, dtype="int8", name="w")
    sums = relay.nn.conv2d(data, weights, padding=1, out_dtype="int32")
    scaled = relay.round(relay.cast(sums, "float32") * relay.const(np.float32(0.0025)))
    return relay.cast(relay.clip(scaled, -128.0, 127.0), "int8")


OPERATORS: dict[str, Callable[[], Expr]] = {
    "dense": lambda: relay.nn.dense(x(2, 19), x(21, 19, name="w")),
    "matmul": lambda: relay.nn.batch_matmul(x(2, 5, 8), x(2, 7, 8, name="w")),
    "conv2d": lambda: relay.nn.conv2d(x(1, 3, 8, 8), x(8, 3, 3, 3, name="w"), padding=1),
    "depthwise conv2d": lambda: relay.nn.conv2d(x(1, 8, 8, 8), x(8, 1, 3, 3, name="w"), padding=1, groups=8),
    "int8 conv2d, requantize": _requantized,
    "max_pool2d": lambda: relay.nn.max_pool2d(x(1, 4, 8, 8), 2, 2),
    "avg_pool2d": lambda: relay.nn.avg_pool2d(x(1, 4, 8, 8), 2, 2),
    "add": _binary(lambda a, b: a + b),
    "multiply": _binary(lambda a, b: a * b),
    "divide": _binary(lambda a, b: a / b),
    "maximum": _binary(relay.maximum),
    "where": _binary(lambda a, b: relay.where(relay.greater(a, b), a, b)),
    "relu": _unary(relay.nn.relu),
    "leaky_relu": _unary(lambda a: relay.nn.leaky_relu(a, 0.1)),
    "clip": _unary(lambda a: relay.clip(a, -1.0, 1.0)),
    "exp": _unary(relay.exp),
    "log": _unary(relay.log),
    "sqrt": _unary(relay.sqrt),
    "sigmoid": _unary(relay.sigmoid),
    "tanh": _unary(relay.tanh),
    "erf": _unary(relay.erf),
    "sin": _unary(relay.sin),
    "floor": _unary(relay.floor),
    "round": _unary(relay.round),
    "softmax": _unary(relay.nn.softmax),
    "log_softmax": _unary(relay.nn.log_softmax),
    "layer_norm": lambda: relay.nn.layer_norm(x(3, 37), x(37, name="g"), x(37, name="b")),
    "sum": _unary(lambda a: relay.sum(a, axis=1)),
    "max": _unary(lambda a: relay.max(a, axis=1)),
    "argmax": _unary(lambda a: relay.argmax(a, axis=1)),
    "cumsum": _unary(lambda a: relay.cumsum(a, axis=1)),
    "cast to int32": _unary(lambda a: relay.cast(relay.clip(a, -100.0, 100.0), "int32")),
    "take": lambda: relay.take(x(19, 8), x(5, dtype="int32", name="ids"), axis=0),
    "gather": lambda: relay.gather(x(9, 5), 0, x(2, 5, dtype="int32", name="ids")),
    "one_hot": lambda: relay.one_hot(
        x(7, dtype="int32"), relay.const(np.float32(1)), relay.const(np.float32(0)), 9, -1, "float32"
    ),
    "lstm": _lstm,
    "mod": _binary(relay.mod),
    "int32 divide": _binary(relay.floor_divide, "int32"),
    "topk": _unary(lambda a: relay.topk(a, 3, axis=1, ret_type="values")),
    "scatter_elements": lambda: relay.scatter_elements(
        x(9, 5), x(2, 5, dtype="int32", name="ids"), x(2, 5, name="u"), axis=0
    ),
}  # fmt: skip


def drawn(rng: np.random.Generator, spec: Any) -> bytes:
    """The bytes of a random input."""
    if spec.numpy.kind != "f":
        limits = np.iinfo(spec.numpy)
        return rng.integers(limits.min, limits.max, spec.static_shape, dtype=spec.numpy, endpoint=True).tobytes()
    values = rng.standard_normal(spec.static_shape) * 10.0 ** rng.uniform(-3, 3, spec.static_shape)
    return (values * (rng.random(spec.static_shape) > 0.1)).astype(spec.numpy).tobytes()


def program(make: Callable[[], Expr], work: Path, march: str) -> tuple[list[Any], int]:
    """Write and compile the program of an operator; its inputs, and the bytes of a set of them."""
    body = make()
    module = relay.IRModule.from_expr(relay.Function(free_vars(body), body))
    files = export_source(module, work / "net.c", freestanding=True, oblivious=True, target=f"llvm -mcpu={march}")
    interface = files.models[0].c_model.interface
    sizes = [int(np.prod(spec.static_shape)) * spec.dtype.itemsize for spec in (*interface.inputs, *interface.outputs)]
    ends = np.cumsum([0, *sizes]).tolist()
    count = len(interface.inputs)
    start = -(-ends[-1] // 64) * 64
    text = _MAIN.format(
        total=start + interface.workspace_size, workspace=start, read=ends[count],
        inputs=", ".join(f"memory + {end}" for end in ends[:count]),
        outputs=", ".join(f"memory + {end}" for end in ends[count:-1]),
    )  # fmt: skip
    (work / "main.c").write_text(text)
    command = ["cc", *OPTIONS, f"-march={march}", "-static", "-nostdlib", "main.c", "net.c", "-o", "program"]
    subprocess.run(command, cwd=work, check=True)
    return list(interface.inputs), ends[count]


def _run(command: list[str], work: Path, data: bytes) -> None:
    (work / "inputs").write_bytes(data)
    with (work / "inputs").open("rb") as file:
        subprocess.run(command, cwd=work, stdin=file, check=True, capture_output=True)


def counts(work: Path, data: bytes) -> list[int]:
    """The instructions of each call of the model."""
    tool = ["valgrind", "--tool=callgrind", "--toggle-collect=tilewright_net_run", "--dump-after=tilewright_net_run"]
    command = [*tool, "--callgrind-out-file=counts", "./program"]
    _run(command, work, data)
    found = []
    for path in work.glob("counts.*"):
        total = re.search(r"^(?:totals|summary): (\d+)", path.read_text(), re.M)
        if total and int(total[1]):
            found.append(int(total[1]))
        path.unlink()
    return found


def trace(work: Path, data: bytes) -> str:
    """A digest of the addresses of all instructions and accesses of the program."""
    command = ["valgrind", "--tool=lackey", "--trace-mem=yes", "--log-file=trace", "./program"]
    _run(command, work, data)
    lines = [line for line in (work / "trace").read_bytes().splitlines() if not line.startswith(b"==")]
    return hashlib.sha256(b"\n".join(lines)).hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="operators whose name contains this")
    parser.add_argument("--inputs", type=int, default=1000)
    parser.add_argument("--traces", type=int, default=3)
    parser.add_argument("--march", default="haswell", help="a processor that valgrind knows")
    given = parser.parse_args()
    failed = False
    for name, make in OPERATORS.items():
        if given.only and given.only not in name:
            continue
        rng = np.random.default_rng(0)
        with tempfile.TemporaryDirectory(prefix="oblivious-") as folder:
            work = Path(folder)
            try:
                specs, _ = program(make, work, given.march)
            except UserError as error:
                print(f"refused  {name}: {str(error).splitlines()[-1]}", flush=True)
                continue
            sets = [b"".join(drawn(rng, spec) for spec in specs) for _ in range(given.inputs)]
            found = counts(work, b"".join(sets))
            traces = {trace(work, data) for data in sets[: given.traces]}
        good = len(found) == given.inputs and len(set(found)) == 1 and len(traces) <= 1
        failed |= not good
        span = f"{min(found):,}" if len(set(found)) == 1 else f"{min(found):,} to {max(found):,}" if found else "none"
        print(f"{'ok      ' if good else 'DIFFERS '} {name}: {span} instructions, {len(found)} calls, "
              f"{len(traces)} trace(s)", flush=True)  # fmt: skip
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
