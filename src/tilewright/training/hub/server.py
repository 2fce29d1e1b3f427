"""The server of a parameter hub (Luo et al., Parameter Hub, SoCC 2018), over the fleet's transport.

    with Hub(HubSettings(bundle=Bundle(Path("fleet/device-hub")), host="::", port=9300)) as hub:
        hub.wait()

A worker has a connection for each of the hub's shards, and so a thread here: chunk by chunk it takes the gradients, the
last worker's thread sums and updates, all send the new parameters. A training (tenant) has memory, locks and kernels of
its own; who waits for a worker waits for no other training's.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from tilewright.errors import InputError, UserError
from tilewright.rpc.frames import Channel
from tilewright.rpc.identity import Bundle, Peer
from tilewright.rpc.listener import Listener
from tilewright.rpc.messages import answer, check_request, failure
from tilewright.runtime.memory import aligned_empty
from tilewright.runtime.threads import available_processors
from tilewright.support.memory_limit import physical_bytes
from tilewright.training.hub.kernel import Kernel, decoded
from tilewright.training.hub.layout import Layout, checked_keys, require_same
from tilewright.training.hub.shared import shared_memory
from tilewright.training.hub.tenant import Broken, Tenant
from tilewright.training.rules.optimizer import Optimizer

#: Workers of a training at most: each is an operand of its kernel, and a thread for each shard.
_MOST_WORKERS = 64


def _text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 200


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 1 << 48


#: Requests, and what their fields must be.
VERBS: dict[str, dict[str, Any]] = {
    "hello": {},
    "join": {
        "tenant": _text,
        "rank": _count,
        "workers": lambda value: _count(value) and 1 <= value <= _MOST_WORKERS,
        "keys": lambda value: isinstance(value, list) and len(value) <= 1 << 14,
        "optimizer": lambda value: isinstance(value, dict),
    },
    "attach": {"tenant": _text, "rank": _count, "shard": _count},
    "push": {"chunk": _count, "step": _count},
}


@dataclass(frozen=True)
class HubSettings:
    """Address, certificate, threads (as many as processors by default), bytes of memory, and seconds of patience.

    Without a certificate workers are on this machine; with `share` those of the same user map a training's memory.
    """

    host: str = "127.0.0.1"
    port: int = 0
    bundle: Bundle | None = None
    shards: int = 0
    memory_bytes: int = 0
    timeout: float = 60.0
    connections: int = 1024
    share: bool = True


class Hub:
    """Listens from the moment it is made; `address` is where."""

    def __init__(self, settings: HubSettings) -> None:
        """Raises what listening raises."""
        self.settings = settings
        self.shards = settings.shards or available_processors()
        self._memory = settings.memory_bytes or physical_bytes() // 2
        self._lock = threading.Lock()
        self._tenants: dict[str, Tenant] = {}
        self._making: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()
        position = settings.host, settings.port
        self._listener = Listener(position, settings.bundle, ("user",), settings.connections, self._serve)
        self.address = self._listener.address

    def wait(self) -> None:
        """Until `close` is called."""
        self._listener.closed.wait()

    def close(self) -> None:
        """End all connections and stop listening."""
        self._listener.close()

    def __enter__(self) -> Hub:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def _serve(self, channel: Channel, peer: Peer) -> None:
        """One connection: `hello` perhaps, `join` or `attach`, then gradients."""
        request, size = channel.receive_head(self.settings.timeout, self._memory)
        if request.get("verb") == "hello":
            channel.drop()
            channel.send(answer(request, {"shards": self.shards}))
            request, size = channel.receive_head(self.settings.timeout, self._memory)
        try:
            verb = check_request(request, VERBS)
            if verb not in ("join", "attach"):
                raise InputError("a worker joins before it sends gradients")
            tenant = self._joined(request, peer) if verb == "join" else self._attached(request, peer)
        except UserError as error:
            channel.drop()
            channel.send(failure(request, error))
            return
        rank = request["rank"]
        try:
            if verb == "join":
                self._begin(tenant, rank, channel, request, size)
            else:
                channel.drop()
                channel.send(answer(request))
            self._steps(tenant, rank, 0 if verb == "join" else request["shard"], channel)
        finally:
            self._left(tenant, rank)

    def _joined(self, request: dict[str, Any], peer: Peer) -> Tenant:
        """The training that a worker joins; its first worker makes it."""
        name, keys = request["tenant"], checked_keys(request["keys"])
        with self._lock:
            making = self._making.setdefault(name, threading.Lock())
        with making:  # the kernel is compiled once, and holds up no other training
            known = name in self._tenants
            made = None if known else self._made(request, keys, decoded(request["optimizer"]), peer)
            return self._entered(request, keys, made, peer)

    def _entered(
        self, request: dict[str, Any], keys: dict[str, tuple[int, ...]], made: Tenant | None, peer: Peer
    ) -> Tenant:
        """The training after a worker was admitted; it begins with the one that is `made`."""
        name, rank = request["tenant"], request["rank"]
        with self._lock:
            tenant = self._tenants.get(name) or made
            if tenant is None:
                raise Broken(f"{name!r} has just ended; join again")
            self._admit(tenant, rank, request, peer)
            require_same(dict(tenant.layout.keys), keys, f"the training {name!r}")
            if tenant is made:
                self._reserve(tenant)
                self._tenants[name] = tenant
            tenant.members.add(rank)
        return tenant

    def _made(
        self, request: dict[str, Any], keys: dict[str, tuple[int, ...]], optimizer: Optimizer, peer: Peer
    ) -> Tenant:
        """A new training, its kernel compiled."""
        layout = Layout.of(keys, self.shards)
        kernel = Kernel(optimizer, request["workers"], layout.elements)
        tenant = Tenant(request["tenant"], peer.name, layout, kernel, request["workers"], self.settings.timeout)
        tenant.optimizer = request["optimizer"]
        if self.settings.share and self.settings.bundle is None:
            tenant.shared = shared_memory(layout, tenant.workers)
        return tenant

    def _admit(self, tenant: Tenant, rank: int, request: dict[str, Any], peer: Peer) -> None:
        """Raise `InputError` where a worker cannot take part in a training."""
        name = tenant.name
        if tenant.owner != peer.name:
            raise InputError(f"{name!r} is the training of another user; choose another name")
        if tenant.broken:
            raise Broken(f"{tenant.broken}; it begins again when its other workers have left too")
        if tenant.workers != request["workers"] or tenant.optimizer != request["optimizer"]:
            raise InputError(f"{name!r} has {tenant.workers} workers and {tenant.optimizer}; all must state the same")
        if rank in tenant.members or len(tenant.members) == tenant.workers or tenant.step:
            there = f"{len(tenant.members)} of its {tenant.workers} workers"
            own = "that one among them, " if rank in tenant.members else ""
            raise InputError(f"worker {rank} comes too late: {name!r} has {there}, {own}and is at step {tenant.step}")
        if rank >= tenant.workers:
            raise InputError(f"{name!r} has the workers 0 to {tenant.workers - 1}; there is no {rank}")

    def _reserve(self, tenant: Tenant) -> None:
        """Raise `InputError` where a new training does not fit beside the others."""
        if sum(other.nbytes for other in self._tenants.values()) + tenant.nbytes > self._memory:
            raise InputError(f"{tenant.name!r} needs {tenant.nbytes >> 20} MiB, which the hub does not have left")

    def _attached(self, request: dict[str, Any], peer: Peer) -> Tenant:
        """The training that a further connection of a worker is for."""
        tenant = self._tenants.get(request["tenant"])
        if tenant is None or tenant.owner != peer.name or request["rank"] not in tenant.members:
            raise InputError(f"worker {request['rank']} has not joined {request['tenant']!r}")
        if request["shard"] >= self.shards:
            raise InputError(f"the hub has {self.shards} shards; there is no {request['shard']}")
        return tenant

    def _begin(self, tenant: Tenant, rank: int, channel: Channel, request: dict[str, Any], size: int) -> None:
        """Take the first parameters from worker 0, and send them to the others."""
        if rank == 0:
            flat = tenant.layout.empty()
            if size != flat.nbytes:
                channel.drop()
                channel.send(failure(request, InputError(f"{size} bytes of parameters came, not {flat.nbytes}")))
                return
            channel.receive_into(flat)
            tenant.begin(flat)
        else:
            channel.drop()
        try:
            tenant.wait_begun()
        except Broken as error:
            channel.send(failure(request, error))
            return
        parts = tenant.parameters()
        offer = {"memory": tenant.shared.offer} if tenant.shared else {}
        channel.send_head(answer(request, offer), sum(part.nbytes for part in parts))
        for part in parts:
            channel.send_bytes(part.view(np.uint8).data)

    def _steps(self, tenant: Tenant, rank: int, shard: int, channel: Channel) -> None:
        """Gradients in, parameters out, until the worker leaves."""
        space = aligned_empty((tenant.layout.elements,), np.dtype(np.float32))
        while True:
            request, size = channel.receive_head(None, space.nbytes)
            try:
                check_request(request, {"push": VERBS["push"]})
                if request["chunk"] not in tenant.layout.of_shard(shard):
                    raise InputError(f"chunk {request['chunk']} is not of shard {shard}")
                gradient = tenant.shared.gradients[rank, request["chunk"]] if tenant.shared and not size else space
                if gradient is space and size != space.nbytes:
                    raise InputError(f"chunk {request['chunk']} has {space.nbytes} bytes; {size} came")
                if gradient is space:
                    channel.receive_into(space)
                found = tenant.step_chunk(request["chunk"], request["step"], rank, gradient)
            except UserError as error:
                channel.drop()
                channel.send(failure(request, error))
                continue
            channel.send(answer(request), found if gradient is space else b"")

    def _left(self, tenant: Tenant, rank: int) -> None:
        """A connection has ended, and with it the worker's part; the last one takes the training's memory with it."""
        with self._lock:
            tenant.leave(rank)
            if not tenant.members and self._tenants.get(tenant.name) is tenant:
                del self._tenants[tenant.name]
