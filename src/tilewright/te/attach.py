"""Attachment points of stages and groups of them."""

from __future__ import annotations

from enum import IntEnum


class AttachType(IntEnum):
    """At the root, within the expressions that read it, or in a loop of another stage; by the numbers of the field."""

    ROOT = 1
    INLINE = 2
    AT = 4
