"""Batches, queues, reloads: with models made of functions, whose runs the tests hold back."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.serving.conftest import MISSING, Fake, Running, start
from tilewright.errors import InputError
from tilewright.runtime.signature import TensorSpec
from tilewright.serving.models.batches import Joined, Request
from tilewright.serving.models.settings import ModelSettings
from tilewright.support.dtype import DType

pytest.importorskip("httptools", reason=MISSING)
pytest.importorskip("grpc", reason=MISSING)

SLOW = {"warm_up": False}  # which leaves a model to a thread


def spec(name: str, shape: tuple[Any, ...], dtype: str = "float32") -> TensorSpec:
    return TensorSpec(name, shape, DType(dtype))


def infer(running: Running, rows: list[list[float]], model: str = "m", **parameters: Any) -> tuple[int, Any]:
    """Status and answer of an inference in JSON."""
    entry = {"name": "x", "datatype": "FP32", "shape": [len(rows), len(rows[0])], "data": rows}
    body = json.dumps({"inputs": [entry], "parameters": parameters}).encode()
    request = urllib.request.Request(f"http://{running.http}/v2/models/{model}/infer", body)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, {**json.load(error), "retry": error.headers.get("Retry-After")}


class Gate:
    """A model whose runs wait until the test lets them go on; a row that begins with -1 fails the run."""

    def __init__(self, rows: Any = "N") -> None:
        self.open, self.begun = threading.Event(), threading.Event()
        self.model = Fake([spec("x", (rows, 2))], [spec("y", (rows, 2))], self.work)

    def work(self, x: np.ndarray) -> list[np.ndarray]:
        self.begun.set()
        assert self.open.wait(30)
        if (x[:, 0] == -1).any():
            raise InputError("the model stopped: a row begins with -1")
        return [x * 2]

    def serve(self, **settings: Any) -> Running:
        changed = ModelSettings().changed({**SLOW, **settings}, "test")
        return start(["m=/nowhere/m.tw"], lambda path, found: self.model, changed)


def at_once(running: Running, requests: list[list[list[float]]]) -> list[tuple[int, Any]]:
    """Answers of requests that are sent one after the other while the first one runs."""
    answers: list[Any] = [None] * len(requests)

    def one(number: int) -> None:
        answers[number] = infer(running, requests[number])

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(requests))]
    found = running.server.core.repository.find("m").queue
    for number, thread in enumerate(threads):
        thread.start()
        until = time.monotonic() + 20
        while found.unfinished <= number and time.monotonic() < until and thread.is_alive():
            time.sleep(0.005)
    return _joined(threads, answers, running)


def _joined(threads: list[threading.Thread], answers: list[Any], running: Running) -> list[Any]:
    running.gate.open.set()  # type: ignore[attr-defined]
    for thread in threads:
        thread.join(30)
    return answers


@pytest.fixture
def gate() -> Gate:
    return Gate()


def served(gate: Gate, **settings: Any) -> Running:
    running = gate.serve(**settings)
    running.gate = gate  # type: ignore[attr-defined]
    return running


def test_what_waits_is_one_batch_and_each_gets_its_own_rows(gate: Gate) -> None:
    running = served(gate, max_batch=8)
    requests = [[[float(number), 1.0]] * (1 + number % 2) for number in range(6)]
    answers = at_once(running, requests)
    assert gate.model.batches == [1, 8], "rows 2 1 2 1 2 wait while the first one runs"
    for rows, (status, answer) in zip(requests, answers):
        (output,) = answer["outputs"]
        assert status == 200 and output["shape"] == [len(rows), 2]
        assert output["data"] == (np.float32(rows) * 2).ravel().tolist()
    running.stop()


def test_an_error_hurts_no_neighbour(gate: Gate) -> None:
    running = served(gate)
    answers = at_once(running, [[[1, 1]], [[2, 1]], [[-1, 1]], [[3, 1]]])
    assert [status for status, _ in answers] == [200, 200, 400, 200]
    assert "a row begins with -1" in answers[2][1]["error"]
    assert gate.model.batches == [1, 3, 1, 1, 1]
    running.stop()


def test_a_full_queue_refuses(gate: Gate) -> None:
    running = served(gate, queue=3)
    answers = at_once(running, [[[1, 1]]] * 4)
    assert [status for status, _ in answers] == [200, 200, 200, 503]
    assert answers[3][1]["retry"] == "1" and "its limit" in answers[3][1]["error"]
    running.stop()


def test_a_request_whose_time_is_over_is_not_run(gate: Gate) -> None:
    running = served(gate, max_batch=1)
    first = threading.Thread(target=infer, args=(running, [[1, 1]]))
    first.start()
    assert gate.begun.wait(20)
    answers: list[Any] = []
    late = threading.Thread(target=lambda: answers.append(infer(running, [[2, 1]], timeout=1000)))
    late.start()
    time.sleep(0.2)
    gate.open.set()
    first.join(20)
    late.join(20)
    assert answers[0][0] == 504 and gate.model.batches == [1]
    running.stop()


def test_a_fixed_batch_is_filled_up() -> None:
    gate = Gate(rows=4)
    gate.open.set()
    running = served(gate, fixed_batch=True)
    assert infer(running, [[1, 2], [3, 4]])[1]["outputs"][0]["data"] == [2, 4, 6, 8]
    assert gate.model.batches == [4]
    assert infer(running, [[1, 2]] * 5)[0] == 400
    running.stop()


@pytest.mark.parametrize(
    ("base", "row", "rows"), [(0, 1, 1), (1, 0, 32), (4, 1, 32), (0.05, 1, 1), (0.5, 1, 8)]
)  # fmt: skip
def test_no_more_rows_are_joined_than_pay(monkeypatch: pytest.MonkeyPatch, base: float, row: float, rows: int) -> None:
    """By a clock that goes on by what a run is said to take."""
    from tilewright.serving.models import version

    now = [0.0]

    def work(x: np.ndarray) -> list[np.ndarray]:
        now[0] += base + row * len(x)
        return [x]

    monkeypatch.setattr(version, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    model = Fake([spec("x", ("N", 2))], [spec("y", ("N", 2))], work)
    loaded = version.Loaded("m", "1", Path("m.tw"), ModelSettings(), lambda path, settings: model)
    assert (loaded.joined_rows, loaded.most_rows) == (rows, 32)


def test_results_outlive_the_memory_of_joined_inputs() -> None:
    joined = Joined(Fake([spec("x", ("N", 2))], [spec("y", ("N", 2))], lambda x: [x]))
    batches = [[Request(), Request()], [Request(), Request()]]
    for number, batch in enumerate(batches):
        for request in batch:
            request.begin([np.full((1, 2), number, np.float32)], 1, 60.0)
        joined.run(batch)
    for number, batch in enumerate(batches):
        assert all((request.outputs[0] == number).all() for request in batch)


def test_a_reload_answers_with_the_old_model_what_it_has() -> None:
    """Requests that wait are the old model's, later ones the new one's; a load that fails changes nothing."""
    gates = [Gate(), Gate()]
    gates[1].open.set()
    left = list(gates)

    def loader(path: Path, settings: ModelSettings) -> Fake:
        if not left:
            raise InputError("no more models")
        return left.pop(0).model

    running = start(["m=/nowhere/m.tw"], loader, ModelSettings(**SLOW))
    answers: list[Any] = []
    old = threading.Thread(target=lambda: answers.append(infer(running, [[1, 1]])))
    old.start()
    assert gates[0].begun.wait(20)
    url = f"http://{running.http}/v2/repository/models/m/load"
    urllib.request.urlopen(urllib.request.Request(url, b"{}"), timeout=20).close()
    assert infer(running, [[5, 1]])[0] == 200 and gates[1].model.batches == [1]
    gates[0].open.set()
    old.join(20)
    assert answers[0][0] == 200 and gates[0].model.batches == [1]
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(url, b"{}"), timeout=20)
    assert "failed to load 'm': no more models" in caught.value.read().decode()
    assert infer(running, [[5, 1]])[0] == 200
    running.stop()


def test_a_stop_answers_what_there_is(gate: Gate) -> None:
    running = served(gate)
    answers: list[Any] = []
    client = threading.Thread(target=lambda: answers.append(infer(running, [[1, 1]])))
    client.start()
    assert gate.begun.wait(20)
    running.loop.call_soon_threadsafe(running.stopped.set)
    time.sleep(0.2)
    gate.open.set()
    client.join(20)
    assert answers[0][0] == 200
    running.stop()


@pytest.mark.parametrize(
    ("dtype", "kind", "values"),
    [
        ("bool", "BOOL", [True, False]), ("int8", "INT8", [-128, 127]), ("uint8", "UINT8", [0, 255]),
        ("int16", "INT16", [-9, 9]), ("uint16", "UINT16", [0, 65535]), ("int32", "INT32", [-9, 9]),
        ("uint32", "UINT32", [0, 2**32 - 1]), ("int64", "INT64", [-(2**63), 2**63 - 1]),
        ("uint64", "UINT64", [0, 2**63 - 1]), ("float16", "FP16", [0.5, -2.0]), ("float32", "FP32", [0.5, 3.0]),
        ("float64", "FP64", [0.1, 1e300]), ("bfloat16", "BF16", [0.5, -2.0]), ("string", "BYTES", ["", "été"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_every_type_comes_and_goes(protocol: str, dtype: str, kind: str, values: list[Any]) -> None:
    """By JSON, or typed contents, and as raw bytes, which tritonclient has for all types."""
    client_module = pytest.importorskip(f"tritonclient.{protocol}", reason="tritonclient is not installed")
    model = Fake([spec("x", (2,), dtype)], [spec("y", (2,), dtype)], lambda x: [x])
    running = start(["m=/nowhere/m.tw"], lambda path, settings: model)
    client = client_module.InferenceServerClient(running.http if protocol == "http" else running.grpc)
    array = np.array([v.encode() for v in values] if kind == "BYTES" else values, None if kind != "BYTES" else object)
    if kind != "BYTES":
        array = array.astype(DType(dtype).numpy)
    given = client_module.InferInput("x", [2], kind)
    given.set_data_from_numpy(array)
    answered = client.infer("m", [given]).as_numpy("y")
    assert answered.tolist() == array.tolist()
    if protocol == "http":
        body = {"inputs": [{"name": "x", "datatype": kind, "shape": [2], "data": values}]}
        url = f"http://{running.http}/v2/models/m/infer"
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=20) as answer:
            assert json.load(answer)["outputs"][0]["data"] == values
    running.stop()
