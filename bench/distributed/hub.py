"""The parameter hub beside gather, update and broadcast by gloo: seconds and processor seconds of a step, in turns.

    python bench/distributed/hub.py [--parameters 25000000] [--workers 4] [--rounds 10] [--shards N] [--tls]
                                    [--sockets N] [--tenants 2]

Workers on this machine; SGD with momentum. They share memory with the hub, except for the last N of `--sockets N`,
whose gradients and parameters go over loopback. By gloo those of all but worker 0 do: it collects all gradients, sums
and updates by PyTorch in place, and broadcasts the parameters. The gradients are there already: only the exchange is
measured, the processor time in the programs and in the system. With `--tenants` one worker each of several trainings
steps alone, then beside the others. Needs torch.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.rpc.identity import Bundle, make_authority, make_bundle
from tilewright.training import SGD, Hub, HubSession, HubSettings

RATE, MOMENTUM = 0.01, 0.9


def processor_seconds(*processes: int) -> np.ndarray:
    """Time of processes, [in the programs, in the system]."""
    fields = [Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[11:13] for one in processes]
    return np.sum(np.array(fields, float), 0) / os.sysconf("SC_CLK_TCK")


def serve(options: argparse.Namespace) -> None:
    """The hub's process, until its standard input ends."""
    bundle = Bundle(Path(options.fleet) / "device-hub") if options.fleet else None
    with Hub(HubSettings(shards=options.shards, bundle=bundle, share=options.sockets < options.workers)) as hub:
        print(hub.address[1], flush=True)
        os.read(0, 1)  # not sys.stdin, whose lock the forked compiler would wait for


def joined(options: argparse.Namespace, tenant: str, rank: int, workers: int) -> HubSession:
    values = {"w": np.zeros(options.parameters, np.float32)}
    bundle = str(Path(options.fleet) / "user-bench") if options.fleet else None
    more: Any = {"bundle": bundle, "share": rank < workers - options.sockets}
    return HubSession("127.0.0.1", options.port, tenant, rank, workers, values, SGD(RATE, MOMENTUM), **more)


def by_gloo(options: argparse.Namespace, gradients: np.ndarray) -> tuple[Callable[[], None], np.ndarray]:
    """A step by gloo, and the parameters that it changes."""
    import torch
    from torch import distributed as group

    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))
    own, values = torch.from_numpy(gradients), torch.zeros(options.parameters)
    first = options.rank == 0
    every = [torch.empty(options.parameters) for _ in range(options.workers)] if first else None
    velocity = torch.zeros(options.parameters)

    def step() -> None:
        group.gather(own, every)
        if every is not None:
            total = every[0]
            for other in every[1:]:
                total.add_(other)
            velocity.mul_(MOMENTUM).add_(total, alpha=1 / options.workers)
            values.add_(velocity, alpha=-RATE)
        group.broadcast(values, 0)

    return step, values.numpy()


def rotated(some: list[Any], by: int) -> list[Any]:
    """The same in an order in which each comes after each other as often."""
    return [some[(by + index) % len(some)] for index in range(len(some))][:: 1 if by % 2 else -1]


