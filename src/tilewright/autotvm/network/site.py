"""The machine on which a network is tuned: this one, or devices elsewhere, which measure, and run the network at the
end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from tilewright.autotvm.measure import cluster_worker
from tilewright.autotvm.measure.cluster import RESOURCE, Cluster, ClusterMeasurer
from tilewright.autotvm.measure.fleet import Fleet, FleetMeasurer
from tilewright.autotvm.measure.measurer import Measurer
from tilewright.autotvm.measure.options import MeasureOptions
from tilewright.autotvm.network.settle import Verdict, settle
from tilewright.autotvm.task.task import Task
from tilewright.errors import EnvironmentError_, UserError
from tilewright.records.database import Database
from tilewright.records.entry import Entry, TaskKey
from tilewright.rpc.board.library import packed_for
from tilewright.rpc.board.loads import ARTIFACT
from tilewright.rpc.client import RemoteModel, Session
from tilewright.rpc.frames import ConnectionLost
from tilewright.runtime.model import Model
from tilewright.runtime.profile import KernelTime
from tilewright.target import Target

#: Devices that a verdict is begun on, one after another, when each is lost.
_TRIES = 5


class Here:
    """This machine."""

    def measurer(self, tasks: Sequence[Task], options: MeasureOptions, tell: Callable[[str], None]) -> Measurer:
        """A measurer of configurations of `tasks`."""
        return Measurer(tasks, options, tell)

    def ready(self, model: Model, target: Target) -> Model:
        """A model as it is to be compared: with as many threads as the target has."""
        if target.is_processor:
            model.set_threads(min(model.threads, target.cores))
        return model

    def settle(
        self,
        default: Model,
        build: Callable[[Database], Model],
        best: Mapping[TaskKey, Entry],
        kernels: Mapping[str, TaskKey],
        inputs: Mapping[str, Any],
        seconds: float,
    ) -> Verdict:
        """Compare the default network with the tuned one."""
        return settle(default, build, best, kernels, inputs, seconds)


class OnFleet(Here):
    """The devices of a fleet: models are compiled here and run there."""

    def __init__(self, fleet: Fleet, tell: Callable[[str], None] = lambda line: None) -> None:
        self.fleet, self._tell = fleet, tell

    def measurer(self, tasks: Sequence[Task], options: MeasureOptions, tell: Callable[[str], None]) -> Measurer:
        self._tell = tell
        return FleetMeasurer(tasks, self.fleet, options, tell)

    def ready(self, model: Model, target: Target) -> Model:
        return model

    def settle(
        self,
        default: Model,
        build: Callable[[Database], Model],
        best: Mapping[TaskKey, Entry],
        kernels: Mapping[str, TaskKey],
        inputs: Mapping[str, Any],
        seconds: float,
    ) -> Verdict:
        """As `settle`, all of it on one device; on another from the beginning where that is lost."""
        problem: UserError = EnvironmentError_("no device")
        for _ in range(_TRIES):
            try:
                with self.fleet.session() as remote:
                    there = _loaded(remote, default)
                    remotely = partial(_uploaded, remote, build)
                    return _elsewhere(settle(there, remotely, best, kernels, inputs, seconds))
            except ConnectionLost as error:
                problem = error
                self._tell(f"a device was lost, the networks are compared on another: {error}")
        raise problem


def _elsewhere(verdict: Verdict) -> Verdict:
    """A verdict reached on another machine: how busy this one was says nothing of it."""
    found = verdict.comparison
    return verdict if found is None else replace(verdict, comparison=replace(found, load=""))


def _uploaded(remote: Session, build: Callable[[Database], Model], records: Database) -> RemoteModel:
    return _loaded(remote, build(records))


def _loaded(remote: Session, model: Model) -> RemoteModel:
    found = remote.load_module(remote.upload(model))
    assert isinstance(found, RemoteModel)
    return found


class OnCluster(Here):
    """The workers of a cluster, by a `client` of it."""

    def __init__(self, cluster: Cluster, client: Any, target: Target) -> None:
        """Raises `EnvironmentError_` without workers, `TargetError` if none runs code for `target`."""
        self._client, self._workers = client, cluster.check(client, target)

    def measurer(self, tasks: Sequence[Task], options: MeasureOptions, tell: Callable[[str], None]) -> Measurer:
        return ClusterMeasurer(tasks, self._client, options, tell)

    def ready(self, model: Model, target: Target) -> Model:
        return model

    def settle(
        self,
        default: Model,
        build: Callable[[Database], Model],
        best: Mapping[TaskKey, Entry],
        kernels: Mapping[str, TaskKey],
        inputs: Mapping[str, Any],
        seconds: float,
    ) -> Verdict:
        """As `settle`, all of it on one worker."""
        for worker in self._workers:
            there = partial(_OnWorker, self._client, worker)
            # a task whose worker is lost, and the model there with it, is cancelled by the engine
            with suppress(CancelledError):
                return _elsewhere(settle(there(default), partial(_made, there, build), best, kernels, inputs, seconds))
        raise EnvironmentError_("all workers of the cluster that could compare the networks were lost")


def _made(there: Callable[[Model], _OnWorker], build: Callable[[Database], Model], records: Database) -> _OnWorker:
    return there(build(records))


class _OnWorker:
    """A network on a worker of a cluster."""

    def __init__(self, client: Any, worker: str, model: Model) -> None:
        self._client, self._where = client, {"workers": [worker], "resources": RESOURCE, "pure": False}
        self._contents = client.scatter(packed_for(model, ARTIFACT), workers=[worker], hash=False)

    def time(self, inputs: Mapping[str, Any], repeat: int = 10, warmup: int = 1) -> list[float]:
        arguments = self._contents, dict(inputs), repeat, warmup
        return list(self._client.submit(cluster_worker.time_model, *arguments, **self._where).result())

    def profile(self, inputs: Mapping[str, Any], repeat: int = 1) -> Sequence[KernelTime]:
        arguments = self._contents, dict(inputs), repeat
        return list(self._client.submit(cluster_worker.profile_model, *arguments, **self._where).result())
