"""Classic programs on devices from afar: a server, a tracker and sessions on this machine's loopback."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.compat import __main__ as compat_program
from tilewright.errors import EnvironmentError_, InputError, RpcError, UnsupportedError


def _eventually(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for what another thread or process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def _add_one(path: Path, n: int = 64) -> str:
    """A library with `add_one`, of vectors of `n`."""
    import tvm
    from tvm import te

    a = te.placeholder((n,), name="a")
    b = te.compute((n,), lambda i: a[i] + 1.0, name="b")
    tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="add_one").export_library(path)
    return str(path)


@pytest.fixture
def server() -> Iterator[Any]:
    from tvm import rpc

    made = rpc.Server("127.0.0.1", 9300, 9400, key="board")
    yield made
    made.terminate()


@pytest.fixture(params=["server", "local"])
def remote(request: pytest.FixtureRequest) -> Any:
    """A session with a server, and with this process."""
    from tvm import rpc

    if request.param == "local":
        return rpc.LocalSession()
    found = request.getfixturevalue("server")
    return rpc.connect(found.host, found.port, key="board")


def test_a_library_runs_where_the_session_is(remote: Any, tmp_path: Path) -> None:
    import tvm

    remote.upload(_add_one(tmp_path / "lib.tar"))
    func = remote.load_module("lib.tar")
    dev, x = remote.cpu(), np.random.default_rng(0).random(64, dtype="float32")
    a, b = tvm.nd.array(x, dev), tvm.nd.array(np.zeros(64, "float32"), dev)
    func(a, b)
    np.testing.assert_array_equal(b.numpy(), x + 1)
    func["add_one"](b, a)
    np.testing.assert_array_equal(a.numpy(), x + 2)
    times = func.time_evaluator(func.entry_name, dev, number=3, repeat=2)(a, b)
    assert len(times.results) == 2 and 0 < times.min <= times.mean
    with pytest.raises(InputError, match="no function 'sub'"):
        func["sub"]
    with pytest.raises(InputError, match=r"upload of bytes needs the name"):
        remote.upload(b"abc")


def test_a_network_runs_where_the_session_is(remote: Any, tmp_path: Path) -> None:
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    rng = np.random.default_rng(1)
    x, w = rng.random((4, 8), dtype="float32"), rng.random((3, 8), dtype="float32")
    data, weight = relay.var("data", shape=(4, 8)), relay.var("weight", shape=(3, 8))
    mod = tvm.IRModule.from_expr(relay.Function([data, weight], relay.nn.relu(relay.nn.dense(data, weight))))
    relay.build(mod, "llvm", params={"weight": w}).export_library(tmp_path / "net.tar")
    remote.upload(str(tmp_path / "net.tar"), "renamed.tar")
    dev = remote.cpu(0)
    module = graph_executor.GraphModule(remote.load_module("renamed.tar")["default"](dev))
    module.set_input("data", tvm.nd.array(x, dev))
    module.run()
    np.testing.assert_allclose(module.get_output(0).numpy(), np.maximum(x @ w.T, 0), rtol=1e-5)
    assert len(module.module.time_evaluator("run", dev, number=2, repeat=3)().results) == 3
    assert module.benchmark(dev, repeat=2, number=2, end_to_end=True).min > 0
    assert module.benchmark(dev, repeat=1, number=1, min_repeat_ms=1).min > 0


def test_a_program_of_the_virtual_machine_runs_where_the_session_is(remote: Any, tmp_path: Path) -> None:
    import tvm
    from tvm import relay
    from tvm.runtime.vm import VirtualMachine

    x = relay.var("x", shape=(relay.Any(), 3))
    compiled = relay.vm.compile(tvm.IRModule.from_expr(relay.Function([x], x + x)), target="llvm")
    compiled.mod.export_library(tmp_path / "vm.so")
    remote.upload(str(tmp_path / "vm.so"))
    machine = VirtualMachine(remote.load_module("vm.so"), remote.cpu())
    for rows in (1, 5):
        given = np.random.default_rng(rows).random((rows, 3), dtype="float32")
        found = machine.invoke("main", tvm.nd.array(given, remote.cpu()))
        np.testing.assert_array_equal(found.numpy(), given + given)


def test_objects_that_save_wrote_are_uploaded(server: Any, tmp_path: Path) -> None:
    import tvm
    from tvm import rpc, te
    from tvm.contrib import cc

    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] * 3.0, name="b")
    tvm.build(te.create_schedule(b.op), [a, b], "llvm", name="triple").save(str(tmp_path / "triple.o"))
    remote = rpc.connect(server.host, server.port)
    names = ["triple.o"]
    if tvm.testing.device_enabled("llvm") and cc.get_cc():
        cc.create_shared(str(tmp_path / "triple.so"), [str(tmp_path / "triple.o")])
        names.append("triple.so")
    for name in names:
        remote.upload(str(tmp_path / name))
        x, y = tvm.nd.array(np.arange(8, dtype="float32"), remote.cpu()), tvm.nd.empty((8,), device=remote.cpu())
        remote.load_module(name)(x, y)
        np.testing.assert_array_equal(y.numpy(), np.arange(8) * 3)


def test_remote_arrays_are_arrays(server: Any) -> None:
    import tvm
    from tvm import rpc

    remote = rpc.connect(server.host, server.port)
    dev, values = remote.device("cpu", 0), np.arange(12, dtype="int16").reshape(3, 4)
    a = tvm.nd.array(values, dev)
    assert str(a.device).startswith("remote[") and a.shape == (3, 4) and str(a.dtype) == "int16" and a.nbytes == 24
    np.testing.assert_array_equal(a[1:], values[1:])
    a[0] = 7
    b = a.copyto(tvm.nd.empty((3, 4), "int16", dev))
    np.testing.assert_array_equal(np.asarray(b), np.concatenate([[[7] * 4], values[1:]]))
    here = a.copyto(tvm.cpu())
    np.testing.assert_array_equal(here.numpy(), b.numpy())
    np.testing.assert_array_equal(np.from_dlpack(a), here.numpy())
    dev.sync()
    with pytest.raises(InputError, match=r"remote\[.*\]:opencl\(0\) takes no arrays"):
        tvm.nd.array(values, remote.cl())


def test_functions_that_the_program_registered_by_name(server: Any) -> None:
    import tvm
    from tvm import rpc

    @tvm.register_func("tests.rpc.scale", override=True)
    def scale(array: Any, factor: int) -> Any:
        array[:] = array.numpy() * factor
        return lambda: array

    remote = rpc.connect("127.0.0.1", server.port)
    a = tvm.nd.array(np.ones((2, 3), "float32"), remote.cpu(0))
    back = remote.get_function("tests.rpc.scale")(a, 3)()
    np.testing.assert_array_equal(a.numpy(), np.full((2, 3), 3.0))
    np.testing.assert_array_equal(back.numpy(), a.numpy())
    assert str(back.device).startswith("remote")
    with pytest.raises(RpcError, match=r"offers no function 'os\.system'"):
        remote.get_function("os.system")
    with pytest.raises(AttributeError, match="uploaded"):
        remote.system_lib()["f"]


def test_what_a_session_does_not_do_is_refused(server: Any, tmp_path: Path) -> None:
    import tvm
    from tvm import rpc

    remote = rpc.connect(server.host, server.port)
    remote.upload(_add_one(tmp_path / "lib.tar"))
    func, here = remote.load_module("lib.tar"), tvm.nd.array(np.zeros(64, "float32"))
    with pytest.raises(InputError, match="argument 0 is an array of this machine, and the function runs on another"):
        func(here, here)
    with pytest.raises(InputError, match=r"'other.tar' was not uploaded in this session; it has: lib.tar"):
        remote.load_module("other.tar")
    remote.remove("lib.tar")
    for action in (remote.load_module, remote.download, remote.download_linked_module):
        with pytest.raises(InputError, match=r"'lib.tar' was not uploaded"):
            action("lib.tar")
    for refused in (
        lambda: func.time_evaluator("add_one", f_preproc="cache_flush_cpu_non_first_arg"),
        lambda: rpc.connect(server.host, server.port, session_constructor_args=["rpc.Connect"]),
        lambda: rpc.Server(load_library="a.so"), lambda: rpc.PopenSession("a.out"),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError):
            refused()
    with pytest.raises(InputError, match="without certificates only this machine itself may connect"):
        rpc.Server("0.0.0.0")
    with pytest.raises(RpcError, match="no server answers"):
        rpc.connect("127.0.0.1", 1)
    with pytest.raises(EnvironmentError_, match="cannot listen"):
        rpc.Server("127.0.0.1", server.port, server.port + 1)


def test_what_was_uploaded_comes_back(remote: Any, tmp_path: Path) -> None:
    import tvm

    blob = bytearray(np.random.default_rng(5).integers(0, 256, 3 << 20, dtype=np.uint8))
    remote.upload(blob, "data.bin")
    assert remote.download("data.bin") == blob
    remote.upload(_add_one(tmp_path / "lib.tar"))
    (tmp_path / "again.so").write_bytes(remote.download_linked_module("lib.tar"))
    a, b = tvm.nd.array(np.arange(64, dtype="float32")), tvm.nd.empty((64,))
    tvm.runtime.load_module(str(tmp_path / "again.so"))(a, b)
    np.testing.assert_array_equal(b.numpy(), np.arange(64) + 1)


def test_a_local_session_keeps_files(tmp_path: Path) -> None:
    import tvm
    from tvm import rpc

    local = rpc.LocalSession()
    local.upload(bytearray(b"123"), "data.bin")
    assert local.download("data.bin") == bytearray(b"123")
    local.remove("data.bin")
    with pytest.raises(InputError, match=r"no file 'data.bin'"):
        local.download("data.bin")
    tvm.register_func("tests.rpc.twice", lambda x: 2 * x, override=True)
    assert local.get_function("tests.rpc.twice")(21) == 42


def test_a_session_ends_after_its_time(server: Any) -> None:
    from tvm import rpc

    remote = rpc.connect(server.host, server.port, session_timeout=0.2)

    def ended() -> bool:
        try:
            remote.cpu().sync()
        except (RpcError, OSError):
            return True
        return False

    _eventually(ended)


@pytest.fixture
def tracker() -> Iterator[Any]:
    from tvm.rpc.tracker import Tracker

    made = Tracker("127.0.0.1", 9400, 9500)
    yield made
    made.terminate()


def test_a_tracker_gives_devices_out(tracker: Any, tmp_path: Path) -> None:
    import tvm
    from tvm import rpc

    address = ("127.0.0.1", tracker.port)
    first = rpc.Server("127.0.0.1", 9500, 9600, key="board", tracker_addr=address)
    second = rpc.Server("127.0.0.1", 9500, 9600, key="board", tracker_addr=address, custom_addr="localhost")
    client = rpc.connect_tracker(*address)
    assert client.summary()["queue_info"] == {"board": {"free": 2, "pending": 0}}
    assert {tuple(one["addr"]) for one in client.summary()["server_info"]} == {
        ("127.0.0.1", first.port), ("localhost", second.port)
    }  # fmt: skip
    assert "server:board" in client.text_summary() and "board\t2\t2\t0" in client.text_summary()
    remote = client.request("board", session_timeout=60)
    assert client.summary()["queue_info"]["board"]["free"] == 1
    remote.upload(_add_one(tmp_path / "lib.so"))
    out = tvm.nd.empty((64,), device=remote.cpu())
    remote.load_module("lib.so")(tvm.nd.array(np.ones(64, "float32"), remote.cpu()), out)
    np.testing.assert_array_equal(out.numpy(), np.full(64, 2))
    del remote, out
    _eventually(lambda: client.summary()["queue_info"]["board"]["free"] == 2)
    assert client.request_and_run("board", lambda session: str(session.cpu())).startswith("remote[board-")
    first.terminate()
    assert [tuple(one["addr"]) for one in client.summary()["server_info"]] == [("localhost", second.port)]
    second.terminate()
    assert client.summary()["queue_info"]["board"]["free"] == 0


@contextlib.contextmanager
def _program(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`python -m tvm.exec.…` in a process of its own, and the first line that it says."""
    command = [sys.executable, "-m", "tilewright.compat", "-m", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        try:
            yield running, running.stdout.readline()
        finally:
            running.terminate()


def test_the_classic_programs_make_a_fleet(tmp_path: Path) -> None:
    import tvm
    from tvm import rpc

    with _program("tvm.exec.rpc_tracker", "--port", "9800", "--port-end", "9850") as (tracker, line):
        address = line.split()[-1]
        host, port = address.split(":")
        words = ("tvm.exec.rpc_server", "--port", "9850", "--port-end", "9900", "--key", "board", "--tracker", address)
        with _program(*words) as (server, said):
            assert said.startswith("server on 127.0.0.1:")
            with _program("tvm.exec.query_rpc_tracker", "--host", host, "--port", port) as (query, first):
                assert query.stdout is not None
                told = query.stdout.read()
                assert address in first and "server:board" in told and "board\t1\t1\t0" in told
            assert query.returncode == 0
            remote = rpc.connect_tracker(host, int(port)).request("board")
            remote.upload(_add_one(tmp_path / "lib.so"))
            out = tvm.nd.empty((64,), device=remote.cpu())
            remote.load_module("lib.so")(tvm.nd.array(np.ones(64, "float32"), remote.cpu()), out)
            np.testing.assert_array_equal(out.numpy(), np.full(64, 2))
        assert server.returncode == 0  # stopped, it ends its sessions and leaves the tracker
        with pytest.raises(RpcError):
            remote.cpu().sync()
        assert rpc.connect_tracker(host, int(port)).summary()["queue_info"]["board"]["free"] == 0
    assert tracker.returncode == 0


@pytest.mark.parametrize(
    "words, said",
    [
        (("tvm.exec.rpc_server", "--tracker", "127.0.0.1:9"), "--tracker needs --key"),
        (("tvm.exec.rpc_server", "--host", "0.0.0.0"), "without certificates only this machine"),
        (("tvm.exec.rpc_server", "--load-library", "a.so"), "runs uploaded modules and nothing else"),
        (("tvm.exec.rpc_server", "--tracker", "nowhere", "--key", "k"), "is no address; write HOST:PORT"),
        (("tvm.exec.rpc_sever",), "did you mean 'rpc_server'"),
    ],
)
def test_a_program_that_cannot_run_says_why(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [])
    try:
        code: Any = compat_program.main(["-m", *words])
    except SystemExit as end:
        code = end.code
    assert code == 2 and said in capsys.readouterr().err


def test_a_template_is_tuned_on_devices_of_a_tracker(tracker: Any, tmp_path: Path) -> None:
    from tvm import autotvm, rpc
    from tvm.testing.autotvm import get_sample_task

    address = ("127.0.0.1", tracker.port)
    server = rpc.Server("127.0.0.1", 9600, 9700, key="board", tracker_addr=address)
    task, _ = get_sample_task(n=32)
    runner = autotvm.RPCRunner("board", *address, number=1, repeat=2, cooldown_interval=0)
    log = tmp_path / "tuned.log"
    tuner = autotvm.tuner.GridSearchTuner(task)
    option = autotvm.measure_option(builder=autotvm.LocalBuilder(), runner=runner)
    tuner.tune(n_trial=3, measure_option=option, callbacks=[autotvm.callback.log_to_file(str(log))])
    results = [result for _, result in autotvm.record.load_from_file(str(log))]
    assert len(results) == 3 and tuner.best_flops > 0
    assert all(result.error_no == 0 and len(result.costs) == 2 and min(result.costs) > 0 for result in results)
    with pytest.raises(UnsupportedError, match="neither enable_cpu_cache_flush nor module_loader"):
        autotvm.RPCRunner("board", *address, enable_cpu_cache_flush=True)
    server.terminate()


def test_programs_with_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography", reason="certificates are made by cryptography, which is not installed")
    import tvm
    from tvm import rpc

    from tilewright.rpc.identity import make_authority, make_bundle

    make_authority(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_RPC_BUNDLE", str(make_bundle(tmp_path, "device", "pi")))
    server = rpc.Server("127.0.0.1", 9700, 9800)
    monkeypatch.setenv("TILEWRIGHT_RPC_BUNDLE", str(make_bundle(tmp_path, "user", "anna")))
    remote = rpc.connect(server.host, server.port)
    values = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(tvm.nd.array(values, remote.cpu()).numpy(), values)
    server.terminate()
