"""The worker of a board without Python, on this machine and under qemu: the same sessions as with one of Python."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.onnx_models import convolution, perceptron
from tests.rpc.conftest import SIZE
from tests.rpc.test_server import alive, until
from tilewright import te, tir
from tilewright.backend import backend_of
from tilewright.errors import ArtifactError, EnvironmentError_, InputError, UnsupportedError
from tilewright.rpc import Turn, connect
from tilewright.rpc.board.library import _quoted, packed_for
from tilewright.rpc.board.loads import ARTIFACT, LIBRARY
from tilewright.rpc.board.program import build_worker
from tilewright.rpc.messages import Refused, WorkerLost
from tilewright.rpc.sandbox import Limits
from tilewright.rpc.worker_process import Board

HERE = "cpu -cores=2"
ARM = "llvm -mtriple=aarch64-linux-gnu -mcpu=cortex-a76 -cores=2"
RISCV = "llvm -mtriple=riscv64-linux-gnu -cores=2"
#: target -> what runs its programs, and the package that brings their C library
MACHINES = {
    HERE: ((), ""),
    ARM: (("qemu-aarch64", "-L", "/usr/aarch64-linux-gnu"), "libc6-arm64-cross"),
    RISCV: (("qemu-riscv64", "-L", "/usr/riscv64-linux-gnu"), "libc6-riscv64-cross"),
}


def require(target: str) -> tuple[str, ...]:
    launcher, package = MACHINES[target]
    if launcher and (shutil.which(launcher[0]) is None or not Path(launcher[2]).exists()):
        pytest.skip(f"needs {launcher[0]} and {package} (Debian: apt install qemu-user {package})")
    return launcher


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """A function that gives the worker for a target, built once."""
    made = {}

    def program(target):
        if target not in made:
            try:
                made[target] = build_worker(tmp_path_factory.mktemp("worker") / "worker", target)
            except EnvironmentError_ as error:
                pytest.skip(str(error))
        return str(made[target])

    return program


@pytest.fixture
def board(start, programs):
    """A function that starts a server whose workers are those of a target."""

    def begin(target=HERE, **more):
        launcher = require(target)
        return start(board=Board(programs(target), launcher), **more)

    return begin


def functions(target):
    """`double`, `scaled` by an integer and a float, `spin` for ever, and `rows`, which needs memory of each worker."""
    n = te.placeholder((SIZE,), name="a")
    b = te.compute((SIZE,), lambda i: n(i) * 2.0, name="b")
    factor, shift = tir.Var("factor", "int32"), tir.Var("shift", "float32")
    c = te.compute((SIZE,), lambda i: n(i) * factor.astype("float32") + shift, name="c")
    x = te.placeholder((2,), name="x")
    k, l = te.reduce_axis((0, 1 << 30), name="k"), te.reduce_axis((0, 1 << 30), name="l")
    y = te.compute((2,), lambda i: te.sum(x(i) + (k + l).astype("float32"), axis=[k, l]), name="y")
    made = [
        te.lower(te.create_schedule(b.op), [n, b], name="double"),
        te.lower(te.create_schedule(c.op), [n, c, factor, shift], name="scaled"),
        te.lower(te.create_schedule(y.op), [x, y], name="spin"),
        rows(),
    ]
    return backend_of(tw.Target(target)).compiled(made, here=False)


def rows():
    """Sums of rows by way of a temporary that lies in each worker's own memory."""
    a = te.placeholder((64, 256), name="a")
    doubled = te.compute((64, 256), lambda i, j: a(i, j) * 2.0, name="doubled")
    k = te.reduce_axis((0, 256), name="k")
    total = te.compute((64,), lambda i: te.sum(doubled(i, k), axis=k), name="total")
    schedule = te.create_schedule(total.op)
    (axis,) = schedule[total].op.axis
    schedule[total].parallel(axis)
    schedule[doubled].compute_at(schedule[total], axis)
    return te.lower(schedule, [a, total], name="rows")


