"""`tvm.rpc`: devices from afar, by this package's sessions, servers and tracker (docs/fleet.md).

    server = rpc.Server(key="board"); remote = rpc.connect(server.host, server.port)
    remote.upload("lib.tar"); function = remote.load_module("lib.tar")

Without certificates all of it stays on this machine; the folder that `TILEWRIGHT_RPC_BUNDLE` names holds those of a
program that reaches others, or is reached by them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright import rpc
from tilewright.compat.relay.executor import ExecutorFactory, load_module
from tilewright.compat.rpc.remote import RemoteDevice, RemoteFactory, RemoteModule, RemoteNDArray
from tilewright.compat.rpc.testing import offer_test_functions
from tilewright.compat.runtime.compiled_module import CompiledModule
from tilewright.compat.runtime.device import Device, device
from tilewright.compat.runtime.functions import get_global_func, with_arrays
from tilewright.compat.runtime.linked import is_object, load_linked, own_parts
from tilewright.errors import EnvironmentError_, InputError, RpcError, UnsupportedError
from tilewright.rpc.frames import spelled
from tilewright.rpc.identity import Bundle
from tilewright.rpc.leases import Leases
from tilewright.rpc.registration import Registration
from tilewright.rpc.server import Server as DeviceServer
from tilewright.rpc.server import Settings
from tilewright.rpc.tracker import Tracker as DeviceTracker
from tilewright.rpc.tracker import TrackerSettings
from tilewright.support.knobs import RPC_BUNDLE
from tilewright.support.named import named

#: Seconds that a request to a tracker waits for a device that is free.
_WAIT_SECONDS = 600.0


def _of_type(name: str) -> Callable[..., Device]:
    def make(self: _Devices, dev_id: int = 0) -> Device:
        return self.device(name, dev_id)

    return named(make, name, f"The device number `dev_id` of the type {name!r} there; modules run on processors only.")


class _Devices:
    """The devices of the machine that a session is with."""

    def device(self, dev_type: str | int, dev_id: int = 0) -> Device:
        """One of them, by the name or number of its type."""
        raise NotImplementedError

    cpu, cuda, cl, vulkan, metal, rocm, ext_dev = map(
        _of_type, ("cpu", "cuda", "opencl", "vulkan", "metal", "rocm", "ext_dev")
    )


def _upload_name(target: str | None) -> str:
    if not target:
        raise InputError("upload of bytes needs the name that they get there: upload(data, target=…)")
    return target


class RPCSession(_Devices):
    """A session with a device's server; it ends when nobody holds it, or after `seconds`."""

    def __init__(self, session: rpc.Session, seconds: float = 0) -> None:
        self.session = session
        self._uploads: dict[str, str] = {}
        self._end = weakref.finalize(self, session.close)
        if seconds:
            timer = threading.Timer(seconds, session.close)
            timer.daemon = True
            timer.start()

    def upload(self, data: Any, target: str | None = None) -> None:
        """Bring a file to the device, or bytes under the name `target`; `load_module` finds it by its name."""
        if isinstance(data, bytes | bytearray):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "blob"
                path.write_bytes(data)
                self._uploads[_upload_name(target)] = self._sent(path)
        else:
            self._uploads[target or os.path.basename(data)] = self._sent(data)

    def _sent(self, path: str | os.PathLike[str]) -> str:
        """The digest of a file that is there now; of an object or library, of the module or model within."""
        parts = own_parts(path) if is_object(path) else []
        if len(parts) != 1:
            return self.session.upload(load_linked(path) if is_object(path) else path)
        with tempfile.TemporaryDirectory() as folder:
            single = Path(folder) / "part"
            single.write_bytes(parts[0])
            return self.session.upload(single)

    def load_module(self, path: str) -> RemoteModule | RemoteFactory:
        """The module or model that was uploaded under that name, loaded there. Raises `InputError` for another name."""
        found = self.session.load_module(self._digest(path))
        return RemoteFactory(found) if isinstance(found, rpc.RemoteModel) else RemoteModule(found)

    def _digest(self, path: str) -> str:
        if path not in self._uploads:
            raise InputError(f"{path!r} was not uploaded in this session; it has: {', '.join(self._uploads) or 'none'}")
        return self._uploads[path]

    def download(self, path: str) -> bytearray:
        """The bytes of what was uploaded under that name. Raises `InputError` for another name."""
        return self.session.download(self._digest(path))

    #: A module needs no linker.
    download_linked_module = download

    def remove(self, path: str) -> None:
        """Forget the name of an upload; the device keeps files by their contents until it needs the room."""
        self._uploads.pop(path, None)

    def device(self, dev_type: str | int, dev_id: int = 0) -> Device:
        """A device of that machine, by the name or number of its type."""
        plain = device(dev_type, dev_id)
        return RemoteDevice(plain.device_type, plain.device_id, session=self.session)

    def get_function(self, name: str) -> Callable[..., Any]:
        """The function that the program of a classic `rpc.Server` has registered by that name, called there."""
        return _Function(self.session.function(name), RemoteDevice(self.cpu().device_type, 0, session=self.session))

    def system_lib(self) -> Any:
        """The module of what is linked into the server: no function at all."""
        return SystemLibrary()


