"""Two ranks of a program in network namespaces, joined by a throttled link; stages that are timed, or that wait.

Needs `ip` and `tc`, and root.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilewright.training import Link

#: Seconds before the first byte arrives, and bits of a byte on the wire: 8, and headers of Ethernet, IP and TCP.
LATENCY, WIRE_BITS = 200e-6, 8 * 1.06
NAMES = ("tilewright0", "tilewright1")


def link_of(rate: int) -> Link:
    """The link of so many Mbit/s."""
    return Link(LATENCY, rate * 1e6 / WIRE_BITS)


class Timed:
    """A stage's executable that keeps the least time it took."""

    def __init__(self, executable: Any) -> None:
        self.executable, self.seconds = executable, 9e9

    def run(self, *arguments: Any) -> None:
        begun = time.perf_counter()
        self.executable.run(*arguments)
        self.seconds = min(self.seconds, time.perf_counter() - begun)


class Waited:
    """A stage that takes its time and no processor's, as on a machine of its own."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def run(self, *_: Any) -> None:
        time.sleep(self.seconds)


def run_on_link(
    program: Path, description: str | None, work: Callable[[argparse.Namespace], None], **defaults: int
) -> None:
    """Run a program: as a rank `work`, with the numbers of the command line, else both ranks on a throttled link."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    if "RANK" in os.environ:
        work(options)
    else:
        _start(program, options.rate, sys.argv[1:])


def _start(program: Path, rate: int, arguments: Sequence[str]) -> None:
    """Run a program on both sides of a link of `rate` Mbit/s each way, as ranks of gloo; remove the link at the end."""
    started = []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # by way of `finally`
    try:
        for name in NAMES:
            _shell(f"ip netns add {name}")
        _shell(f"ip link add tw netns {NAMES[0]} type veth peer name tw netns {NAMES[1]}")
        for index, name in enumerate(NAMES):
            _shell(f"ip -n {name} addr add 10.99.0.{index + 1}/24 dev tw")
            _shell(f"ip -n {name} link set lo up")
            _shell(f"ip -n {name} link set tw up")
            _shell(f"ip netns exec {name} tc qdisc add dev tw root tbf rate {rate}mbit burst 256kb latency 100ms")
        for index, name in enumerate(NAMES):
            environment = os.environ | {
                "RANK": str(index), "WORLD_SIZE": "2", "MASTER_ADDR": "10.99.0.1", "MASTER_PORT": "29555",
                "GLOO_SOCKET_IFNAME": "tw", "OMP_NUM_THREADS": "1",
            }  # fmt: skip
            command = ["ip", "netns", "exec", name, sys.executable, str(program.resolve()), *arguments]
            started.append(subprocess.Popen(command, env=environment))
        codes = [process.wait() for process in started]
        if any(codes):
            raise SystemExit("a rank has failed")
    finally:
        for process in started:
            process.kill()
        for name in NAMES:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)


def _shell(line: str) -> None:
    subprocess.run(line.split(), check=True)