@pytest.mark.parametrize("target", MACHINES)
def test_functions_compute_on_a_board_what_they_compute_here(board, target):
    with connect(*board(target).address) as remote:
        told = remote.describe()
        assert told["architecture"] == tw.Target(target).architecture and told["loads"] == LIBRARY
        library = remote.load_module(remote.upload(functions(target)), threads=2)
        values = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32)
        a, b = remote.array(values), remote.empty((SIZE,))
        library["double"](a, b)
        np.testing.assert_array_equal(b.numpy(), 2 * values)
        library["scaled"](a, b, -3, 0.25)
        np.testing.assert_allclose(b.numpy(), -3 * values + np.float32(0.25), rtol=1e-6, atol=1e-6)
        table = np.random.default_rng(1).standard_normal((64, 256)).astype(np.float32)
        total = remote.empty((64,))
        library["rows"](remote.array(table), total)
        np.testing.assert_allclose(total.numpy(), 2 * table.sum(1), rtol=1e-4, atol=1e-4)
        times = library.time_evaluator("double", number=3, repeat=4, min_repeat_ms=1)(a, b)
        assert len(times.results) == 4 and min(times.results) > 0


@pytest.mark.parametrize("target", MACHINES)
@pytest.mark.parametrize("make", [perceptron, convolution])
@pytest.mark.sample(2)
def test_a_model_computes_on_a_board_what_it_computes_here(board, target, make):
    here, there = tw.compile(make()), tw.compile(make(), target=target)
    generator = np.random.default_rng(0)
    inputs = {spec.name: generator.standard_normal(spec.static_shape).astype(spec.numpy) for spec in here.inputs}
    with connect(*board(target).address) as remote:
        model = remote.load_module(remote.upload(there))
        assert [str(spec) for spec in model.inputs] == [str(spec) for spec in here.inputs]
        for mine, theirs in zip(here.run(inputs), model.run(inputs), strict=True):
            np.testing.assert_allclose(theirs, mine, rtol=1e-5, atol=1e-6)
        assert len(model.time(inputs, repeat=3)) == 3
        with pytest.raises(UnsupportedError, match="a board without Python does not know profile"):
            model.profile(inputs)
        with pytest.raises(InputError, match="shape"):
            model.run({name: value[..., :1] for name, value in inputs.items()})


def test_turns_are_taken_and_copies_in_turn(board, start, library):
    """Of both kinds of worker: the seconds of each call and round, and another copy at each call."""
    for server, module in ((board(), functions(HERE)), (start(), library)):
        with connect(*server.address) as remote:
            loaded = remote.load_module(remote.upload(module))
            copies, b = [remote.array(np.full(SIZE, i, np.float32)) for i in range(3)], remote.empty((SIZE,))
            found = remote.turns([Turn(loaded, "double", [copies, b], 2), Turn(loaded, "double", [copies[0], b])], 5)
            assert [len(seconds) for seconds in found] == [5, 5] and min(map(min, found)) > 0
            remote.turns([Turn(loaded, "double", [copies, b], 3)], 1)
            assert b.numpy()[0] == 4.0  # the last of the three


def test_wrong_requests_are_refused_and_the_session_goes_on(board):
    with connect(*board().address) as remote:
        library = remote.load_module(remote.upload(functions(HERE)))
        a, b, short = (remote.empty((count,)) for count in (SIZE, SIZE, 3))
        narrow = remote.empty((SIZE,), "int32")
        for args, said in (
            ((a,), "takes 2 arguments"),
            ((a, short), "argument 2 is float32 of 12 bytes, not float32 of 4096"),
            ((a, narrow), "is int32 of"),
            ((a, 1), "is an array"),
        ):
            with pytest.raises(InputError, match=said):
                library["double"](*args)
        with pytest.raises(InputError, match="is a number"):
            library["scaled"](a, b, a, 1.0)
        with pytest.raises(InputError, match="different size"):
            b.copyfrom(short)
        for fields, said in (
            ({"verb": "call", "module": 99, "function": "f", "args": []}, "module 99 is not here"),
            ({"verb": "call", "module": library.number, "function": 'q"\\', "args": []}, 'no function q"'),
            ({"verb": "read", "array": 99}, "not on the device"),
            ({"verb": "run", "module": library.number, "inputs": []}, "a library of functions"),
            ({"verb": "allocate", "shape": [1 << 40, 1 << 40], "dtype": "int8"}, "no array that this device holds"),
            ({"verb": "allocate", "shape": [1], "dtype": "int4"}, "no array that this device holds"),
            ({"verb": "allocate", "shape": [1 << 44], "dtype": "int8"}, "no memory"),
            ({"verb": "turns", "runs": [3], "rounds": 1}, "is not here"),
            ({"verb": "turns", "runs": [], "rounds": 1 << 40}, "nothing to compare"),
        ):
            with pytest.raises((InputError, EnvironmentError_), match=said):
                remote.ask(**fields)
        b.copyfrom(a)
        with pytest.raises(ArtifactError, match="no library that this device loads"):
            remote.load_module(remote.upload(b"no library"))
        library["double"](a, b)


