"""Kinds of jobs beside compilations, and what a running job says of itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"


def upgrade() -> None:
    """Add the columns; jobs that are there are compilations."""
    op.add_column("jobs", sa.Column("kind", sa.String(16), nullable=False, server_default="compile"))
    op.add_column("jobs", sa.Column("stage", sa.String(32), nullable=False, server_default=""))
    op.add_column("jobs", sa.Column("progress", sa.Float, nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("log", sa.Text, nullable=False, server_default=""))
