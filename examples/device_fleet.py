"""A fleet on one machine: a tracker and three devices, on which a network is checked and timed, and its layer tuned.

    python examples/device_fleet.py [--trials 12]

One device is this machine; the others are programs for AArch64 and RISC-V under qemu's user mode, as boards without
Python would be served. Where an emulator, a C library for it or a cross compiler is missing, that device is left out,
with the reason. Everybody has a certificate, and nothing is left behind.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tilewright as tw
from tilewright import autotvm, relay, rpc
from tilewright.errors import EnvironmentError_, UserError
from tilewright.rpc.board.program import build_worker

SHAPE = (1, 8, 14, 14)
TILEWRIGHT = (sys.executable, "-m", "tilewright.cli.main")


@dataclass(frozen=True)
class Machine:
    """A kind of device: its key, what to compile for, what runs its programs here, and who brings its C library."""

    key: str
    target: str
    emulator: tuple[str, ...] = ()
    package: str = ""


MACHINES = (
    Machine("host", "cpu"),
    Machine(
        "arm-board",
        "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -cores=2",
        ("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"),
        "libc6-arm64-cross",
    ),
    Machine(
        "riscv-board",
        "llvm -mtriple=riscv64-linux-gnu -cores=2",
        ("qemu-riscv64", "-L", "/usr/riscv64-linux-gnu"),
        "libc6-riscv64-cross",
    ),
)


def network() -> relay.IRModule:
    """A 3x3 convolution, ReLU, and global average pooling."""
    generator = np.random.default_rng(0)
    x = relay.var("x", shape=SHAPE)
    weight = relay.const(generator.standard_normal((16, SHAPE[1], 3, 3)).astype("float32"))
    y = relay.nn.relu(relay.nn.conv2d(x, weight, padding=(1, 1)))
    return relay.IRModule.from_expr(relay.Function([x], relay.nn.global_avg_pool2d(y)))


def worker_of(machine: Machine, folder: Path) -> Path | None:
    """The program that runs what is uploaded; None for this machine, which needs none. Raises `UserError` without."""
    if not machine.emulator:
        return None
    if shutil.which(machine.emulator[0]) is None or not Path(machine.emulator[-1]).exists():
        raise EnvironmentError_(f"needs {machine.emulator[0]} and {machine.package} (Debian packages, with qemu-user)")
    return build_worker(folder / f"worker-{machine.key}", machine.target)


@contextlib.contextmanager
def command(*words: str, says: str) -> Iterator[str]:
    """`tilewright WORDS` in a process of its own until the end of the block; the line in which it `says` something."""
    with subprocess.Popen([*TILEWRIGHT, *words], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next((line for line in process.stdout if says in line), None)
            if line is None:
                raise SystemExit(f"tilewright {' '.join(words)} ended with {process.wait()}")
            yield line.strip()
        finally:
            process.terminate()


@contextlib.contextmanager
def running(folder: Path, machines: dict[Machine, Path | None]) -> Iterator[rpc.TrackerSession]:
    """A tracker, and a server for each machine, all with certificates; the tracker as a user sees it."""
    words = [option for machine in machines for option in ("--device", machine.key)]
    made = [*TILEWRIGHT, "rpc", "init", str(folder), "--tracker", "main", "--user", "me"]
    subprocess.run([*made, *words], check=True, stdout=subprocess.DEVNULL)
    with contextlib.ExitStack() as stack:
        tracker = ["--bundle", str(folder / "tracker-main"), "--port", "0", "--folder", str(folder / "journal")]
        line = stack.enter_context(command("rpc", "tracker", *tracker, says="tracker on"))
        address = line.split()[-1]
        for machine, worker in machines.items():
            server = ["--bundle", str(folder / f"device-{machine.key}"), "--name", machine.key, "--key", machine.key]
            server += ["--port", "0", "--tracker", address, "--folder", str(folder / f"state-{machine.key}")]
            if worker is not None:
                server += ["--worker", str(worker), "--launcher", " ".join(machine.emulator)]
            stack.enter_context(command("rpc", "server", *server, says="registered with"))
        host, port = address.rsplit(":", 1)
        yield rpc.connect_tracker(host, int(port), bundle=folder / "user-me")


def run_there(tracker: rpc.TrackerSession, machine: Machine) -> None:
    """Compile for a machine, upload, compare with what is computed here, and time."""
    x = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")
    expected = tw.compile(network())(x)
    begun = time.perf_counter()
    model = tw.compile(network(), target=machine.target)
    built = time.perf_counter() - begun
    with tracker.request(machine.key) as remote:
        loaded = remote.load_module(remote.upload(model))
        np.testing.assert_allclose(loaded(x), expected, rtol=1e-4, atol=1e-5)
        seconds = statistics.median(loaded.time({"x": x}, repeat=20))
    print(f"{machine.key}: compiled in {built:.1f} s, the same results as here, {seconds * 1e3:.3f} ms a run")


def tune_there(tracker: rpc.TrackerSession, machine: Machine, trials: int) -> None:
    """Tune the kernels for a machine: built here, measured there."""
    fleet = autotvm.Fleet(tracker, machine.key, devices=1)
    options = autotvm.TuneOptions(trials=trials, explorer="droplet", batch=min(4, trials))
    result = autotvm.tune(network(), machine.target, options, site=autotvm.OnFleet(fleet))
    measured = [tuner for tuner in result.tuners if tuner.default_seconds is not None]
    gains = [f"{t.task.name} {t.default_seconds * 1e6:.0f} to {t.seconds * 1e6:.0f} µs" for t in measured]
    print(f"{machine.key}: tuned with {result.trials} trials: {', '.join(gains)}")


def main() -> None:
    """Do it all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=12, help="configurations to measure of the layer on each device")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tilewright-fleet-") as name:
        taking_part = {}
        for machine in MACHINES:
            try:
                taking_part[machine] = worker_of(machine, Path(name))
            except EnvironmentError_ as error:
                print(f"{machine.key}: left out, {error}")
        try:
            with running(Path(name) / "fleet", taking_part) as tracker:
                for machine in taking_part:
                    run_there(tracker, machine)
                for machine in taking_part:
                    tune_there(tracker, machine, given.trials)
                done = {device["name"]: device["jobs"] for device in tracker.status()["devices"]}
                print(f"sessions by device: {done}")
        except UserError as error:
            raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
