"""The service as a web application, and the workers that run beside it in this process."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tilewright.service.jobs.packages import package
from tilewright.service.jobs.settings import Settings

if TYPE_CHECKING:
    from tilewright.service.jobs.store import Store
    from tilewright.service.jobs.worker import Worker


def application(settings: Settings, store: Store | None = None) -> Any:
    """An ASGI application: SageMaker's API at `/`, our own below `/v1`, the page at `/ui/`.

    Its workers start and end with it.
    """
    store = store or open_store(settings)
    applications, routing = package("starlette.applications"), package("starlette.routing")
    # behind the message on packages that are missing
    from tilewright.service.api.routes import routes
    from tilewright.service.neo.http import Neo
    from tilewright.service.page.site import site

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        workers = start_workers(store, settings)
        yield
        for worker in workers:
            worker.close()

    amazon = routing.Route("/", Neo(store, settings).respond, methods=["POST"])
    return applications.Starlette(routes=[amazon, *routes(store, settings), *site()], lifespan=lifespan)


def open_store(settings: Settings) -> Store:
    """The jobs and keys of a service, whose folders are made where they are missing."""
    package("sqlalchemy")
    from tilewright.service.jobs.store import Store

    settings.prepare()
    return Store(settings.database_url)


def serve(settings: Settings, host: str, port: int) -> None:
    """Serve at an address until interrupted."""
    package("uvicorn").run(application(settings), host=host, port=port, log_level="info")


def start_workers(store: Store, settings: Settings) -> list[Worker]:
    """Workers in threads of this process, as many as the settings have; each runs jobs in processes of their own."""
    from tilewright.service.jobs.worker import Worker

    workers = [Worker(store, settings) for _ in range(settings.workers)]
    for number, worker in enumerate(workers):
        threading.Thread(target=worker.run, name=f"worker-{number}", daemon=True).start()
    return workers
