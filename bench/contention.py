"""Measure how long inferences take beside busy processes: us, us on one thread, onnxruntime and OpenVINO, in turns.

    python bench/contention.py [--busy 0,1,2,8,30] [--threads 2] [--seconds 20] [--only resnet18,chain]
                               [--engines tilewright,...] [--before SRC] [--json FILE] [--markdown FILE]

Every engine has a process of its own and idles while another has its turn; a turn is a quarter of a second and at least
two inferences. The busy processes count in a loop and are ended with the bench, however it ends. The mean is what a
service pays, so the figure of a row is the mean of the fastest of the others over ours. `--before` names the src folder
of another checkout, which is one more engine. `--smoke` measures the smallest network beside one busy process briefly.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from networks import ROOT, model_file
from report import OURS, cell, machine, table, versions

NETWORKS = ("mobilenet_v3_large", "squeezenet1_1", "resnet18", "chain", "loop")
ALONE = f"{OURS} on 1"
BEFORE = f"{OURS} before"
TURN_SECONDS = 0.25

#: A process that is busy until its parent is gone.
_SPIN = "import os\np = os.getppid()\nwhile os.getppid() == p:\n for _ in range(100000): pass\n"


def chain_file(folder: Path, links: int = 80) -> Path:
    """A model of many small kernels: products of 32 x 192 by 192 x 192, each normalized."""
    from onnx import TensorProto, helper, numpy_helper, save

    path = folder / "chain.onnx"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    nodes, weights, last = [], [], "x"
    for i in range(links):
        weight = random.standard_normal((192, 192), dtype=np.float32) / np.float32(14)
        weights.append(numpy_helper.from_array(weight, f"w{i}"))
        nodes.append(helper.make_node("MatMul", [last, f"w{i}"], [f"m{i}"]))
        nodes.append(helper.make_node("Softmax", [f"m{i}"], [f"s{i}"], axis=-1))
        nodes.append(helper.make_node("Add", [f"s{i}", f"m{i}"], [last := f"y{i}"]))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [32, 192])
    y = helper.make_tensor_value_info(last, TensorProto.FLOAT, [32, 192])
    graph = helper.make_graph(nodes, "chain", [x], [y], weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def loop_file(folder: Path, turns: int = 60) -> Path:
    """A recurrent model as a loop: in each turn a product of 32 x 512 by 512 x 512, and tanh."""
    from onnx import TensorProto, helper, numpy_helper, save

    path = folder / "loop.onnx"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    weight = np.random.default_rng(0).standard_normal((512, 512), dtype=np.float32) / np.float32(23)
    state = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [32, 512]) for name in ("x", "y", "h", "g")]
    nodes = [
        helper.make_node("MatMul", ["h", "w"], ["m"]),
        helper.make_node("Tanh", ["m"], ["g"]),
        helper.make_node("Identity", ["go"], ["goes"]),
    ]
    counted = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    flags = [helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("go", "goes")]
    body = helper.make_graph(nodes, "turn", [counted, flags[0], state[2]], [flags[1], state[3]])
    loop = helper.make_node("Loop", ["turns", "on", "x"], ["y"], body=body)
    constants = [
        numpy_helper.from_array(value, name)
        for name, value in (("w", weight), ("turns", np.array(turns)), ("on", np.array(True)))
    ]
    graph = helper.make_graph([loop], "loop", [state[0]], [state[1]], constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


#: Networks that are made here.
MADE = {"chain": chain_file, "loop": loop_file}


def serve(engine: str, path: str, threads: int) -> None:
    """The life of an engine's process: for each number of seconds on a line, a line with the times of inferences."""
    run = opened(engine, path, threads)
    for _ in range(3):
        run()
    print("ready", flush=True)
    for line in sys.stdin:
        times: list[float] = []
        end = time.perf_counter() + float(line)
        while (start := time.perf_counter()) < end or len(times) < 2:
            run()
            times.append(time.perf_counter() - start)
        print(json.dumps(times), flush=True)


def opened(engine: str, path: str, threads: int) -> Any:
    """A function that runs one inference."""
    import tilewright as tw
    from tilewright.frontend.onnx.reference.engines import open_engine

    executable = tw.compile(path, threads=1 if engine == ALONE else threads)
    random = np.random.default_rng(0)
    inputs = {
        spec.name: random.standard_normal(spec.static_shape).astype(spec.numpy)
        if spec.dtype.is_float
        else np.zeros(spec.static_shape, spec.numpy)
        for spec in executable.inputs
    }
    if engine in (OURS, ALONE, BEFORE):
        return partial(executable.run, inputs)
    return open_engine(engine, path, inputs, threads).run


