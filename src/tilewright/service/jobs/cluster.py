"""Jobs on a cluster of `dask.distributed`: each of its threads may run one of the service's queue at a time.

The queue stays the database: a task of the cluster is to claim whatever job comes next and run it, with the lease and
the confined process of any worker. A machine that is lost takes a task with it and no job. Workers of the cluster need
this package, the database, and what `file://` names are below.
"""

from __future__ import annotations

import functools
import logging
import time
from typing import Any

from tilewright.autotvm.measure.cluster import Cluster
from tilewright.service.jobs.settings import Settings
from tilewright.service.jobs.store import Store
from tilewright.service.jobs.worker import Worker

_log = logging.getLogger(__name__)
#: Seconds between two looks at the queue: while it has jobs, and at last where it has none.
_LOOK, _IDLE = 0.2, 2.0


def dispatch(store: Store, settings: Settings, cluster: Cluster) -> None:
    """Have a cluster run jobs until interrupted. Raises `EnvironmentError_` without it."""
    with cluster.client() as client:
        running: set[Any] = set()
        delay = _LOOK
        while True:
            running = {task for task in running if not _ended(task)}
            free = sum(client.nthreads().values()) - len(running)
            wanted = min(free, store.waiting()) if free > 0 else 0
            running |= {client.submit(_run_one, settings, pure=False, retries=0) for _ in range(wanted)}
            delay = _LOOK if running else min(2 * delay, _IDLE)
            time.sleep(delay)


def _ended(task: Any) -> bool:
    """Has a task of the cluster ended? One that failed lost no job: another takes it when its lease ends."""
    if task.status == "error":
        _log.warning("a task of the cluster failed: %s", task.exception())
    return bool(task.done())


def _run_one(settings: Settings) -> bool:
    """Run one job on a worker of the cluster; false where none waits."""
    return _worker(settings).run_one()


@functools.cache
def _worker(settings: Settings) -> Worker:
    settings.prepare()
    worker = Worker(Store(settings.database_url), settings)
    worker.sweep()
    return worker
