"""The database of a service: SQLite or PostgreSQL, opened with its schema brought up to date."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, create_engine, event
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError

from tilewright.errors import EnvironmentError_, InputError
from tilewright.service.jobs.migrate import migrate

#: Seconds that SQLite waits for another process's write.
_BUSY_SECONDS = 30.0
#: An execution option of connections that only read.
READS = "reads"


def open_database(url: str) -> Engine:
    """The database of a URL as SQLAlchemy has it, with all tables.

    Raises `InputError` for a URL that is none, `EnvironmentError_` where the database cannot be reached or is newer.
    """
    if url.startswith("postgresql://"):
        url = url.replace("postgresql:", "postgresql+psycopg:", 1)
    try:
        engine = _sqlite(url) if url.startswith("sqlite") else create_engine(url, pool_pre_ping=True)
        with engine.begin() as connection:
            migrate(connection)
    except (ArgumentError, NoSuchModuleError) as error:
        raise InputError(f"--database: {error}; it is as sqlite:///FILE or postgresql://USER@HOST/NAME") from None
    except ModuleNotFoundError as error:
        raise EnvironmentError_(f"PostgreSQL needs {error.name}: pip install 'tilewright[postgres]'") from None
    except DBAPIError as error:
        raise EnvironmentError_(f"the database cannot be opened: {str(error.orig).strip()}") from None
    return engine


def _sqlite(url: str) -> Engine:
    engine = create_engine(url, connect_args={"timeout": _BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        """Readers go on while one writes; transactions begin as ours, not at the driver's first write."""
        connection.isolation_level = None
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")

    @event.listens_for(engine, "begin")
    def begin(connection: Any) -> None:
        # a transaction that reads first could not be made one that writes while another process writes
        reads = connection.get_execution_options().get(READS)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")

    return engine