class SystemLibrary:
    """The system library of a program that runs Python: empty."""

    def __getitem__(self, name: str) -> Any:
        raise AttributeError(f"the system library has no function {name!r}: modules are uploaded")


class _Function:
    """A function of another process, its arrays and functions as classic programs have them."""

    def __init__(self, there: rpc.RemoteFunction, device: RemoteDevice) -> None:
        self._there, self._device = there, device

    def __call__(self, *args: Any) -> Any:
        made = self._there(*[_given(arg) for arg in args])
        if isinstance(made, rpc.RemoteFunction):
            return _Function(made, self._device)
        return RemoteNDArray(made, self._device) if isinstance(made, rpc.RemoteArray) else made


def _given(arg: Any) -> Any:
    return getattr(arg, "there", getattr(arg, "_there", arg))


class LocalSession(_Devices):
    """A session with this process: the same calls, nothing sent anywhere."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="tilewright-local-session-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def _position(self, name: str) -> Path:
        return Path(self._folder) / os.path.basename(name)

    def upload(self, data: Any, target: str | None = None) -> None:
        """Copy a file into the session's folder, or write bytes there as `target`."""
        if isinstance(data, bytes | bytearray):
            self._position(_upload_name(target)).write_bytes(data)
        else:
            shutil.copyfile(data, self._position(target or os.fspath(data)))

    def download(self, path: str) -> bytearray:
        """The bytes of a file of the session. Raises `InputError` for another name."""
        if not self._position(path).is_file():
            raise InputError(
                f"the session has no file {path!r}; it has: {', '.join(os.listdir(self._folder)) or 'none'}"
            )
        return bytearray(self._position(path).read_bytes())

    #: A module needs no linker.
    download_linked_module = download

    def remove(self, path: str) -> None:
        """Delete a file of the session, if there is one."""
        self._position(path).unlink(missing_ok=True)

    def load_module(self, path: str) -> ExecutorFactory | CompiledModule:
        """The module or model of a file of the session."""
        return load_module(self._position(path))

    def device(self, dev_type: str | int, dev_id: int = 0) -> Device:
        """A device of this machine."""
        return device(dev_type, dev_id)

    def get_function(self, name: str) -> Any:
        """The function that `tvm.register_func` knows by that name."""
        offer_test_functions()
        return get_global_func(name)

    def system_lib(self) -> SystemLibrary:
        """The module of what is linked into this process: no function at all."""
        return SystemLibrary()


