"""Two tuners on four devices, of which one is killed every ten seconds: `tilewright tune`, as users run it.

python -m bench.fleet.tuners --trials 48

Each tuner must end with every configuration measured exactly once, or recorded with why not; then all devices are free
and no process is left.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from bench.fleet.tracker import DEVICES, asked, at_rest, device, process, processes_of
from bench.report import machine

USERS = ("anna", "bert")


def network(path: Path, channels: int) -> Path:
    """Two convolutions of different sizes with a ReLU between them."""
    generator = np.random.default_rng(channels)
    weights = [
        onnx.numpy_helper.from_array(generator.standard_normal(shape).astype(np.float32), name)
        for name, shape in (("a", (channels, 8, 3, 3)), ("b", (2 * channels, channels, 3, 3)))
    ]
    nodes = [
        onnx.helper.make_node("Conv", ["x", "a"], ["u"], pads=[1, 1, 1, 1]),
        onnx.helper.make_node("Relu", ["u"], ["v"]),
        onnx.helper.make_node("Conv", ["v", "b"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2]),
    ]
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 8, 56, 56]), ("y", [1, 2 * channels, 28, 28]))
    ]
    graph = onnx.helper.make_graph(nodes, "two", ends[:1], ends[1:], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), path)
    return path


def tuner(folder: Path, user: str, channels: int, address: str, trials: int) -> subprocess.Popen[bytes]:
    """A tuner in a process of its own."""
    model = network(folder / f"{user}.onnx", channels)
    words = [sys.executable, "-m", "tilewright.cli.main", "tune", str(model), "--tracker", address, "--key", "any"]
    words += ["--trials", str(trials), "--explorer", "random", "--devices", str(DEVICES), "--seed", str(channels)]
    words += ["--records", str(folder / f"{user}.jsonl"), "--json", str(folder / f"{user}.json")]
    with open(folder / f"{user}.txt", "wb") as output:
        return subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)


def outcome(folder: Path, user: str) -> dict[str, Any]:
    """Summary of a tuner: its trials, its records by kind, and duplicates."""
    report = json.loads((folder / f"{user}.json").read_text())
    lines = [json.loads(line) for line in (folder / f"{user}.jsonl").read_text().splitlines()]
    tried = [one for one in lines if one.get("kind", "trial") == "trial"]
    seen = Counter(json.dumps([one["task"], one["config"]], sort_keys=True) for one in tried)
    return {
        "trials": report["trials"],
        "timed": sum(one.get("seconds") is not None for one in tried),
        "failed": dict(Counter(f"{one['failure']}: {one['reason'][:60]}" for one in tried if one.get("failure"))),
        "twice": sum(count - 1 for count in seen.values()),
        "lost": (folder / f"{user}.txt").read_text().count("a device was lost"),
    }


def main() -> None:
    """Tune, and kill."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=48, help="of each tuner")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two kills")
    options = parser.parse_args()
    print(machine())
    generator, killed = random.Random(0), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="tilewright-fleet-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with ExitStack() as stack:
            _, line = stack.enter_context(process("tracker", "--port", "0", "--folder", str(folder / "journal")))
            address = line.split()[-1]
            running = {n: stack.enter_context(process(*device(folder, n, address)))[0] for n in range(DEVICES)}
            asked(address, "nobody")
            begun = time.perf_counter()
            tuners = [tuner(folder, user, 24 * (i + 1), address, options.trials) for i, user in enumerate(USERS)]
            while any(one.poll() is None for one in tuners):
                time.sleep(0.1)
                if time.perf_counter() - begun >= options.every * (killed.total() + 1):
                    number = generator.randrange(DEVICES)
                    running[number].kill()
                    running[number].wait()
                    killed[f"d{number}"] += 1
                    running[number] = stack.enter_context(process(*device(folder, number, address)))[0]
            print(f"{time.perf_counter() - begun:.0f} s, devices killed: {dict(killed)}")
            at_rest(address)
            for user, one in zip(USERS, tuners, strict=True):
                if one.returncode:
                    raise SystemExit((folder / f"{user}.txt").read_text())
                print(user, outcome(folder, user))
        left = processes_of(folder)
        print(f"all {DEVICES} devices free, {len(left)} processes left")
        assert not left, left


if __name__ == "__main__":
    main()
