"""Why references differ from each other, and which findings are known."""

from __future__ import annotations

from bench.fuzz.worker import Outcome


def cause_of_disagreement(where: str) -> str:
    """Why the references differ on a case; "unexplained" where nobody looked yet."""
    return "unexplained"


def cause_of_finding(outcome: Outcome) -> str:
    """The known cause of a finding; empty where there is none."""
    return ""
