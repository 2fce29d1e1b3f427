"""The service as a web application, and the workers that run beside it in this process."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from tilewright.service.jobs.packages import package
from tilewright.service.jobs.settings import Settings

if TYPE_CHECKING:
    from tilewright.service.jobs.store import Store
    from tilewright.service.jobs.worker import Worker

_log = logging.getLogger(__name__)
#: Seconds between two removals of what is old.
_HOUR = 3600.0


def application(settings: Settings, store: Store | None = None, ending: threading.Event | None = None) -> Any:
    """An ASGI application: SageMaker's API at `/`, our own below `/v1`, the page at `/ui/`.

    Its workers start and end with it. Once `ending` is set it is not ready, and streams of events end.
    """
    store, ending = store or open_store(settings), ending or threading.Event()
    applications, routing = package("starlette.applications"), package("starlette.routing")
    # behind the message on packages that are missing
    from tilewright.service.api.routes import routes
    from tilewright.service.neo.http import Neo
    from tilewright.service.page.site import site
    from tilewright.service.watch import Watch

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        workers = start_workers(store, settings)
        removal = asyncio.create_task(_remove_old(store, settings))
        yield
        ending.set()
        removal.cancel()
        await asyncio.to_thread(_end, workers, settings.grace_seconds)

    amazon = routing.Route("/", Neo(store, settings).respond, methods=["POST"])
    inner = applications.Starlette(routes=[amazon, *routes(store, settings, ending), *site()], lifespan=lifespan)
    return Watch(inner, store)


def open_store(settings: Settings) -> Store:
    """The jobs and keys of a service, whose folders are made where they are missing."""
    package("sqlalchemy")
    from tilewright.service.jobs.store import Store

    settings.prepare()
    return Store(settings.database_url)


def serve(settings: Settings, host: str, port: int) -> None:
    """Serve at an address until interrupted; requests and jobs then have their grace, and other jobs wait again."""
    uvicorn, ending = package("uvicorn"), threading.Event()

    class Server(uvicorn.Server):  # type: ignore[misc, name-defined]
        """One that tells the application as soon as it is to end, so that streams do not hold it up."""

        def handle_exit(self, sig: int, frame: Any) -> None:
            ending.set()
            super().handle_exit(sig, frame)

    config = uvicorn.Config(
        application(settings, None, ending), host=host, port=port, log_config=None, access_log=False,
        timeout_graceful_shutdown=int(settings.grace_seconds) or 1,
    )  # fmt: skip
    Server(config).run()


def start_workers(store: Store, settings: Settings) -> list[tuple[Worker, threading.Thread]]:
    """Workers in threads of this process, as many as the settings have; each runs jobs in processes of their own."""
    from tilewright.service.jobs.worker import Worker

    found = []
    for number in range(settings.workers):
        worker = Worker(store, settings)
        thread = threading.Thread(target=worker.run, name=f"worker-{number}", daemon=True)
        thread.start()
        found.append((worker, thread))
    return found


def work(settings: Settings) -> None:
    """Run jobs of a service's database, as one more worker, until interrupted; the job at hand has its grace."""
    worker, thread = start_workers(open_store(settings), settings)[0]
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    while not ended.wait(1.0) and thread.is_alive():
        pass
    _end([(worker, thread)], settings.grace_seconds)


def _end(workers: list[tuple[Worker, threading.Thread]], grace: float) -> None:
    """End workers, and wait for the jobs that they have."""
    for worker, _ in workers:
        worker.close()
    deadline = time.monotonic() + grace + 5
    for _, thread in workers:
        thread.join(max(0.0, deadline - time.monotonic()))


async def _remove_old(store: Store, settings: Settings) -> None:
    """Remove what is old, every hour."""
    from tilewright.service.jobs.retention import remove_old

    with suppress(asyncio.CancelledError):
        while True:
            try:
                gone = await asyncio.to_thread(remove_old, store, settings)
                _log.info("%d old uploads and jobs were removed", gone)
            except Exception:
                _log.exception("what is old was not removed")
            await asyncio.sleep(_HOUR)
