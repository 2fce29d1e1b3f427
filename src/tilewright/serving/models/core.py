"""`Core`: what both protocols offer, as plain data: metadata, states, statistics, and the begin of an inference."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tilewright.serving.models.datatypes import NUMPY
from tilewright.serving.models.errors import RequestError, overloaded
from tilewright.serving.models.repository import Repository
from tilewright.serving.models.settings import Limits
from tilewright.serving.models.shared_memory import SharedMemory
from tilewright.serving.models.statistics import histogram, metric
from tilewright.serving.models.version import Version
from tilewright.support.version import version as package_version

EXTENSIONS = ("model_repository", "model_configuration", "system_shared_memory", "binary_tensor_data", "statistics")
PLATFORM = "tilewright"

#: Names of element types in configurations, which other clients of the protocol read.
_CONFIG_TYPES = {name: f"TYPE_{'STRING' if name == 'BYTES' else name}" for name in NUMPY}


class Core:
    """The server behind its protocols, for the event loop alone."""

    def __init__(self, repository: Repository, limits: Limits) -> None:
        self.repository, self.limits = repository, limits
        self.memory = SharedMemory()
        #: False before the models are loaded, and from the signal to stop on.
        self.ready = False
        #: Bytes of requests that are being received or run.
        self.buffered = 0
        self.connections = 0
        self.refused: dict[int, int] = {}

    def server_metadata(self) -> dict[str, Any]:
        """Name, version and extensions of this server."""
        return {"name": PLATFORM, "version": package_version(), "extensions": list(EXTENSIONS)}

    def model_metadata(self, name: str, version: str) -> dict[str, Any]:
        """Versions, inputs and outputs of a model. Raises `RequestError` for an unknown one."""
        found = self.repository.find(name, version)
        versions = [version] if version else self.repository.versions(name)
        return {"name": name, "versions": versions, "platform": PLATFORM, **found.metadata()}

    def model_ready(self, name: str, version: str) -> bool:
        """True where the model takes requests."""
        try:
            self.repository.find(name, version)
        except RequestError:
            return False
        return self.ready

    def model_config(self, name: str, version: str) -> dict[str, Any]:
        """The configuration of a model as the extension has it, shapes without the batch."""
        found = self.repository.find(name, version)
        skipped = 1 if found.most_rows else 0

        def tensors(key: str) -> list[dict[str, Any]]:
            return [
                {"name": one["name"], "data_type": _CONFIG_TYPES[one["datatype"]], "dims": one["shape"][skipped:]}
                for one in found.metadata()[key]
            ]

        return {
            "name": name, "platform": PLATFORM, "backend": PLATFORM, "max_batch_size": found.most_rows,
            "input": tensors("inputs"), "output": tensors("outputs"),
        }  # fmt: skip

    def statistics(self, name: str = "", version: str = "") -> dict[str, Any]:
        """Statistics of a version, of all of a model, or of all models. Raises `RequestError` for an unknown one."""
        if name:
            self.repository.find(name, version)
        chosen = [one for one in self.repository.all() if name in ("", one.name) and version in ("", one.version)]
        return {"model_stats": [one.queue.statistics.to_json(one.name, one.version) for one in chosen]}

    async def load(self, name: str, parameters: Mapping[str, Any]) -> None:
        """Load or reload a model; `config` among the parameters has settings as JSON. Raises `RequestError`."""
        self.check_trusted("load models")
        unknown = set(parameters) - {"config"}
        if unknown:
            raise RequestError(f"load of {name!r}: only `config` is taken, and not {', '.join(sorted(unknown))}")
        try:
            changes = json.loads(parameters.get("config") or "{}")
            if not isinstance(changes, dict):
                raise ValueError("it is no object")
        except (ValueError, TypeError, RecursionError) as error:
            raise RequestError(f"load of {name!r}: config is no JSON: {error}") from None
        await self.repository.load(name, changes)

    def unload(self, name: str) -> None:
        """Unload a model; its requests are answered. Raises `RequestError`."""
        self.check_trusted("unload models")
        self.repository.unload(name)

    def check_trusted(self, what: str) -> None:
        """Raises `RequestError` unless clients may do more than infer."""
        if not self.limits.trusted:
            raise RequestError(f"clients of other machines may not {what}: start the server with --trust-clients", 403)

    def reserve(self, count: int) -> None:
        """Count bytes of a request. Raises `RequestError` where there are too many; `release` forgets them."""
        if self.buffered + count > self.limits.buffered:
            raise overloaded(f"requests of {self.buffered} bytes are being served, which is the limit; try again later")
        self.buffered += count

    def release(self, count: int) -> None:
        """Forget bytes of a request that is over."""
        self.buffered -= count

    def seconds(self, parameters: Mapping[str, Any]) -> float:
        """Seconds that a request may wait: the server's limit, or less by its parameter `timeout` in microseconds."""
        timeout = parameters.get("timeout", 0)
        if isinstance(timeout, bool) or not isinstance(timeout, int) or timeout < 0:
            raise RequestError(f"timeout is a number of microseconds, not {timeout!r}")
        return min(self.limits.request_seconds, timeout / 1e6) if timeout else self.limits.request_seconds

    def metrics(self) -> str:
        """All figures as Prometheus text."""
        versions = [({"model": one.name, "version": one.version}, one) for one in self.repository.all()]
        stats = [(labels, one.queue.statistics) for labels, one in versions]
        return "".join(
            (
                metric("tilewright_requests_total", "counter", "Inferences by their result.", [
                    ({**labels, "result": result}, duration.count)
                    for labels, of in stats for result, duration in (("success", of.success), ("failure", of.fail))
                ]),
                metric("tilewright_rows_total", "counter", "Rows that were run.", ((n, of.rows) for n, of in stats)),
                metric("tilewright_batches_total", "counter", "Runs.", ((n, of.executions) for n, of in stats)),
                metric("tilewright_queue_seconds_total", "counter", "Seconds in queues.",
                       ((n, of.queued.ns / 1e9) for n, of in stats)),
                metric("tilewright_compute_seconds_total", "counter", "Seconds in runs, by request.",
                       ((n, of.computed.ns / 1e9) for n, of in stats)),
                metric("tilewright_unfinished_requests", "gauge", "Requests that wait or run.",
                       ((n, one.queue.unfinished) for n, one in versions)),
                metric("tilewright_refused_total", "counter", "Responses of HTTP that are errors, by status.",
                       (({"status": str(status)}, count) for status, count in sorted(self.refused.items()))),
                metric("tilewright_connections", "gauge", "Connections of HTTP.", [({}, self.connections)]),
                metric("tilewright_buffered_bytes", "gauge", "Bytes of requests.", [({}, self.buffered)]),
                histogram("tilewright_request_seconds", "Seconds from request to result.", stats),
            )
        )  # fmt: skip


