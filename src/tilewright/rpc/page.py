"""The tracker for people and for Prometheus: a page of devices, queue and leases that renews itself, and /metrics.

The standard library serves it over plain HTTP, on this machine only: it tells who uses what, and can do nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tilewright.errors import EnvironmentError_
from tilewright.rpc.tracker import Tracker
from tilewright.support import html_page

#: States of a device by the classes of the page, which colour them.
_STATES = {"free": "good", "busy": "warn", "quarantined": "bad", "drained": "bad", "draining": "warn", "away": "bad"}


def serve_page(tracker: Tracker, port: int) -> ThreadingHTTPServer:
    """Serve the page of `tracker` on 127.0.0.1:`port` in a thread until `shutdown`. Raises `EnvironmentError_`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = {"/": _page, "/metrics": _metrics, "/status.json": _json}.get(self.path)
            if found is None:
                self.send_error(404)
                return
            kind, text = found(tracker.status())
            self.send_response(200)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: a page that renews itself would fill the log."""

    try:
        made = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise EnvironmentError_(f"cannot serve the page on port {port}: {error.strerror or error}") from None
    threading.Thread(target=made.serve_forever, daemon=True).start()
    return made


def metrics_text(status: Mapping[str, Any]) -> str:
    """Counts in Prometheus' text format (version 0.0.4)."""
    states: dict[str, int] = dict.fromkeys(("free", "busy", "draining", "drained", "quarantined", "away"), 0)
    for device in status["devices"]:
        states[device["state"]] += 1
    lines = ["# HELP tilewright_devices Devices by state.", "# TYPE tilewright_devices gauge"]
    lines += [f'tilewright_devices{{state="{state}"}} {count}' for state, count in states.items()]
    for name, kind, text in (
        ("waiting", "gauge", "Requests that wait for a device."),
        ("leases", "gauge", "Leases in force."),
        ("granted", "counter", "Leases granted."),
        ("expired", "counter", "Leases whose holder vanished."),
        ("lost", "counter", "Devices lost."),
        ("refused", "counter", "Connections without a certificate of the fleet."),
    ):
        full = f"tilewright_{name}{'_total' * (kind == 'counter')}"
        lines += [f"# HELP {full} {text}", f"# TYPE {full} {kind}", f"{full} {status[name]}"]
    lines += [
        "# HELP tilewright_used_seconds_total Device seconds by user.",
        "# TYPE tilewright_used_seconds_total counter",
    ]
    for user in status["users"]:
        label = user["name"].replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        lines.append(f'tilewright_used_seconds_total{{user="{label}"}} {user["used_seconds"]}')
    return "\n".join(lines) + "\n"


def _metrics(status: Mapping[str, Any]) -> tuple[str, str]:
    return "text/plain; version=0.0.4", metrics_text(status)


def _json(status: Mapping[str, Any]) -> tuple[str, str]:
    return "application/json", json.dumps(status, indent=1)


def _page(status: Mapping[str, Any]) -> tuple[str, str]:
    counts = ", ".join(f"{status[name]} {name}" for name in ("waiting", "leases", "granted", "expired", "lost"))
    devices = [
        (one["name"], one["key"], one["architecture"], one["state"], one["user"], one["jobs"], one["used_seconds"])
        for one in status["devices"]
    ]
    users = [(one["name"], one["waiting"], one["holds"], one["used_seconds"]) for one in status["users"]]
    columns = ("name", "key", "architecture", "state", "user", "jobs", "seconds used")
    body = [
        f"<p>{counts}</p>",
        "<h2>Devices</h2>",
        _table(columns, devices),
        "<h2>Users</h2>",
        _table(("name", "waiting", "devices", "seconds used"), users),
    ]
    return "text/html", html_page.document("Fleet", "\n".join(body), '<meta http-equiv="refresh" content="2"/>')


def _table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    cells = [
        [html_page.cell(str(value), name, _STATES.get(str(value))) for value, name in zip(row, columns, strict=True)]
        for row in rows
    ]
    return html_page.table(columns, cells) if cells else '<p class="note">none</p>'
