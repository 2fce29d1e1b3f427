"""The database's schema: that of the tables, from nothing and from older ones, and never an older program's."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy", reason="the extra [serve] is not installed")
pytest.importorskip("alembic", reason="the extra [serve] is not installed")

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, text

from tilewright.errors import EnvironmentError_, InputError
from tilewright.service.jobs.store import Store
from tilewright.service.jobs.tables import Base

#: A job as the first version of the service kept it, and the tables in which it did.
_FIRST = (
    "CREATE TABLE jobs (id VARCHAR(32) NOT NULL PRIMARY KEY, owner VARCHAR(64) NOT NULL, name VARCHAR(63) NOT NULL, "
    "status VARCHAR(16) NOT NULL, request JSON NOT NULL, task JSON NOT NULL, result JSON NOT NULL, "
    "reason TEXT NOT NULL, created FLOAT NOT NULL, modified FLOAT NOT NULL, started FLOAT, ended FLOAT, "
    "claim VARCHAR(64) NOT NULL, lease FLOAT NOT NULL, attempts INTEGER NOT NULL, UNIQUE (owner, name))",
    "INSERT INTO jobs VALUES ('1', 'ada', 'old', 'COMPLETED', '{}', '{}', '{}', '', 1, 2, 1, 2, '', 0, 1)",
)


def test_steps_make_the_tables(database: str) -> None:
    store = Store(database)
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
    store.create("ada", "a", {}, {}, 1)
    assert Store(database).find("ada", "a") is not None


def test_a_database_of_the_first_version_keeps_its_jobs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/jobs.db"
    with create_engine(url).begin() as connection:
        for statement in _FIRST:
            connection.execute(text(statement))
    job = Store(url).find("ada", "old")
    assert job is not None and (job.kind, job.stage, job.progress) == ("compile", "", 0.0)


def test_programs_that_start_together(database: str) -> None:
    stores: list[Store] = []
    threads = [threading.Thread(target=lambda: stores.append(Store(database))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(stores) == 4


def test_a_database_of_a_newer_program(database: str) -> None:
    with Store(database).engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(EnvironmentError_, match=r"has schema 9999, and this program knows those up to \d{4}"):
        Store(database)


def test_databases_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it is as sqlite:///FILE or postgresql://USER@HOST/NAME"):
        Store("jobs.db")
    with pytest.raises(InputError, match="it is as sqlite:///FILE"):
        Store("cobol://jobs")
    with pytest.raises(EnvironmentError_, match="the database cannot be opened: unable to open"):
        Store(f"sqlite:///{tmp_path}/none/jobs.db")
    pytest.importorskip("psycopg", reason="the extra [postgres] is not installed")
    with pytest.raises(EnvironmentError_, match="the database cannot be opened: "):
        Store(f"postgresql://nobody@/jobs?host={tmp_path}")
