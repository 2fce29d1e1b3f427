"""A device's server: what a session can do, what it cannot, and that nothing of it is left."""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.onnx_models import perceptron
from tests.rpc.conftest import SIZE
from tilewright.errors import ArtifactError, EnvironmentError_, InputError, RpcError
from tilewright.rpc import connect
from tilewright.rpc.client import dial
from tilewright.rpc.frames import Channel, ConnectionLost
from tilewright.rpc.messages import DEVICE_VERBS, Refused
from tilewright.rpc.sandbox import Limits
from tilewright.rpc.store import digest_of
from tilewright.support.dtype import DType


def until(condition, seconds=60.0):
    """Wait for something that another thread or process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


def workers(server) -> list[int]:
    """The processes of sessions (one that was started ahead has no session yet)."""
    return [session._worker.process.pid for session in server._sessions if session._worker is not None]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except (ProcessLookupError, FileNotFoundError):  # it may end between the two
        return False


@pytest.fixture(params=["plaintext", "tls"])
def remote(request, start):
    """A session, over plaintext and over TLS."""
    if request.param == "plaintext":
        with connect(*start().address) as session:
            yield session
        return
    fleet = request.getfixturevalue("fleet")
    with connect(*start(fleet / "device-pi").address, bundle=fleet / "user-anna") as session:
        yield session


def test_functions_work_on_arrays_that_stay_on_the_device(remote, library):
    loaded = remote.load_module(remote.upload(library))
    a, b = remote.array(np.arange(SIZE, dtype=np.float32)), remote.empty((SIZE,))
    loaded["double"](a, b)
    np.testing.assert_array_equal(b.numpy(), 2.0 * np.arange(SIZE))
    b.copyfrom(a)
    np.testing.assert_array_equal(b.numpy(), np.arange(SIZE))
    times = loaded.time_evaluator("double", number=3, repeat=4, min_repeat_ms=1)(a, b)
    assert len(times.results) == 4 and 0 < times.min <= times.median


def test_a_model_runs_as_it_does_here(remote):
    exe = tw.compile(perceptron())
    model = remote.load_module(remote.upload(exe), threads=1)
    x = np.random.default_rng(0).standard_normal((1, 8)).astype(np.float32)
    np.testing.assert_array_equal(model(x), exe(x))
    np.testing.assert_array_equal(model.run({"x": x})[0], exe(x))
    assert len(model.time({"x": x}, repeat=3)) == 3
    assert model.profile({"x": x}) and str(model.inputs[0]) == str(exe.inputs[0])
    with pytest.raises(InputError, match="shape"):
        model(np.zeros((2, 8), np.float32))


@pytest.mark.sample(2)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint64", "bool", "float64"])
def test_arrays_of_all_kinds_come_back_as_they_went(start, dtype):
    with connect(*start().address) as remote:
        for shape in ((), (0, 3), (5,), (2, 3, 4)):
            values = (np.random.default_rng(1).random(shape) * 100).astype(DType(dtype).numpy)
            found = remote.array(values).numpy()
            assert found.dtype == values.dtype and found.shape == shape
            np.testing.assert_array_equal(found, values)


def test_a_second_upload_sends_nothing(start, library, tmp_path):
    library.save(tmp_path / "m")
    with connect(*start().address) as remote:
        digest = remote.upload(tmp_path / "m")
        sent = []
        remote._send_file = lambda *args: sent.append(args)
        assert remote.upload(tmp_path / "m") == digest and not sent


def test_an_upload_comes_back_to_who_knows_its_digest(remote, tmp_path):
    contents = os.urandom((3 << 20) + 5)
    digest = remote.upload(contents)
    assert remote.download(digest) == contents
    (tmp_path / "empty").write_bytes(b"")
    assert remote.download(remote.upload(tmp_path / "empty")) == b""
    for wrong, said in (("0" * 64, "nothing was uploaded"), ("../../etc/passwd", "is no digest")):
        with pytest.raises(InputError, match=said):
            remote.download(wrong)
    assert remote.download(digest) == contents


def test_an_upload_with_another_digest_is_not_kept(start, tmp_path):
    (tmp_path / "m").write_bytes(b"x" * 1000)
    server = start()
    with connect(*server.address) as remote:
        with open(tmp_path / "m", "rb") as file, pytest.raises(InputError, match="another digest"):
            remote._send_file(file, "0" * 64)
        assert not list(server.store.folder.iterdir())
        remote.upload(tmp_path / "m")  # the connection goes on


def test_an_upload_that_breaks_off_leaves_nothing(start):
    server = start()
    remote = connect(*server.address)
    remote.channel.send_head({"verb": "put", "id": 5, "digest": "0" * 64}, 1 << 20)
    remote.channel.send_bytes(b"x" * 1000)
    remote.close()
    until(lambda: not server._sessions)
    assert not list(server.store.folder.iterdir())


def test_the_store_forgets_what_was_not_used_for_longest(start, tmp_path):
    server = start(store_bytes=2500)
    with connect(*server.address) as remote:
        for i in range(3):
            (tmp_path / str(i)).write_bytes(bytes([i]) * 1000)
            os.utime(remote_path(server, remote.upload(tmp_path / str(i))), (i, i))
        held = {path.name for path in server.store.folder.iterdir()}
        assert held == {digest_of(tmp_path / "1"), digest_of(tmp_path / "2")}
        (tmp_path / "large").write_bytes(b"x" * 3000)
        with pytest.raises(InputError, match="more than this device stores"):
            remote.upload(tmp_path / "large")


def remote_path(server, digest):
    return server.store.folder / digest


def test_a_full_disk_is_told_and_the_connection_goes_on(start, tmp_path, monkeypatch):
    (tmp_path / "m").write_bytes(b"x" * 5000)
    monkeypatch.setattr("tilewright.rpc.store._written", lambda file, part: OSError(28, "No space left on device"))
    with connect(*start().address) as remote:
        with pytest.raises(EnvironmentError_, match="No space left"):
            remote.upload(tmp_path / "m")
        assert remote.describe()["architecture"]


@pytest.mark.parametrize(
    "contents, said", [(b"", "truncated|empty|not a Tilewright"), (b"hello" * 100, "not a Tilewright artifact")]
)
def test_what_is_no_artifact_is_refused_and_the_session_goes_on(start, tmp_path, contents, said):
    (tmp_path / "m").write_bytes(contents)
    with connect(*start().address) as remote:
        with pytest.raises(ArtifactError, match=said):
            remote.load_module(remote.upload(tmp_path / "m"))
        assert remote.empty((3,)).numpy().shape == (3,)


def test_a_worker_that_crashes_is_told_and_another_takes_its_position(start, library):
    server = start()
    with connect(*server.address) as remote:
        digest = remote.upload(library)
        loaded, array = remote.load_module(digest), remote.empty((SIZE,))
        (pid,) = workers(server)
        os.kill(pid, signal.SIGSEGV)
        with pytest.raises(Refused, match="SIGSEGV"):
            loaded["double"](array, array)
        until(lambda: not alive(pid))
        with pytest.raises(InputError, match="is not here"):
            loaded["double"](array, array)
        with pytest.raises(InputError, match="not on the device"):
            array.numpy()
        remote.load_module(digest)["double"](remote.empty((SIZE,)), remote.empty((SIZE,)))


def test_a_request_that_takes_too_long_is_ended(start, library):
    server = start(limits=Limits(4 << 30, request_seconds=3.0))
    with connect(*server.address) as remote:
        loaded = remote.load_module(remote.upload(library))
        x, y = remote.empty((2,)), remote.empty((2,))
        (pid,) = workers(server)
        with pytest.raises(Refused, match=r"longer than the 3 s"):
            loaded["spin"](x, y)
        until(lambda: not alive(pid))


def test_a_call_can_be_cancelled(start, library):
    server = start()
    with connect(*server.address) as remote:
        loaded = remote.load_module(remote.upload(library))
        x, y = remote.empty((2,)), remote.empty((2,))
        (pid,) = workers(server)
        over = threading.Event()

        def cancel():
            while not over.wait(0.3):  # again, as the first may come before the call
                remote.cancel()

        threading.Thread(target=cancel).start()
        with pytest.raises(Refused, match="it was cancelled"):
            loaded["spin"](x, y)
        over.set()
        until(lambda: not alive(pid))


def test_a_client_that_dies_frees_the_device(start, library):
    server = start()
    gone = connect(*server.address)
    loaded = gone.load_module(gone.upload(library))
    x, y = gone.empty((2,)), gone.empty((2,))
    (pid,) = workers(server)

    ended = []

    def spin():
        try:
            loaded["spin"](x, y)
        except ConnectionLost as problem:
            ended.append(problem)

    threading.Thread(target=spin).start()
    time.sleep(0.2)
    gone.channel.socket.shutdown(socket.SHUT_RDWR)  # as when its process is killed
    with connect(*server.address, seconds=30.0) as other:
        other.load_module(other.upload(library))
    assert not alive(pid)
    until(lambda: len(ended) == 1)
    until(lambda: not list((server.settings.folder / "sessions").glob("worker-*")) or server._spare)


def test_a_stopped_worker_is_ended_with_its_request(start, library):
    server = start(limits=Limits(4 << 30, request_seconds=3.0))
    with connect(*server.address) as remote:
        loaded = remote.load_module(remote.upload(library))
        a = remote.empty((SIZE,))
        (pid,) = workers(server)
        os.kill(pid, signal.SIGSTOP)
        with pytest.raises(Refused, match="longer than"):
            loaded["double"](a, a)
        until(lambda: not alive(pid))


def test_sessions_take_turns(start, library):
    server = start()
    first, second = connect(*server.address), connect(*server.address)
    first.load_module(first.upload(library))
    done = []
    waiting = threading.Thread(target=lambda: done.append(second.load_module(second.upload(library))))
    waiting.start()
    time.sleep(0.4)
    assert not done and second.name
    first.close()
    waiting.join(60)
    assert done
    second.close()


def test_closing_the_server_leaves_no_process(start, library):
    server = start()
    remote = connect(*server.address)
    remote.load_module(remote.upload(library))
    pids = workers(server)
    server.close()
    until(lambda: not any(map(alive, pids)))
    with pytest.raises(RpcError):
        remote.describe()
    until(lambda: not list((server.settings.folder / "sessions").iterdir()))


def test_only_listed_verbs_and_fields_are_taken(start):
    with connect(*start().address) as remote:
        for request, said in (
            ({"verb": "__class__", "id": 1}, "there is no verb"),
            ({"verb": "serve", "id": 1}, "there is no verb"),
            ({"verb": "have", "id": 1, "digest": 3, "bytes": 1}, "cannot be 3"),
            ({"verb": "have", "id": 1, "digest": "0"}, "needs 'bytes'"),
            ({"verb": "describe", "id": 1, "path": "/etc"}, "has no 'path'"),
            ({"verb": "describe"}, "has no id"),
            ({"verb": "load", "id": 1, "digest": "../../etc/passwd"}, "is no digest"),
            ({"verb": "load", "id": 1, "digest": "0" * 64}, "nothing was uploaded"),
            ({"verb": "allocate", "id": 1, "shape": [-1], "dtype": "float32"}, "is no shape"),
            ({"verb": "allocate", "id": 1, "shape": [1], "dtype": "object"}, "no data type|only numbers"),
            ({"verb": "allocate", "id": 1, "shape": [1 << 40, 1 << 40], "dtype": "int8"}, "no memory|too big|Maximum"),
            ({"verb": "run", "id": 1, "module": 1, "inputs": [3]}, "Error|not here"),
        ):  # fmt: skip
            remote.channel.send(request)
            message, _ = remote.channel.receive(20.0)
            assert "error" in message, request
            assert re.search(said, message["error"]["text"]), message
        assert remote.describe()["busy"] is True  # after all that, the session still has the device


def test_a_session_begins_with_hello(start):
    for request in ({"verb": "describe"}, {"verb": "allocate", "shape": [1], "dtype": "int8"}):
        assert request["verb"] in DEVICE_VERBS
        connection, _ = dial(*start().address, None, ("device",))
        channel = Channel(connection, "device")
        channel.send({"id": 1, **request})
        assert "begins with 'hello'" in channel.receive(5.0)[0]["error"]["text"]
        with pytest.raises(ConnectionLost):
            channel.receive(5.0)
        channel.close()


def test_too_much_memory_is_one_error(start):
    with connect(*start(limits=Limits(2 << 30)).address) as remote:
        with pytest.raises(EnvironmentError_, match="no memory"):
            remote.empty((4 << 30,), "int8")
        assert remote.empty((4,), "int8").numpy().shape == (4,)


def test_without_certificates_only_this_machine_connects(start):
    with pytest.raises(InputError, match="only this machine itself"):
        start(host="0.0.0.0")
    with pytest.raises(InputError, match="only this machine itself"):
        connect("192.0.2.1", 9090)


def test_nobody_there_is_one_error():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(RpcError, match=f"no server answers at 127.0.0.1:{port}"):
        connect("127.0.0.1", port)


def test_uploaded_code_sees_neither_network_nor_files(start, library, tmp_path):
    """All of the confinement that the machine allows is on; that it holds is tested in test_sandbox."""
    with connect(*start().address) as remote:
        remote.load_module(remote.upload(library))
        measures = remote.describe()["measures"]
    assert set(measures) == {"limits", "network", "user", "files", "calls"}
    assert measures["limits"] == "on"
    assert all(how == "on" or how.startswith("off: ") for how in measures.values())


def test_a_relative_folder_takes_uploads(start, library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = start(folder=Path("state"))
    with connect(*server.address) as remote:
        assert remote.load_module(remote.upload(library)) is not None
    assert (tmp_path / "state" / "store").is_dir()


def test_what_confines_sessions_is_known_before_any(start):
    assert set(start().confinement()) == {"limits", "network", "user", "files", "calls"}


def test_a_second_server_leaves_the_folder_of_the_first_alone(start, library, tmp_path):
    first = start(folder=tmp_path / "shared")
    with pytest.raises(InputError, match=r"used by another server.*--folder"):
        start(folder=tmp_path / "shared")
    with connect(*first.address) as remote:
        assert remote.load_module(remote.upload(library)) is not None
    first.close()
    assert start(folder=tmp_path / "shared").address
