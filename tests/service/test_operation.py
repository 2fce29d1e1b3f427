"""Operation of the service: quotas, the log of actions, metrics, readiness, removal of what is old, its end."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from tests.service.conftest import Service

pytest.importorskip("jsonschema", reason="the extra [serve] is not installed")

from sqlalchemy import update

from tests.service.client import Client
from tests.service.test_api import model_bytes
from tilewright.errors import EnvironmentError_
from tilewright.service.jobs import traces
from tilewright.service.jobs.quotas import QuotaExceeded, admission, charge, check_stored
from tilewright.service.jobs.retention import remove_old
from tilewright.service.jobs.settings import Settings
from tilewright.service.jobs.store import Store
from tilewright.service.jobs.tables import Job, Upload
from tilewright.service.jobs.traces import carrier, span, tracer
from tilewright.service.logs import JsonLines


def test_quotas_of_a_day_and_of_bytes(tmp_path: Path) -> None:
    settings = Settings(tmp_path, jobs_a_day=2, cpu_seconds_a_day=5.0, stored_bytes=100)
    settings.prepare()
    store = Store(settings.database_url)
    for name in ("a", "b"):
        store.create("ada", name, {}, {}, 10, admit=admission(settings, "ada"))
    with pytest.raises(QuotaExceeded, match="2 jobs a day") as found:
        store.create("ada", "c", {}, {}, 10, admit=admission(settings, "ada"))
    assert 0 < found.value.seconds <= 86400 and store.find("ada", "c") is None
    store.create("bob", "a", {}, {}, 10, admit=admission(settings, "bob"))
    charge(store, "bob", 3.0)
    charge(store, "bob", 3.0)
    with pytest.raises(QuotaExceeded, match="5 s of processors"):
        store.create("bob", "b", {}, {}, 10, admit=admission(settings, "bob"))
    check_stored(store, settings, "eve", 100)
    with pytest.raises(QuotaExceeded, match="100 bytes of models and artifacts, of which 0 are kept"):
        check_stored(store, settings, "eve", 101)


def test_a_quota_is_answered_with_the_time_to_come_again(service: Service) -> None:
    client = Client.of(service, "op-many")
    model = client.upload(b"no model")
    replies = [client.call("POST", "/v1/jobs", {"kind": "compile", "model": model, "target": "cpu"}) for _ in range(8)]
    refused = [reply for reply in replies if reply.status == 429]
    assert refused and all(int(reply.headers["retry-after"]) > 0 for reply in refused)
    for reply in replies:
        if reply.status == 201:
            client.ended(reply.json["id"])


def test_owners_read_their_actions(service: Service) -> None:
    client = Client.of(service, "op-audit")
    model = client.upload(b"x")
    client.call("DELETE", f"/v1/models/{model}")
    first = client.call("GET", "/v1/audit", limit=2).json
    assert [one["action"] for one in first["items"]] == ["delete upload", "upload"]
    rest = client.call("GET", "/v1/audit", cursor=first["cursor"]).json
    assert [one["action"] for one in rest["items"]] == ["add key"] and "cursor" not in rest


def test_metrics_and_readiness(service: Service) -> None:
    client = Client.of(service, "op-metrics")
    client.ended(client.run("compile", client.upload(model_bytes()), target="cpu")["id"])
    assert client.call("GET", "/readyz").json == {"status": "ready"}
    text = urllib.request.urlopen(f"{service.url}/metrics").read().decode()
    parser = pytest.importorskip("prometheus_client.parser", reason="prometheus_client is not installed")
    found = {one.name: one for one in parser.text_string_to_metric_families(text)}
    assert {"tilewright_jobs", "tilewright_requests", "tilewright_request_seconds"} <= found.keys()
    requests = {sample.labels["operation"]: sample.value for sample in found["tilewright_requests"].samples}
    assert requests["createJob"] >= 1 and "op-metrics" not in text


def test_what_is_old_is_removed(tmp_path: Path) -> None:
    settings = Settings(tmp_path, keep_days=1.0)
    settings.prepare()
    store = Store(settings.database_url)
    old, new = time.time() - 2 * 86400, time.time()
    with store.session() as session:
        for id, created in (("old", old), ("new", new), ("used", old)):
            session.add(Upload(id=id, owner="ada", name="m", bytes=1, sha256="", format="", created=created))
            (settings.uploads_folder / id).write_bytes(b"x")
            os.utime(settings.uploads_folder / id, (created, created))
    store.create("ada", "/waits", {}, {"upload": "used"}, 10, id="waits")
    store.create("ada", "/ended", {}, {"upload": "old"}, 10, id="ended")
    with store.session() as session:
        session.execute(update(Job).where(Job.id == "ended").values(status="FAILED", ended=old))
    kept = settings.artifacts_folder / "ended"
    kept.mkdir()
    os.utime(kept, (old, old))
    assert remove_old(store, settings) == 2
    assert sorted(path.name for path in settings.uploads_folder.iterdir()) == ["new", "used"]
    assert not kept.exists() and store.find("ada", "/ended") is None and store.find("ada", "/waits") is not None


def test_log_lines_are_json() -> None:
    record = logging.makeLogRecord({"msg": "GET %s", "args": ("/",), "levelname": "INFO", "fields": {"status": 200}})
    found = json.loads(JsonLines().format(record))
    assert found["message"] == "GET /" and found["status"] == 200 and found["level"] == "info"


def test_traces_are_for_those_who_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    tracer.cache_clear()
    assert tracer() is None and carrier() == {}
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    tracer.cache_clear()
    if importlib.util.find_spec("opentelemetry") is None or not _has_exporter():
        with pytest.raises(EnvironmentError_, match="pip install opentelemetry-sdk"):
            tracer()
    tracer.cache_clear()


def test_a_job_goes_on_in_the_trace_of_its_request(monkeypatch: pytest.MonkeyPatch) -> None:
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is not installed")
    monkeypatch.setattr(traces, "tracer", lambda: sdk.TracerProvider().get_tracer("test"))
    with span("createJob", {}, "SERVER", {}) as request:
        headers = carrier()
    with span("job compile", headers, "CONSUMER", {"tilewright.kind": "compile"}) as job:
        assert job.parent.span_id == request.get_span_context().span_id
        assert job.get_span_context().trace_id == request.get_span_context().trace_id


def _has_exporter() -> bool:
    try:
        return importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        return False


def test_the_end_hands_running_jobs_back(tmp_path: Path) -> None:
    """SIGTERM: streams end, the job waits again, and the attempt does not count."""
    settings = Settings(tmp_path / "state")
    settings.prepare()
    store = Store(settings.database_url)
    command = [sys.executable, "-m", "tilewright", "serve", "run", "--folder", str(settings.folder), "--port", "0",
               "--grace", "0.5", "--open", "--log", "json"]  # fmt: skip
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    port = next(line.rpartition(":")[2].split()[0] for line in running.stderr if "Uvicorn running on" in line)
    threading.Thread(target=running.stderr.read, daemon=True).start()
    url = f"http://127.0.0.1:{port}"
    request = urllib.request.Request(f"{url}/v1/models", model_bytes(inner=300))
    model = json.loads(urllib.request.urlopen(request).read())["id"]
    body = json.dumps({"kind": "tune", "model": model, "options": {"seconds": 600}}).encode()
    made = urllib.request.Request(f"{url}/v1/jobs", body, {"Content-Type": "application/json"})
    job = json.loads(urllib.request.urlopen(made).read())["id"]
    deadline = time.monotonic() + 120
    while (found := store.find("open", f"/{job}")) is None or found.stage != "tune":
        assert time.monotonic() < deadline and (found is None or not found.ended), found
        time.sleep(0.05)
    stream = urllib.request.urlopen(f"{url}/v1/jobs/{job}/events")
    assert stream.readline()
    running.send_signal(signal.SIGTERM)
    assert running.wait(60) in (0, -signal.SIGTERM)
    found = store.find("open", f"/{job}")
    assert found is not None and (found.status, found.attempts) == ("STARTING", 0)
    assert b"event: result" not in stream.read()


def test_without_keys_pages_of_other_sites_are_refused(tmp_path: Path) -> None:
    from starlette.requests import Request

    from tilewright.service.api.access import owner_of
    from tilewright.service.api.problems import Problem

    settings = replace(Settings(tmp_path), open=True)

    def asked(**headers: str) -> str:
        raw = [(name.encode(), value.encode()) for name, value in headers.items()]
        return owner_of(Request({"type": "http", "headers": raw}), None, settings)  # type: ignore[arg-type]

    assert asked(host="127.0.0.1:8080") == asked(host="localhost:1", origin="http://localhost:1") == "open"
    for headers in ({"host": "evil.example"}, {"host": "127.0.0.1:8080", "origin": "http://evil.example"}):
        with pytest.raises(Problem, match="own machine alone"):
            asked(**headers)