def connect(
    url: str,
    port: int,
    key: str = "",
    session_timeout: float = 0,
    session_constructor_args: Sequence[Any] | None = None,
) -> RPCSession:
    """A session with the server at an address; after `session_timeout` seconds, if any, it ends.

    `key` is ignored: certificates decide who may connect. Raises `UnsupportedError` for
    `session_constructor_args`, `RpcError` where nobody answers.
    """
    _refuse_constructor(session_constructor_args)
    return RPCSession(rpc.connect(url, port, bundle=RPC_BUNDLE.get()), session_timeout)


def _refuse_constructor(arguments: Sequence[Any] | None) -> None:
    if arguments:
        raise UnsupportedError("session_constructor_args: a session is with the server itself; connect to each device")


def _tried(times: int, call: Callable[[], Any]) -> Any:
    """The result of a call, begun again after an `RpcError`, `times` in all."""
    for _ in range(times - 1):
        with contextlib.suppress(RpcError):
            return call()
    return call()


def connect_tracker(url: str, port: int) -> TrackerSession:
    """The tracker at an address."""
    return TrackerSession((url, port))


class TrackerSession:
    """Asks a tracker for devices. Those who wait for one key are one user to it, as its queues are by key."""

    def __init__(self, addr: tuple[str, int]) -> None:
        self._address = addr
        self._tracker = rpc.connect_tracker(*addr, bundle=RPC_BUNDLE.get())

    def request(
        self,
        key: str,
        priority: int = 1,
        session_timeout: float = 0,
        max_retry: int = 5,
        session_constructor_args: Sequence[Any] | None = None,
    ) -> RPCSession:
        """A session with a free device of the kind `key`; one that does not answer is tried `max_retry` times.

        After `session_timeout` seconds, if any, the session ends. Raises `RpcError`.
        """
        _refuse_constructor(session_constructor_args)
        queue = rpc.connect_tracker(*self._address, bundle=RPC_BUNDLE.get(), user=key)
        return _tried(max_retry, lambda: RPCSession(queue.request(key, priority, wait=_WAIT_SECONDS), session_timeout))

    def request_and_run(
        self, key: str, func: Callable[[RPCSession], Any], priority: int = 1, session_timeout: float = 0,
        max_retry: int = 2,
    ) -> Any:  # fmt: skip
        """The result of `func(session)` on a device of the kind `key`; begun again elsewhere if the device is lost."""
        return _tried(max_retry, lambda: func(self.request(key, priority, session_timeout)))

    def summary(self) -> dict[str, Any]:
        """The devices, and for each key how many are free and how many requests wait."""
        status = self._tracker.status()
        there = [one for one in status["devices"] if one["state"] not in ("drained", "draining", "away")]
        waiting = {user["name"]: user["waiting"] for user in status["users"]}
        queues: dict[str, dict[str, int]] = {
            one["key"]: {"free": 0, "pending": waiting.get(one["key"], 0)} for one in status["devices"]
        }
        for one in there:
            queues[one["key"]]["free"] += one["state"] == "free"
        servers = [{"addr": list(one["address"]), "key": f"server:{one['key']}"} for one in there]
        return {"queue_info": queues, "server_info": servers}

    def text_summary(self) -> str:
        """The summary as two tables."""
        found = self.summary()
        servers = [
            f"{spelled(host, port)}\t{one['key']}" for one in found["server_info"] for host, port in [one["addr"]]
        ]
        totals = {
            key: sum(one["key"] == f"server:{key}" for one in found["server_info"]) for key in found["queue_info"]
        }
        queues = [f"{key}\t{totals[key]}\t{one['free']}\t{one['pending']}" for key, one in found["queue_info"].items()]
        return "\n".join(["server-address\tkey", *servers, "", "key\ttotal\tfree\tpending", *queues, ""])

    def close(self) -> None:
        """Nothing: each question is a visit of its own."""


