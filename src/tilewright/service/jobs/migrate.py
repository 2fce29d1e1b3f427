"""The database's schema brought to this program's, step by step, when the service starts."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, text

from tilewright.errors import EnvironmentError_
from tilewright.service.jobs import migrations
from tilewright.service.jobs.packages import package

#: Of PostgreSQL's advisory locks, ours: programs that start together make the tables one after another.
_LOCK = 0x74696C65


def migrate(connection: Connection) -> None:
    """Run the steps that a database lacks, in the connection's transaction.

    Raises `EnvironmentError_` for a database that a newer program made.
    """
    alembic, scripts = package("alembic.runtime.migration"), package("alembic.script")
    operations = package("alembic.operations").Operations
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
    context = alembic.MigrationContext.configure(connection)
    folder = str(Path(migrations.__file__).parent)
    script = scripts.ScriptDirectory(folder, version_locations=[folder])
    current, steps = context.get_current_revision(), list(script.walk_revisions())  # the newest first
    if current is not None and current not in {step.revision for step in steps}:
        raise EnvironmentError_(
            f"the database has schema {current}, and this program knows those up to {steps[0].revision}: "
            "install the version of tilewright that made it, or a newer one"
        )
    with operations.context(context):
        for step in reversed(list(script.iterate_revisions("head", current or "base"))):
            step.module.upgrade()
            context.stamp(script, step.revision)
