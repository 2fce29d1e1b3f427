"""The service of the Open Inference Protocol over gRPC, on the event loop of the server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tilewright.errors import EnvironmentError_, UserError
from tilewright.serving.grpc.inference import inputs, parameters, response, wanted
from tilewright.serving.grpc.messages import SERVICE, messages
from tilewright.serving.models.batches import Request
from tilewright.serving.models.core import Core
from tilewright.serving.models.datatypes import NUMPY
from tilewright.serving.models.errors import RequestError
from tilewright.serving.models.packages import package

#: Statuses of HTTP as gRPC's codes; others are INTERNAL.
_CODES = {
    400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 413: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED",
}  # fmt: skip
_TYPE_NUMBERS = {f"TYPE_{'STRING' if name == 'BYTES' else name}": number for number, name in enumerate(NUMPY, 1)}


async def start_grpc(core: Core, host: str, port: int) -> tuple[Any, int]:
    """A server that listens, and its port. Raises `EnvironmentError_` without gRPC."""
    grpc, aio = package("grpc"), package("grpc.aio")
    limits = core.limits
    options = (
        ("grpc.max_receive_message_length", limits.body),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_metadata_size", limits.headers),
        ("grpc.max_concurrent_streams", 1024),
        ("grpc.max_connection_idle_ms", int(limits.idle_seconds * 1000)),
        ("grpc.server_handshake_timeout_ms", int(limits.head_seconds * 1000)),
        ("grpc.keepalive_time_ms", 30_000),
        ("grpc.keepalive_timeout_ms", int(limits.stall_seconds * 1000)),
        ("grpc.so_reuseport", 0),
    )
    server = aio.server(options=options, maximum_concurrent_rpcs=2 * limits.connections)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, _handlers(core, grpc)),))
    try:
        bound = server.add_insecure_port(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except RuntimeError as error:
        raise EnvironmentError_(f"cannot listen at {host}:{port}, for gRPC: {error}") from None
    await server.start()
    return server, bound


def _handlers(core: Core, grpc: Any) -> dict[str, Any]:
    """A handler for each method of the service."""
    service, made = Service(core, grpc), messages()
    handlers = {}
    for name, method in service.methods.items():
        streams = name == "ModelStreamInfer"
        request = made["ModelInferRequest" if streams else f"{name}Request"]
        kind = grpc.stream_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
        handlers[name] = kind(method, request.FromString, made[f"{name}Response"].SerializeToString)
    return handlers


class Service:
    """The methods of the service by name."""

    def __init__(self, core: Core, grpc: Any) -> None:
        self._core, self._grpc, self._messages = core, grpc, messages()
        plain: dict[str, Callable[[Any], Any]] = {
            "ServerLive": lambda _: {"live": True},
            "ServerReady": lambda _: {"ready": core.ready},
            "ModelReady": lambda r: {"ready": core.model_ready(r.name, r.version)},
            "ServerMetadata": lambda _: core.server_metadata(),
            "ModelMetadata": lambda r: core.model_metadata(r.name, r.version),
            "ModelConfig": self._config,
            "ModelStatistics": lambda r: core.statistics(r.name, r.version),
            "RepositoryIndex": self._index,
            "RepositoryModelLoad": lambda r: core.load(r.model_name, parameters(r.parameters)),
            "RepositoryModelUnload": lambda r: core.unload(r.model_name),
            "SystemSharedMemoryStatus": self._regions,
            "SystemSharedMemoryRegister": self._register,
            "SystemSharedMemoryUnregister": self._unregister,
        }
        self.methods: dict[str, Any] = {name: self._method(name, work) for name, work in plain.items()}
        self.methods |= {"ModelInfer": self._infer, "ModelStreamInfer": self._stream}

    def _method(self, name: str, work: Callable[[Any], Any]) -> Callable[[Any, Any], Awaitable[Any]]:
        """A handler that answers with the data that `work` returns, which may be awaited."""
        answer = self._messages[f"{name}Response"]

        async def handle(message: Any, context: Any) -> Any:
            try:
                data = work(message)
                if asyncio.iscoroutine(data):
                    data = await data
            except UserError as error:
                await self._abort(context, error)
            return answer(**(data or {}))

        return handle

    def _config(self, message: Any) -> dict[str, Any]:
        config = self._core.model_config(message.name, message.version)
        for one in (*config["input"], *config["output"]):
            one["data_type"] = _TYPE_NUMBERS[one["data_type"]]
        return {"config": config}

    def _index(self, message: Any) -> dict[str, Any]:
        rows = self._core.repository.index()
        return {"models": [row for row in rows if row["state"] == "READY" or not message.ready]}

    def _regions(self, message: Any) -> dict[str, Any]:
        self._core.check_trusted("share memory")
        status = self._messages["RegionStatus"]
        return {"regions": {one["name"]: status(**one) for one in self._core.memory.status(message.name)}}

    def _register(self, message: Any) -> None:
        self._core.check_trusted("share memory")
        self._core.memory.register(message.name, message.key, message.offset, message.byte_size)

    def _unregister(self, message: Any) -> None:
        self._core.check_trusted("share memory")
        self._core.memory.unregister(message.name)

    async def _infer(self, message: Any, context: Any) -> Any:
        try:
            return await self._inference(message, context.time_remaining())
        except UserError as error:
            await self._abort(context, error)

    async def _stream(self, incoming: Any, context: Any) -> AsyncIterator[Any]:
        """Answer each request of a stream in order; an error is an answer too."""
        answer = self._messages["ModelStreamInferResponse"]
        async for message in incoming:
            try:
                yield answer(infer_response=await self._inference(message, context.time_remaining()))
            except UserError as error:
                failed = self._messages["ModelInferResponse"](id=message.id)
                yield answer(error_message=str(error), infer_response=failed)

    async def _inference(self, message: Any, remaining: float | None) -> Any:
        core = self._core
        version = core.repository.find(message.model_name, message.model_version)
        size = message.ByteSize()
        core.reserve(size)
        request = _Awaited()
        try:
            seconds = core.seconds(parameters(message.parameters))
            arrays, outputs = inputs(core, version, message), wanted(version, message)
            version.submit(request, arrays, seconds if remaining is None else min(seconds, remaining))
            try:
                await request.future
            except asyncio.CancelledError:
                request.gone = True
                raise
            return response(core, version, request, outputs, message.id)
        finally:
            core.release(size)

    async def _abort(self, context: Any, error: UserError) -> None:
        """End a call with an error's code and message."""
        code = _CODES.get(error.status, "INTERNAL") if isinstance(error, RequestError) else "INVALID_ARGUMENT"
        if isinstance(error, RequestError) and error.retry_after is not None:
            context.set_trailing_metadata((("retry-after", str(error.retry_after)),))
        await context.abort(getattr(self._grpc.StatusCode, code), str(error))


class _Awaited(Request):
    """An inference that a handler awaits."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future = asyncio.get_running_loop().create_future()

    def done(self) -> None:
        """Wake the handler."""
        if not self.future.done():
            self.future.set_result(None)