class Wanted:
    """An output that a request names: as JSON, as raw bytes, or in shared memory."""

    __slots__ = ("binary", "byte_size", "name", "number", "offset", "region")

    def __init__(self, version: Version, name: str, parameters: Mapping[str, Any], binary: bool) -> None:
        number = version.output_numbers.get(name)
        if number is None:
            known = ", ".join(version.output_numbers)
            raise RequestError(f"model {version.name!r} has no output {name!r}; it has {known}")
        if parameters.get("classification"):
            raise RequestError(f"output {name!r}: classification is not offered; take the scores")
        self.name, self.number = name, number
        self.binary = bool(parameters.get("binary_data", binary))
        self.region = parameters.get("shared_memory_region")
        self.offset = parameters.get("shared_memory_offset", 0)
        self.byte_size = parameters.get("shared_memory_byte_size", 0)


def memory_input(core: Core, name: str, parameters: Mapping[str, Any]) -> memoryview:
    """The bytes of an input that are in shared memory."""
    core.check_trusted("share memory")
    region, offset = parameters["shared_memory_region"], parameters.get("shared_memory_offset", 0)
    return core.memory.read(region, offset, parameters.get("shared_memory_byte_size", 0), name)


def checked_shape(shape: Any, name: str) -> tuple[int, ...]:
    """The shape of a tensor of a request. Raises `RequestError` for what is none."""
    sizes = isinstance(shape, list) and all(type(dim) is int and 0 <= dim < 1 << 40 for dim in shape)
    if not sizes or len(shape) > 64:
        raise RequestError(f"input {name!r} has no shape of sizes, but {str(shape)[:100]}")
    return tuple(shape)
