"""The memory that runs of a model work in: one arena for intermediates, one block of scratch for the workers."""

from __future__ import annotations

from tilewright.runtime.memory import Region


class WorkingMemory:
    """Grows to the largest that was requested and is used again: by every run, and by every segment of a program."""

    def __init__(self, arena_bytes: int = 0) -> None:
        self.arena = Region(arena_bytes)
        self.scratch = Region(0)

    def reserve(self, arena_bytes: int, scratch_bytes: int) -> None:
        """Make the arena and the scratch memory of all workers at least this large. Raises `EnvironmentError_`."""
        if arena_bytes > self.arena.size:
            self.arena = Region(arena_bytes)
        if scratch_bytes > self.scratch.size:
            self.scratch = Region(scratch_bytes)
