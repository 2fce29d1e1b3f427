"""The API below /v1 on PostgreSQL: what it keeps, lists, filters and forgets."""

from __future__ import annotations

import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("jsonschema", reason="the extra [serve] is not installed")

from tests.service.client import Client
from tests.service.conftest import serving
from tests.service.test_api import model_bytes

if TYPE_CHECKING:
    from bench.service.postgres import Postgres


def test_the_api_keeps_its_rows_in_postgresql(tmp_path: Path, postgresql: Postgres) -> None:
    with serving(tmp_path, database=postgresql.new_database(), jobs_a_day=3) as service:
        pat, eve = Client.of(service, "pat"), Client.of(service, "eve")
        models = [pat.upload(model_bytes(), f"{number}.onnx") for number in range(2)]
        done = pat.run("compile", models[0], target="cpu")
        assert done["status"] == "completed", done["reason"]
        failed = pat.run("compile", pat.upload(b"no model at all" * 10), target="cpu")
        assert failed["status"] == "failed" and "is not an ONNX model" in failed["reason"]

        first = pat.call("GET", "/v1/jobs", limit=1).json
        rest = pat.call("GET", "/v1/jobs", limit=1, cursor=first["cursor"]).json
        assert [first["items"][0]["id"], rest["items"][0]["id"]] == [failed["id"], done["id"]]
        for query in ({"model": models[0]}, {"status": "completed"}):
            assert [job["id"] for job in pat.call("GET", "/v1/jobs", **query).json["items"]] == [done["id"]]
        assert pat.call("GET", "/v1/jobs", kind="tune").json["items"] == []
        assert len(pat.call("GET", "/v1/models").json["items"]) == 3
        assert eve.call("GET", f"/v1/jobs/{done['id']}").status == 404

        body = {"kind": "compile", "model": models[1], "target": "cpu"}
        last = pat.call("POST", "/v1/jobs", body).json["id"]
        assert pat.call("POST", "/v1/jobs", body).status == 429  # the third of the day was the last
        assert pat.call("POST", f"/v1/jobs/{last}/cancel").json["status"] in ("stopping", "stopped", "completed")
        pat.ended(last)
        whole = pat.call("GET", f"/v1/jobs/{done['id']}/artifacts/model.tw")
        assert whole.status == 200 and len(whole.body) == next(
            one["bytes"] for one in done["artifacts"] if one["name"] == "model.tw"
        )
        assert {pat.call("DELETE", f"/v1/jobs/{id}").status for id in (done["id"], failed["id"])} == {204}
        assert pat.call("DELETE", f"/v1/models/{models[0]}").status == 204
        subjects = {(one["action"], one["subject"]) for one in pat.call("GET", "/v1/audit").json["items"]}
        assert ("delete upload", models[0]) in subjects and ("create", f"/{done['id']}") in subjects
        with urllib.request.urlopen(f"{service.url}/metrics") as answer:
            assert 'tilewright_stored_bytes{of="models"}' in answer.read().decode()
