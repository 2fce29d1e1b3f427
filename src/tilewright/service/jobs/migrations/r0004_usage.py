"""Use of quotas by owner and day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "0004", "0003"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "usage",
        sa.Column("owner", sa.String(64), primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("jobs", sa.Integer, nullable=False),
        sa.Column("cpu_seconds", sa.Float, nullable=False),
    )
