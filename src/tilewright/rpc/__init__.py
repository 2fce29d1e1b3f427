"""Devices from afar: a tracker that leases them, a server on each, and sessions with them (docs/fleet.md)."""

from tilewright.rpc.client import RemoteArray, RemoteFunction, RemoteLibrary, RemoteModel, Session, Turn, connect
from tilewright.rpc.tracker_client import Outcome, TrackerSession, connect_tracker

__all__ = [
    "Outcome",
    "RemoteArray",
    "RemoteFunction",
    "RemoteLibrary",
    "RemoteModel",
    "Session",
    "TrackerSession",
    "Turn",
    "connect",
    "connect_tracker",
]