def test_a_worker_that_crashes_or_hangs_is_told_and_another_takes_its_position(board):
    server = board(limits=Limits(8 << 30, request_seconds=1.0))
    with connect(*server.address) as remote:
        digest = remote.upload(functions(HERE))
        library, x, y = remote.load_module(digest), remote.empty((2,)), remote.empty((2,))
        with pytest.raises(WorkerLost, match=r"longer than the 1 s") as late:
            library["spin"](x, y)
        assert late.value.how == "late"
        with pytest.raises(InputError, match="not on the device"):
            x.numpy()
        library, x, y = remote.load_module(digest), remote.empty((2,)), remote.empty((2,))
        (session,) = server._sessions
        pid = session._worker.process.pid
        threading.Timer(0.3, lambda: os.kill(pid, signal.SIGSEGV)).start()
        with pytest.raises(WorkerLost, match="SIGSEGV"):
            library["spin"](x, y)
        until(lambda: not alive(pid))
        remote.load_module(digest)["double"](remote.empty((SIZE,)), remote.empty((SIZE,)))


def test_a_server_that_is_closed_leaves_no_worker(board):
    server = board()
    remote = connect(*server.address)
    remote.load_module(remote.upload(functions(HERE)))
    (session,) = server._sessions
    pid = session._worker.process.pid
    server.close()
    until(lambda: not alive(pid))
    remote.close()


def test_its_worker_is_confined_like_any_other(board, start):
    with connect(*board().address) as ours, connect(*start().address) as theirs:
        for remote in (ours, theirs):
            remote.empty((1,))
        assert ours.describe()["measures"] == theirs.describe()["measures"]


def test_a_program_that_is_no_worker_is_one_error(start):
    with pytest.raises(EnvironmentError_, match="the worker process did not start"):
        start(board=Board("/bin/false"))
    with pytest.raises(EnvironmentError_, match="cannot run /nowhere/worker"):
        start(board=Board("/nowhere/worker"))


def test_the_worker_may_be_on_another_machine(start, programs):
    """A launcher as `ssh` would be: nothing of this machine but its standard input and output is used."""
    server = start(board=Board(programs(HERE), ("env", "-i"), elsewhere=True))
    with connect(*server.address) as remote:
        library = remote.load_module(remote.upload(functions(HERE)))
        a, b = remote.array(np.ones(SIZE, np.float32)), remote.empty((SIZE,))
        library["double"](a, b)
        assert b.numpy()[0] == 2.0 and remote.describe()["measures"] == {}


def test_what_a_board_cannot_run_is_refused_here(tmp_path):
    with pytest.raises(UnsupportedError, match="fixed sizes"):
        packed_for(tw.compile(perceptron("n")), LIBRARY)
    with pytest.raises(InputError, match="a board without Python runs models and modules"):
        packed_for(object(), LIBRARY)
    n = te.var("n")
    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a(i) * 2.0, name="b")
    symbolic = backend_of(tw.Target("cpu")).compiled([te.lower(te.create_schedule(b.op), [a, b], name="f")])
    with pytest.raises(UnsupportedError, match="do not take the parameter"):
        packed_for(symbolic, LIBRARY)
    assert packed_for(symbolic, ARTIFACT)[1:11] == b"TILEWRIGHT"


def test_texts_of_c_hold_any_text():
    assert _quoted('a"\\?\n\u00e9') == '"a\\042\\134\\077\\012\\303\\251"'


def test_a_device_of_python_refuses_a_library(start):
    with connect(*start().address) as remote, pytest.raises((ArtifactError, Refused)):
        remote.load_module(remote.upload(packed_for(functions(HERE), LIBRARY)))
