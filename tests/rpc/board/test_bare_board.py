"""Boards without an operating system behind servers and a tracker: source built and run there, counts come back."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import threading
from pathlib import Path

import numpy as np
import pytest

from tests.autotvm.network.test_tune_on_board import M4, products
from tests.board.serial.test_serial import program_of
from tests.board.test_board import tools_of
from tests.cli.conftest import Command, tilewright
from tests.onnx_models import perceptron, saved
from tests.rpc.conftest import fleet_of, library, start
from tests.rpc.test_server import until
from tilewright.autotvm.network.tune_on_board import tune_on_board
from tilewright.board import EmulatedBoard, board_named, build_image
from tilewright.errors import ArtifactError, EnvironmentError_, InputError, RpcError, UnsupportedError
from tilewright.rpc import connect
from tilewright.rpc.bare_worker import launched
from tilewright.rpc.board.programs import Upload
from tilewright.rpc.registration import Registration
from tilewright.rpc.remote_board import RemoteBoard, borrowed_board

__all__ = ["fleet_of", "library", "start", "tilewright"]  # fixtures

NAME = "mps2-an386"


@pytest.fixture
def lent(fleet_of, start):
    """The address of a tracker that lends an emulated Cortex-M4."""
    tools_of(NAME)
    tracker, _, _ = fleet_of(0)
    server = start(required=True, name="desk", key=NAME, board=launched(NAME))
    registration = Registration(server, *tracker.address)
    assert registration.registered.wait(60), registration.problem
    yield tracker.address
    registration.close()


def test_a_program_runs_as_here(lent, tmp_path: Path) -> None:
    program = program_of(perceptron(), tmp_path, str(M4))
    here = EmulatedBoard(board_named(NAME)).load(program, kernels=True)
    x = np.random.default_rng(1).standard_normal((1, 8), dtype=np.float32)
    with borrowed_board(NAME, lent) as board:
        image, sizes = build_image(program, board_named(NAME), kernels=True)
        uploads = Upload(program, NAME, kernels=True), Upload(program, NAME, "", True, image, sizes)
        for upload in uploads:
            there = board.bring(upload)
            wanted, found = here.run([x]), there.run([x])
            np.testing.assert_array_equal(found.outputs[0], wanted.outputs[0])
            assert (found.instructions, found.stack) == (wanted.instructions, wanted.stack)
            assert found.kernels == wanted.kernels and there.sizes == here.sizes
        with pytest.raises(InputError, match=r"the program takes x: float32\[1, 8\]"):
            there.run([x[:, :4]])


def test_tuning_counts_there(lent, tmp_path: Path) -> None:
    here = tune_on_board(products(), board_named(NAME), M4, tmp_path / "here.jsonl", trials=2)
    with borrowed_board(NAME, lent) as device:
        there = tune_on_board(products(), board_named(NAME), M4, tmp_path / "there.jsonl", trials=2, device=device)
    assert there == here


def test_refusals(start, lent, tmp_path: Path) -> None:
    server = start(board=launched(NAME), name="other")
    remote = connect(*server.address)
    with pytest.raises(InputError, match="is mps2-an386, not the board virt"):
        RemoteBoard(remote, "virt")
    with pytest.raises(ArtifactError, match="no program for a board without an operating system"):
        remote.load_module(remote.upload(b"\x7fELF"))
    with pytest.raises(UnsupportedError, match="has no arrays or seconds"):
        remote.empty((3,))
    program = program_of(perceptron(), tmp_path, str(M4))
    with pytest.raises(ArtifactError, match="the program is for the board virt, and this is mps2-an386"):
        remote.ask("load", digest=remote.upload(Upload(program, "virt").to_bytes()))
    spoiled = Upload(program.__class__("net", program.interface, "#include </etc/shadow>\n", program.header), NAME)
    with pytest.raises(EnvironmentError_, match="building for the board failed") as caught:
        remote.ask("load", digest=remote.upload(spoiled.to_bytes()))
    assert "root:" not in str(caught.value)
    with pytest.raises(InputError, match="not lent over a fleet"):
        launched("virt+vta")
    with pytest.raises(InputError, match="qemu has no board cortex-m4; name the line"):
        launched("cortex-m4", "qemu")
    with pytest.raises(InputError, match="the memories and the UART of cortex-m4 are its maker's"):
        launched("cortex-m4", "/dev/ttyACM0", "openocd")


def test_the_verbs(tilewright: Command, lent, tmp_path: Path) -> None:
    model = saved(perceptron(), tmp_path / "net.onnx")
    at = f"127.0.0.1:{lent[1]}"
    shown = []
    for more in ((), ("--tracker", at)):
        outcome = tilewright("run", model, "--board", NAME, "--seed", 1, *more)
        assert outcome.status == 0, outcome.err
        shown.append(outcome.out)
    assert shown[0] == shown[1] and "instructions on mps2-an386, stack" in shown[0]
    figures = tmp_path / "counts.json"
    outcome = tilewright("bench", model, "--board", NAME, "--tracker", at, "--json", figures)
    assert outcome.status == 0, outcome.err
    assert json.loads(figures.read_text())["runs"][0]["instructions"] > 40
    outcome = tilewright("run", model, "--tracker", at)
    assert outcome.status == 2 and "--tracker and --device lend boards; add --board NAME" in outcome.err
    outcome = tilewright("run", model, "--board", NAME, "--device", at)
    assert outcome.status == 2 and "is no device: it answers as a tracker does" in outcome.err
    outcome = tilewright("run", model, "--board", NAME, "--bundle", tmp_path)
    assert outcome.status == 2 and "add --tracker HOST:PORT or --device HOST:PORT" in outcome.err


def test_a_borrowed_board_is_verified(tilewright: Command, lent, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    model = saved(perceptron(), tmp_path / "net.onnx")
    figures = tmp_path / "verified.json"
    options = "--board", NAME, "--tracker", f"127.0.0.1:{lent[1]}", "--json", figures
    outcome = tilewright("verify", model, *options)
    assert outcome.status == 0, outcome.err
    assert json.loads(figures.read_text())["passed"] and "ok       y: max|ours - ref| " in outcome.out
    other = saved(perceptron(seed=1), tmp_path / "other.onnx")
    outcome = tilewright("verify", model, *options, "--original", other, "--max-loss", "1%", "--loss", "relative")
    assert outcome.status == 1 and "DIFFERS" in outcome.out and not json.loads(figures.read_text())["passed"]


def test_a_board_on_a_line(start, tmp_path: Path) -> None:
    """Under qemu the worker has a pseudoterminal to it."""
    tools_of("virt")
    server = start(board=launched("virt", "qemu"), name="line")
    program = program_of(perceptron(), tmp_path, "c -mcpu=riscv32-imac")
    x = np.random.default_rng(1).standard_normal((1, 8), dtype=np.float32)
    wanted = EmulatedBoard(board_named("virt")).load(program).run([x])
    with borrowed_board("virt", device=server.address) as board:
        loaded = board.load(program)
        for _ in range(2):
            found = loaded.run([x])
            np.testing.assert_array_equal(found.outputs[0], wanted.outputs[0])
            assert abs(found.instructions - wanted.instructions) < 300


def emulators(folder: Path) -> int:
    """The emulators that run in a worker's folder below `folder`."""
    found = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            inside = Path(os.readlink(process / "cwd")).is_relative_to(folder)
            found += inside and "qemu" in (process / "cmdline").read_text()
    return found


def test_what_a_worker_started_ends_with_it(start, tmp_path: Path) -> None:
    """A model that never ends: its emulator is gone with the session."""
    tools_of("virt")
    server = start(board=launched("virt"), name="endless", folder=tmp_path / "endless")
    if server.confinement()["processes"] != "on":
        pytest.skip("the system has no processes of its own for a worker")
    program = program_of(perceptron(), tmp_path, "c -mcpu=riscv32-imac")
    source, count = re.subn(r"(int tilewright_net_run\([^{;]*\)\s*\{)", r"\1\n  for (;;) {}", program.source)
    assert count == 1
    with connect(*server.address) as remote:
        loaded = RemoteBoard(remote, "virt").load(dataclasses.replace(program, source=source))

        def run() -> None:
            with pytest.raises(RpcError):
                loaded.run([np.ones((1, 8), np.float32)])

        running = threading.Thread(target=run, daemon=True)
        running.start()
        until(lambda: emulators(tmp_path / "endless") == 1, 60)
    until(lambda: emulators(tmp_path / "endless") == 0, 60)
    running.join(30)
