"""Spellings of processors' targets, by their architecture and name."""

from __future__ import annotations

from tilewright.target.cpu import PROCESSORS

#: The triple of each architecture.
TRIPLES = {
    "x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-linux-gnu", "riscv64": "riscv64-linux-gnu",
}  # fmt: skip


def spelling(architecture: str, cpu: str) -> str:
    """The target of a processor: `llvm -mtriple=… -mcpu=…`."""
    return f"llvm -mtriple={TRIPLES[architecture]} -mcpu={cpu}"


def usual_spellings(architecture: str) -> list[str]:
    """The targets of an architecture that need no name of a processor, the one with most features first."""
    levels = ("x86-64-v4", "x86-64-v3", "x86-64-v2") if architecture == "x86_64" else ("generic", "generic-rv64")
    known = [cpu for cpu in levels if cpu in PROCESSORS.get(architecture, {})]
    return [spelling(architecture, cpu) for cpu in known]
