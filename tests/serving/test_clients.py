"""Unmodified tritonclient, over HTTP and gRPC: states, metadata, inferences, shared memory, errors."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest

from tests.serving.conftest import Running

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(params=["http", "grpc"])
def protocol(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(f"tritonclient.{request.param}", reason="tritonclient is not installed")


@pytest.fixture
def client(protocol: Any, running: Running) -> Any:
    address = running.http if protocol.__name__.endswith("http") else running.grpc
    return protocol.InferenceServerClient(address)


def tensor(protocol: Any, array: np.ndarray, kind: str = "FP32", name: str = "x") -> Any:
    made = protocol.InferInput(name, list(array.shape), kind)
    made.set_data_from_numpy(array)
    return made


def plain(answer: Any) -> Any:
    """An answer of either client as plain data."""
    if isinstance(answer, dict | list):
        return answer
    from google.protobuf.json_format import MessageToDict

    return MessageToDict(answer, preserving_proto_field_name=True)


def test_states_and_metadata(client: Any) -> None:
    assert client.is_server_live() and client.is_server_ready()
    assert client.is_model_ready("scale") and client.is_model_ready("scale", "1")
    assert not client.is_model_ready("scale", "2") and not client.is_model_ready("other")
    assert plain(client.get_server_metadata())["name"] == "tilewright"
    metadata = plain(client.get_model_metadata("scale"))
    assert metadata["versions"] == ["1", "3"]
    (entry,) = metadata["inputs"]
    assert (entry["name"], entry["datatype"], [int(dim) for dim in entry["shape"]]) == ("x", "FP32", [-1, 3])
    config = plain(client.get_model_config("fixed"))
    assert config.get("config", config)["max_batch_size"] == 4
    assert config.get("config", config)["input"][0]["data_type"] == "TYPE_FP32"
    index = plain(client.get_model_repository_index())
    rows = index if isinstance(index, list) else index["models"]
    assert {(row["name"], row["version"], row["state"]) for row in rows} == {
        ("scale", "1", "READY"), ("scale", "3", "READY"), ("fixed", "1", "READY"),
    }  # fmt: skip


@pytest.mark.parametrize(("version", "factor"), [("", 3), ("1", 2), ("3", 3)])
def test_an_inference(client: Any, protocol: Any, version: str, factor: int) -> None:
    result = client.infer("scale", [tensor(protocol, X)], model_version=version, request_id="seven")
    assert np.array_equal(result.as_numpy(result.get_response()["outputs"][0]["name"] if isinstance(
        result.get_response(), dict) else result.get_response().outputs[0].name), X * factor)  # fmt: skip
    assert plain(result.get_response())["id"] == "seven"


def output_name(client: Any, model: str = "scale") -> str:
    return plain(client.get_model_metadata(model))["outputs"][0]["name"]


def test_fewer_rows_than_a_fixed_batch(client: Any, protocol: Any) -> None:
    name = output_name(client, "fixed")
    assert np.array_equal(client.infer("fixed", [tensor(protocol, X[:1])]).as_numpy(name), X[:1] * 2)


def test_shared_memory(client: Any, protocol: Any) -> None:
    shm = pytest.importorskip("tritonclient.utils.shared_memory")
    key, name = f"/tilewright-{uuid.uuid4().hex}", output_name(client)
    handle = shm.create_shared_memory_region("both", key, 2 * X.nbytes)
    try:
        shm.set_shared_memory_region(handle, [X])
        client.register_system_shared_memory("both", key, 2 * X.nbytes)
        status = plain(client.get_system_shared_memory_status())
        assert key in str(status)
        given = protocol.InferInput("x", list(X.shape), "FP32")
        given.set_shared_memory("both", X.nbytes)
        wanted = protocol.InferRequestedOutput(name)
        wanted.set_shared_memory("both", X.nbytes, offset=X.nbytes)
        client.infer("scale", [given], outputs=[wanted])
        assert np.array_equal(shm.get_contents_as_numpy(handle, np.float32, X.shape, offset=X.nbytes), X * 3)
        wanted.set_shared_memory("both", X.nbytes, offset=X.nbytes + 4)
        with pytest.raises(Exception, match="are not all in shared memory region"):
            client.infer("scale", [given], outputs=[wanted])
    finally:
        client.unregister_system_shared_memory()
        shm.destroy_shared_memory_region(handle)
    assert key not in str(plain(client.get_system_shared_memory_status()))


@pytest.mark.parametrize(
    ("model", "version", "array", "kind", "name", "message"),
    [
        ("other", "", X, "FP32", "x", "'other' is not found"),
        ("scale", "2", X, "FP32", "x", "version 2 is not found; there are 3, 1"),
        ("scale", "", X, "FP32", "y", "has no input 'y'; it expects x: FP32"),
        ("scale", "", X[:, :2].copy(), "FP32", "x", r"is FP32\[-1, 3\], and not FP32\[2, 2\]"),
        ("scale", "", X.astype(np.int32), "INT32", "x", r"and not INT32\[2, 3\]"),
        ("scale", "", np.zeros((33, 3), np.float32), "FP32", "x", "takes 1 to 32 rows in a request, and not 33"),
    ],
)
def test_errors(
    client: Any, protocol: Any, model: str, version: str, array: Any, kind: str, name: str, message: str
) -> None:
    with pytest.raises(Exception, match=message) as caught:
        client.infer(model, [tensor(protocol, array, kind, name)], model_version=version)
    unknown = message.endswith("found") or "there are" in message
    assert caught.value.status() in (
        ("404", "StatusCode.NOT_FOUND") if unknown else ("400", "StatusCode.INVALID_ARGUMENT")
    )


def test_statistics_count(client: Any, protocol: Any) -> None:
    def successes() -> int:
        (row,) = plain(client.get_inference_statistics("scale", "1"))["model_stats"]
        return int(row["inference_stats"]["success"].get("count", 0))

    before = successes()
    client.infer("scale", [tensor(protocol, X)], model_version="1")
    assert successes() == before + 1


def test_unload_and_load(client: Any, protocol: Any) -> None:
    client.unload_model("fixed")
    assert not client.is_model_ready("fixed")
    client.load_model("fixed")
    assert client.is_model_ready("fixed")
    with pytest.raises(Exception, match="there is no such model"):
        client.load_model("other")
    with pytest.raises(Exception, match="there is no setting 'speed'"):
        client.load_model("fixed", config='{"speed": 1}')
    assert client.is_model_ready("fixed"), "what served before goes on"


def test_a_stream_answers_in_order(running: Running) -> None:
    grpc = pytest.importorskip("tritonclient.grpc", reason="tritonclient is not installed")
    client, answers = grpc.InferenceServerClient(running.grpc), []
    client.start_stream(lambda result, error: answers.append(error or result))
    for number in range(8):
        array = X[:, :2].copy() if number == 3 else X + number
        client.async_stream_infer("scale", [tensor(grpc, array)], request_id=str(number))
    client.stop_stream()
    assert len(answers) == 8 and "and not FP32[2, 2]" in str(answers[3])
    del answers[3]
    assert [answer.get_response().id for answer in answers] == ["0", "1", "2", "4", "5", "6", "7"]