class Server:
    """The server of a device, in threads of this process; what sessions run is in processes of its own.

    `port` to `port_end` are tried until one is free. With `tracker_addr` it registers there as a device of the kind
    `key`, which users reach at `custom_addr` if given. `silent` and `no_fork` make no difference: it prints nothing.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 9091,
        port_end: int = 9199,
        is_proxy: bool = False,
        tracker_addr: tuple[str, int] | None = None,
        key: str = "",
        load_library: str | None = None,
        custom_addr: str | None = None,
        silent: bool = False,
        no_fork: bool = False,
        server_init_callback: Callable[[], Any] | None = None,
    ) -> None:
        given: Mapping[str, Any] = {
            "is_proxy": is_proxy, "load_library": load_library, "server_init_callback": server_init_callback,
        }  # fmt: skip
        for name, value in given.items():
            if value:
                raise UnsupportedError(f"rpc.Server({name}=…): a server runs uploaded modules and nothing else")
        folder, bundle = tempfile.mkdtemp(prefix="tilewright-server-"), _bundle()
        name = f"{key or 'device'}-{secrets.token_hex(4)}"

        def listening(at: int) -> DeviceServer:
            settings = Settings(Path(folder), host, at, bundle, name, key, functions=_offered)
            return DeviceServer(settings, Leases(tracker_addr is not None))

        self._server = _first_free(listening, port, port_end)
        self.host, self.port = self._server.address
        self._tracker = tracker_addr
        self._registration: Registration | None = None
        if tracker_addr is not None:
            self._registration = Registration(self._server, *tracker_addr, RPC_BUNDLE.get(), custom_addr or "")
            self._registration.registered.wait(10.0)
        self._end = weakref.finalize(self, _close, self._server, self._registration, tracker_addr, folder)

    def terminate(self) -> None:
        """End all sessions, leave the tracker and stop listening."""
        self._end()


def _offered(name: str) -> Callable[..., Any] | None:
    """The function that this program has registered by that name, with arrays as `NDArray`s."""
    offer_test_functions()
    found = get_global_func(name, allow_missing=True)
    return None if found is None else with_arrays(found)


def server_env(load_library: Sequence[str], work_path: str | None = None) -> None:
    """Nothing to prepare: the functions of a server are registered with the first request."""


def _close(listener: Any, registration: Registration | None, tracker: Any, folder: str) -> None:
    """Close a server, which leaves the tracker that it is registered with, or a tracker."""
    if registration is not None:
        with contextlib.suppress(RpcError):  # it may be gone before its devices
            rpc.connect_tracker(*tracker, bundle=RPC_BUNDLE.get()).drain(listener.settings.name)
        registration.close()
    listener.close()
    shutil.rmtree(folder, ignore_errors=True)


class Tracker:
    """A tracker in threads of this process; `port` to `port_end` are tried until one is free. It prints nothing."""

    def __init__(self, host: str = "127.0.0.1", port: int = 9190, port_end: int = 9199, silent: bool = False) -> None:
        folder, bundle = tempfile.mkdtemp(prefix="tilewright-tracker-"), _bundle()

        def listening(at: int) -> DeviceTracker:
            return DeviceTracker(TrackerSettings(Path(folder), host, at, bundle))

        tracker = _first_free(listening, port, port_end)
        self.host, self.port = tracker.address
        self._end = weakref.finalize(self, _close, tracker, None, None, folder)

    def terminate(self) -> None:
        """Stop listening and end all connections."""
        self._end()


def _bundle() -> Bundle | None:
    folder = RPC_BUNDLE.get()
    return None if folder is None else Bundle(folder)


def _first_free(listening: Callable[[int], Any], port: int, port_end: int) -> Any:
    """The listener on the first free port from `port` on; raises `EnvironmentError_` if none before `port_end` is."""
    for at in range(port, max(port_end, port + 1)):
        try:
            return listening(at)
        except EnvironmentError_:
            if at + 1 >= port_end:
                raise
    raise AssertionError
