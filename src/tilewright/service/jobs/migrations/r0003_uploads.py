"""Files that owners send, keys of our own API, and what a job takes and leaves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0003", "0002"


def upgrade() -> None:
    """Add the columns and tables."""
    op.add_column("jobs", sa.Column("log_start", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("cpu_seconds", sa.Float, nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("stored", sa.BigInteger, nullable=False, server_default="0"))
    op.create_table(
        "bearer_keys",
        sa.Column("digest", sa.String(64), primary_key=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(32), primary_key=True),
        sa.Column("owner", sa.String(64), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("format", sa.String(32), nullable=False),
        sa.Column("created", sa.Float, nullable=False),
    )
    op.create_index("ix_uploads_owner", "uploads", ["owner"])
