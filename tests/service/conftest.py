"""A running service, its clients, and folders that it shares."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.service import postgres

if TYPE_CHECKING:
    from tilewright.service.jobs.settings import Settings
    from tilewright.service.jobs.store import Store

_MISSING = "the extra [serve] is not installed"


@dataclass
class Service:
    """A service at a port of this machine."""

    url: str
    store: Store
    settings: Settings
    shared: Path

    def client(self, owner: str = "ada", secret: str | None = None, checked: bool = True) -> Any:
        """botocore's client of SageMaker, with a key of its own (or a wrong secret), which checks what it sends."""
        key, right = self.store.add_key(owner)
        import botocore.config
        import botocore.session

        session = botocore.session.get_session()
        session.set_credentials(key, secret or right)
        config = botocore.config.Config(parameter_validation=checked, retries={"max_attempts": 0})
        return session.create_client("sagemaker", region_name="us-east-1", endpoint_url=self.url, config=config)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[postgres.Postgres]:
    """A server of PostgreSQL."""
    pytest.importorskip("psycopg", reason="the extra [postgres] is not installed")
    if postgres.programs() is None:
        pytest.skip("PostgreSQL is not installed")
    with postgres.running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/jobs.db"
    url: str = request.getfixturevalue("postgresql").new_database()
    return url


@contextmanager
def serving(folder: Path, **given: Any) -> Iterator[Service]:
    """A service with one worker while the enclosed code runs; `given` are settings."""
    uvicorn = pytest.importorskip("uvicorn", reason=_MISSING)
    for name in ("sqlalchemy", "alembic", "starlette", "botocore.session"):
        pytest.importorskip(name, reason=_MISSING)
    from tilewright.service.app import application, open_store
    from tilewright.service.jobs.settings import Settings

    shared = folder / "shared"
    shared.mkdir()
    settings = Settings(folder / "state", shared=(shared,), **given)
    store = open_store(settings)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = uvicorn.Config(application(settings, store), host="127.0.0.1", port=port, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    yield Service(f"http://127.0.0.1:{port}", store, settings, shared)
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service whose owners may have four jobs."""
    with serving(tmp_path_factory.mktemp("service"), jobs_of_owner=4) as found:
        yield found
