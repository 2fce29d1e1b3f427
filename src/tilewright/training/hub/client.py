"""A worker's side of a parameter hub.

with HubSession("127.0.0.1", 9300, "resnet", rank, 4, {"w": w0, "b": b0}, Adam(1e-3)) as hub:
    while training:
        gradients_of(hub.parameters, into=hub.gradients)    # arrays by key, the same from step to step
        hub.step()
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilewright.errors import InputError
from tilewright.rpc.client import dial
from tilewright.rpc.frames import Channel, ConnectionLost
from tilewright.rpc.messages import result_of
from tilewright.training.hub.kernel import encoded
from tilewright.training.hub.layout import Layout, require_same
from tilewright.training.hub.shared import taken
from tilewright.training.rules.optimizer import Array, Optimizer

#: Seconds beyond the hub's patience, after which the hub itself is taken for gone.
_GRACE = 15.0


class HubSession:
    """One worker of a training: `parameters` (to read) and `gradients` are arrays by key, `step` exchanges them."""

    def __init__(
        self,
        host: str,
        port: int,
        tenant: str,
        rank: int,
        workers: int,
        values: Mapping[str, Array],
        optimizer: Optimizer,
        *,
        bundle: str | os.PathLike[str] | None = None,
        timeout: float = 60.0,
        share: bool = True,
    ) -> None:
        """Join; returns when worker 0 has. Its `values` are the first parameters; those of the others say the shapes.

        `bundle` is the folder of our certificate; without one the hub must be on this machine, and its memory is
        mapped where it offers that, unless `share` is False. Raises `RpcError` where no hub answers, `InputError`
        where keys, shapes, workers or optimizer are not the training's, or it has begun.
        """
        self._timeout, self._steps, self._shares = timeout + _GRACE, 0, share
        keys = {name: np.shape(value) for name, value in values.items()}
        fields = {"tenant": tenant, "rank": rank, "workers": workers, "optimizer": encoded(optimizer)}
        self._dial = functools.partial(dial, host, port, bundle, ("device",))
        self._channels = [self._dialled()]
        try:
            shards = self._join(keys, fields, values if rank == 0 else None)
            for shard in range(1, shards):
                self._channels.append(self._dialled())
                self._ask(self._channels[-1], {"verb": "attach", "tenant": tenant, "rank": rank, "shard": shard})
        except BaseException:
            self.close()
            raise

    def _dialled(self) -> Channel:
        connection, peer = self._dial()
        return Channel(connection, str(peer))

    def _ask(self, channel: Channel, request: dict[str, Any], flat: Array | None = None) -> dict[str, Any]:
        channel.send({**request, "id": 0}, b"" if flat is None else flat.reshape(-1).view(np.uint8).data, self._timeout)
        message, self._size = channel.receive_head(self._timeout)
        return result_of(message, 0, channel.peer)

    def _join(self, keys: dict[str, Any], fields: dict[str, Any], values: Mapping[str, Array] | None) -> int:
        """Join, and take the first parameters; the number of shards."""
        stated = [[name, list(shape)] for name, shape in keys.items()]
        ask = {"verb": "join", **fields, "keys": stated}
        shards = self._shards()
        self._layout = Layout.of(keys, shards)
        flat = self._layout.empty()
        if values is not None:
            for name, view in self._layout.views(flat).items():
                np.copyto(view, values[name])
        found = self._ask(self._channels[0], ask, flat if values is not None else None)
        self._channels[0].receive_into(flat)
        shared = taken(found.get("memory"), self._layout, fields["workers"]) if self._shares else None
        self._shares = shared is not None
        self._parameters, self._gradients = flat, self._layout.empty()
        if shared is not None:
            self._parameters, self._gradients = shared[0], shared[1 + fields["rank"]]
        self.parameters = self._layout.views(self._parameters)
        self.gradients = self._layout.views(self._gradients)
        for view in self.parameters.values():
            view.flags.writeable = False
        return shards

    def _shards(self) -> int:
        """The number of the hub's shards."""
        return int(self._ask(self._channels[0], {"verb": "hello"})["shards"])

    def step(self, gradients: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """Send the gradients and take the new parameters, which are returned; `gradients` replace `self.gradients`.

        Raises `InputError` for other keys or shapes, `RpcError` where a worker has left or is silent, or the hub has.
        """
        if gradients is not None:
            shapes = {name: np.shape(value) for name, value in gradients.items()}
            require_same(dict(self._layout.keys), shapes, "this training")
            for name, view in self.gradients.items():
                np.copyto(view, gradients[name])
        faults: list[BaseException] = []
        threads = []
        for shard, channel in enumerate(self._channels):
            for work in (self._send, self._receive):
                threads.append(threading.Thread(target=_kept, args=(work, shard, channel, faults), daemon=True))
                threads[-1].start()
        for thread in threads:
            thread.join()
        if faults:
            self.close()
            raise next((fault for fault in faults if not isinstance(fault, ConnectionLost)), faults[0])
        self._steps += 1
        return self.parameters

    def _send(self, shard: int, channel: Channel) -> None:
        for chunk in self._layout.of_shard(shard):
            message = {"verb": "push", "id": chunk, "chunk": chunk, "step": self._steps}
            channel.send(message, b"" if self._shares else self._gradients[chunk], self._timeout)

    def _receive(self, shard: int, channel: Channel) -> None:
        for chunk in self._layout.of_shard(shard):
            message, size = channel.receive_head(self._timeout)
            result_of(message, chunk, channel.peer)
            if size != (0 if self._shares else self._parameters[chunk].nbytes):
                raise InputError(f"{channel.peer} sent {size} bytes of parameters; a chunk has others")
            if size:
                channel.receive_into(self._parameters[chunk])

    def close(self) -> None:
        """Leave the training; who waits for this worker learns it."""
        for channel in self._channels:
            channel.close()

    def __enter__(self) -> HubSession:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def _kept(work: Callable[[int, Channel], None], shard: int, channel: Channel, faults: list[BaseException]) -> None:
    """Do the work; what it raises ends the other half of the connection too, and is kept."""
    try:
        work(shard, channel)
    except BaseException as error:
        faults.append(error)
        channel.close()