class Server:
    """An engine in a process of its own."""

    def __init__(self, engine: str, path: Path, threads: int, source: str) -> None:
        self.engine = engine
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join([source or str(ROOT / "src"), environment.get("PYTHONPATH", "")])
        if source:
            environment["TILEWRIGHT_CACHE_DIR"] = str(ROOT / "build" / "cache_before")
        command = [sys.executable, __file__, "--engine", engine, "--path", str(path), "--threads", str(threads)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        self.times: list[float] = []

    def wait(self) -> bool:
        """True once the engine is ready or has given up."""
        assert self._process.stdout is not None
        return self._process.stdout.readline() == "ready\n"

    def turn(self, seconds: float) -> None:
        """Have it run for so long."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{seconds}\n")
        self._process.stdin.flush()
        self.times += json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


@contextlib.contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that only count run within the block."""
    processes = [subprocess.Popen([sys.executable, "-S", "-c", _SPIN]) for _ in range(count)]
    try:
        time.sleep(0.5 if count else 0)
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def measure(name: str, args: argparse.Namespace) -> list[dict[str, Any]]:
    """All engines on one network beside each number of busy processes: a record for each."""
    folder = Path(args.folder)
    path = MADE[name](folder) if name in MADE else model_file(name, folder)[0]
    servers = [Server(e, path, args.threads, args.before if e == BEFORE else "") for e in args.engines.split(",")]
    try:
        servers = [server for server in servers if server.wait()]
        return [_beside(name, count, servers, args) for count in args.busy]
    finally:
        for server in servers:
            server.close()


def _beside(name: str, count: int, servers: Sequence[Server], args: argparse.Namespace) -> dict[str, Any]:
    for server in servers:
        server.times = []
    load = os.getloadavg()[0]
    with busy(count):
        for server in servers:
            server.turn(TURN_SECONDS)  # not counted: the busy ones and the engines find their pace
            server.times = []
        end = time.perf_counter() + args.seconds * len(servers)
        while time.perf_counter() < end:
            for server in servers:
                server.turn(min(TURN_SECONDS, args.seconds))
    engines = {s.engine: _figures(s.times) for s in servers}
    return {"model": name, "busy": count, "load_before": load, "threads": args.threads, "engines": engines}


def _figures(times: Sequence[float]) -> dict[str, float]:
    ms = sorted(1000 * t for t in times)
    return {
        "mean": statistics.fmean(ms), "median": statistics.median(ms), "min": ms[0],
        "p95": ms[math.ceil(0.95 * len(ms)) - 1], "runs": len(ms),
    }  # fmt: skip


def row(record: dict[str, Any], engines: Sequence[str]) -> list[str]:
    """One line of the table: mean, median and minimum of each engine, and the fastest other mean over ours."""
    found = record["engines"]
    cells = [
        "{mean:.2f} / {median:.2f} / {min:.2f}".format(**found[engine]) if engine in found else "–"
        for engine in engines
    ]
    others = [figures["mean"] for engine, figures in found.items() if engine not in (OURS, BEFORE)]
    ratio = min(others) / found[OURS]["mean"] if others and OURS in found else None
    return [record["model"], str(record["busy"]), *cells, cell(ratio)]


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--busy", default="0,1,2,8,30")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each engine, network and number of processes")
    parser.add_argument("--only", default=",".join(NETWORKS))
    parser.add_argument("--engines", default=",".join((OURS, ALONE, "onnxruntime", "openvino")))
    parser.add_argument("--before", default="", help="the src folder of another checkout to measure beside")
    parser.add_argument("--folder", default=str(ROOT / "build" / "networks"))
    parser.add_argument("--json")
    parser.add_argument("--markdown")
    parser.add_argument("--smoke", action="store_true", help="the smallest network, one busy process, briefly")
    parser.add_argument("--engine", help=argparse.SUPPRESS)
    parser.add_argument("--path", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.smoke:
        args.only, args.busy, args.seconds, args.engines = "chain", "1", 0.05, f"{OURS},{ALONE}"
    args.busy = [int(word) for word in args.busy.split(",")]
    return args


def main() -> None:
    """Measure each network and print the table."""
    args = options()
    if args.engine:
        serve(args.engine, args.path, args.threads)
        return
    if args.before:
        args.engines += f",{BEFORE}"
    engines = args.engines.split(",")
    records: list[dict[str, Any]] = []
    for name in args.only.split(","):
        for record in measure(name, args):
            records.append(record)
            print(" | ".join(row(record, engines)), flush=True)
    about = (
        f"{args.threads} threads on {machine()}, {len(os.sched_getaffinity(0))} of them allowed. Milliseconds: mean / "
        "median / minimum; the ratio is the least mean of the others over ours.\n"
    )
    text = about + "\n" + table(["network", "busy", *engines, "ratio"], [row(record, engines) for record in records])
    print(text)
    if args.markdown:
        Path(args.markdown).write_text(text)
    if args.json:
        whole = {"machine": machine(), "versions": versions(), "records": records}
        Path(args.json).write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    main()