def work(options: argparse.Namespace) -> None:
    """A worker's process: steps by the hub, by gloo and again by gloo in turns; worker 0 prints."""
    import torch
    from torch import distributed as group

    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(options.meet)}
    group.init_process_group("gloo", rank=options.rank, world_size=options.workers)
    gradients = np.random.default_rng(options.rank).standard_normal(options.parameters, np.float32)
    session = joined(options, "bench", options.rank, options.workers)
    np.copyto(session.gradients["w"], gradients)
    other, values = by_gloo(options, gradients)
    again, _ = by_gloo(options, gradients)
    kinds = {"hub": session.step, "gloo": other, "gloo again": again}
    least = {name: (9e9, np.array([9e9, 0.0])) for name in kinds}
    for number in range(options.rounds + 1):
        for name, step in rotated([*kinds.items()], number):
            group.barrier()
            watched = [os.getpid(), options.hub] if options.rank == 0 else [os.getpid()]
            before, begun = processor_seconds(*watched), time.perf_counter()
            step()
            took = torch.tensor([time.perf_counter() - begun])
            group.all_reduce(took, group.ReduceOp.MAX)  # a worker's step ends after the hub's
            spent = torch.from_numpy(processor_seconds(*watched) - before)
            group.all_reduce(spent)
            if number:  # after one that touches the memory
                seconds, processor = least[name]
                least[name] = min(seconds, float(took)), min(processor, spent.numpy(), key=sum)
    off = float(np.abs(session.parameters["w"] - values).max())
    session.close()
    if options.rank == 0:
        for name, (seconds, processor) in least.items():
            print(f"{name:10} {seconds:.3f} s  {processor[0]:.2f} + {processor[1]:.2f} processor s")
        ratios = [least["gloo"][0] / least[name][0] for name in ("hub", "gloo again")]
        print("gloo / hub {:.2f}, gloo / gloo again {:.2f}".format(*ratios) + f"; parameters differ by {off:.1e}")
    group.destroy_process_group()


def tenant(options: argparse.Namespace) -> None:
    """A training of one worker; steps a second, while standard input says "go"."""
    with joined(options, f"tenant{options.rank}", 0, 1) as session:
        print("ready", flush=True)
        for seconds in sys.stdin:
            end, steps, begun = time.perf_counter() + float(seconds), 0, time.perf_counter()
            while time.perf_counter() < end:
                session.step()
                steps += 1
            print(steps / (time.perf_counter() - begun), flush=True)


def tenants(start: Callable[..., subprocess.Popen[str]], count: int) -> None:
    """Print the steps a second of trainings alone, then at once."""
    started = [start("tenant", rank=index) for index in range(count)]
    pipes: list[tuple[Any, Any]] = [(process.stdin, process.stdout) for process in started]
    for _, out in pipes:
        out.readline()

    def rates(some: list[tuple[Any, Any]]) -> list[float]:
        for into, _ in some:
            print(4, file=into, flush=True)
        return [float(out.readline()) for _, out in some]

    alone = [rates([pipe])[0] for pipe in pipes]
    print("steps/s alone", *[f"{rate:.2f}" for rate in alone], " at once", *[f"{rate:.2f}" for rate in rates(pipes)])
    for process, (into, _) in zip(started, pipes, strict=True):
        into.close()
        process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (
        ("parameters", 25_000_000),
        ("workers", 4),
        ("rounds", 10),
        ("shards", 0),
        ("tenants", 0),
        ("sockets", 0),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--tls", action="store_true")
    for name in ("role", "fleet"):
        parser.add_argument(f"--{name}", default="", help=argparse.SUPPRESS)
    for name in ("rank", "port", "meet", "hub"):
        parser.add_argument(f"--{name}", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        {"serve": serve, "work": work, "tenant": tenant}[options.role](options)
        return
    with tempfile.TemporaryDirectory() as folder:
        if options.tls:
            make_authority(folder)
            make_bundle(folder, "device", "hub")
            make_bundle(folder, "user", "bench")

        def start(role: str, **fields: Any) -> subprocess.Popen[str]:
            given = {**vars(options), **fields, "role": role, "fleet": folder if options.tls else ""}
            flags = [f"--{name}={value}" for name, value in given.items() if name != "tls"]
            pipe: Any = subprocess.PIPE
            out = None if role == "work" else pipe
            return subprocess.Popen([sys.executable, __file__, *flags], stdin=pipe, stdout=out, text=True)

        hub = start("serve")
        assert hub.stdout is not None and hub.stdin is not None
        options.port, options.hub, options.meet = int(hub.stdout.readline()), hub.pid, 20000 + os.getpid() % 20000
        if options.tenants:
            tenants(start, options.tenants)
        else:
            for worker in [start("work", rank=rank) for rank in range(options.workers)]:
                worker.wait()
        hub.stdin.close()
        hub.wait()


if __name__ == "__main__":
    main()
