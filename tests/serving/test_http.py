"""HTTP by hand: what tritonclient never sends, limits of bytes and seconds, order, metrics; and the command itself."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.serving.conftest import MISSING, Running, start
from tilewright.cli.main import cli

pytest.importorskip("httptools", reason=MISSING)
pytest.importorskip("grpc", reason=MISSING)

X = np.arange(6, dtype=np.float32).reshape(2, 3)
INPUT = {"name": "x", "datatype": "FP32", "shape": [2, 3]}
INFER = "/v2/models/scale/infer"


@pytest.fixture(scope="module")
def strict(artifacts: Path) -> Iterator[Running]:
    """A server with low limits, which trusts nobody."""
    found = start(
        [str(artifacts)], body=4096, json=2048, connections=8, head_seconds=0.5, stall_seconds=0.5, idle_seconds=2.0,
        trusted=False,
    )  # fmt: skip
    yield found
    found.stop()


def post(body: bytes, path: str = INFER, **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode("latin-1") + body


def talk(running: Running, data: bytes) -> bytes:
    """All that a server answers until it closes, or for a second."""
    with socket.create_connection(("127.0.0.1", running.server.port), timeout=10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
        return answer


def asked(running: Running, data: bytes) -> tuple[int, str, bytes]:
    """Status, head and body of one answer."""
    head, _, body = talk(running, data).partition(b"\r\n\r\n")
    return int(head.split()[1]), head.decode("latin-1"), body


def inputs(**changes: object) -> bytes:
    return json.dumps({"inputs": [{**INPUT, "data": X.ravel().tolist(), **changes}]}).encode()


def test_raw_tensors_and_json_side_by_side(running: Running) -> None:
    head = json.dumps({
        "id": "a", "inputs": [{**INPUT, "parameters": {"binary_data_size": X.nbytes}}],
        "parameters": {"binary_data_output": True},
    }).encode()  # fmt: skip
    for _ in range(2):  # the second one is answered by what was kept of the first
        status, lines, body = asked(running, post(head + X.tobytes(), Inference_Header_Content_Length=str(len(head))))
        length = int(lines.split("Inference-Header-Content-Length: ")[1].split("\r\n")[0])
        assert status == 200 and json.loads(body[:length])["outputs"][0]["parameters"] == {"binary_data_size": X.nbytes}
        assert np.array_equal(np.frombuffer(body[length:], np.float32).reshape(2, 3), X * 3)
    status, _, body = asked(running, post(inputs(data=X.tolist())))
    assert json.loads(body)["outputs"][0]["data"] == (X * 3).ravel().tolist()


@pytest.mark.parametrize(
    ("body", "headers", "status", "message"),
    [
        (b"{", {}, 400, "failed to parse the request's JSON"),
        (b"[]", {}, 400, "is no object, but list"),
        (b"[" * 100_000, {}, 400, "failed to parse"),
        (b"{}", {}, 400, "inputs is no list of objects"),
        (inputs(shape=[3, 3]), {}, 400, "has 6 elements, and its shape"),
        (inputs(shape=[1 << 62, 0]), {}, 400, "has no shape of sizes"),
        (inputs(shape="2"), {}, 400, "has no shape of sizes"),
        (inputs(data=[1, 2, 3, 4, 5, "a"]), {}, 400, "has data that are no FP32"),
        (inputs(data=[[1], [2, 3]]), {}, 400, "has data that are no FP32"),
        (inputs(data=None), {}, 400, "has no data"),
        (inputs(name="y"), {}, 400, "has no input 'y'"),
        (inputs(parameters={"binary_data_size": 24}), {}, 400, "has 0 bytes, and binary_data_size is 24"),
        (inputs(parameters={"shared_memory_region": "r"}, data=None), {}, 400, "unable to find shared memory region"),
        (inputs() + b"1", {"Inference_Header_Content_Length": str(len(inputs()))}, 400, "bytes behind the last input"),
        (inputs(), {"Inference_Header_Content_Length": "99999"}, 400, "is no length within the body"),
        (inputs(), {"Inference_Header_Content_Length": "-1"}, 400, "is no length within the body"),
        (inputs(), {"Content_Encoding": "gzip"}, 400, "the body is no gzip"),
        (inputs(), {"Content_Encoding": "br"}, 415, "gzip and deflate are understood"),
    ],
)  # fmt: skip
def test_malformed_requests(running: Running, body: bytes, headers: dict[str, str], status: int, message: str) -> None:
    found, _, answer = asked(running, post(body, **headers))
    assert (found, message in json.loads(answer)["error"]) == (status, True), answer


def test_values_that_a_type_does_not_hold(running: Running) -> None:
    from tilewright.serving.models.datatypes import from_values
    from tilewright.serving.models.errors import RequestError

    for values, kind in (
        ([1.5], "INT32"),
        ([300], "UINT8"),
        ([-1], "UINT64"),
        ([1], "BOOL"),
        ([True], "INT8"),
        ([1], "BYTES"),
    ):
        with pytest.raises(RequestError, match="no"):
            from_values(values, kind, (1,), "x")


def test_compressed_bodies(running: Running, strict: Running) -> None:
    assert asked(running, post(zlib.compress(inputs()), Content_Encoding="deflate"))[0] == 200
    status, _, body = asked(strict, post(zlib.compress(bytes(1 << 20)), Content_Encoding="deflate"))
    assert status == 413 and "without its compression" in json.loads(body)["error"]


def test_bodies_above_the_limit(strict: Running) -> None:
    assert asked(strict, post(bytes(4097)))[0] == 413
    assert asked(strict, post(b" " * 3000))[0] == 413, "of JSON"
    assert asked(strict, b"POST /v2 HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n")[0] in (400, 413)
    chunks = b"".join(b"400\r\n" + bytes(1024) + b"\r\n" for _ in range(5))
    assert asked(strict, b"POST /v2 HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks)[0] == 413
    assert strict.server.core.buffered == 0


def test_a_head_above_the_limit(strict: Running) -> None:
    assert asked(strict, b"GET /v2 HTTP/1.1\r\nX: " + b"a" * 40_000)[0] == 431


LIVE = b"GET /v2/health/live HTTP/1.1\r\n\r\n"
LIVE_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET /v2 HT", post(bytes(100))[:-50], LIVE + b"GET /v2 HT"])
def test_clients_that_stop_in_the_midst_are_closed(strict: Running, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", strict.server.port), timeout=10) as connection:
        connection.sendall(sent)
        began, answer = time.monotonic(), b""
        while piece := connection.recv(4096):
            answer += piece
    assert time.monotonic() - began < 8
    assert answer.removeprefix(LIVE_ANSWER).startswith(b"HTTP/1.1 408") if sent else not answer


def test_connections_above_the_limit(strict: Running) -> None:
    many = [socket.create_connection(("127.0.0.1", strict.server.port), timeout=10) for _ in range(9)]
    assert many[-1].recv(100).startswith(b"HTTP/1.1 503")
    for connection in many:
        connection.close()
    until = time.monotonic() + 5
    while strict.server.core.connections and time.monotonic() < until:
        time.sleep(0.01)
    assert asked(strict, b"GET /v2 HTTP/1.1\r\n\r\n")[0] == 200


def test_other_machines_may_infer_only(strict: Running) -> None:
    assert asked(strict, post(inputs()))[0] == 200
    for path in ("/v2/repository/models/scale/load", "/v2/repository/models/scale/unload"):
        status, _, body = asked(strict, post(b"{}", path))
        assert status == 403 and "--trust-clients" in json.loads(body)["error"]
    region = json.dumps({"key": "/k", "byte_size": 8}).encode()
    assert asked(strict, post(region, "/v2/systemsharedmemory/region/r/register"))[0] == 403


@pytest.mark.parametrize("key", ["/../etc/passwd", "/a/b", "", "/..", "/tilewright-none", 7])
def test_keys_that_are_no_shared_memory(running: Running, key: object) -> None:
    body = json.dumps({"key": key, "byte_size": 8}).encode()
    assert asked(running, post(body, "/v2/systemsharedmemory/region/r/register"))[0] == 400


def test_shared_memory_that_is_cut_short(running: Running) -> None:
    """A mapping of it would end the server."""
    path = Path(f"/dev/shm/tilewright-test-{os.getpid()}")
    path.write_bytes(bytes(X.nbytes))
    try:
        body = json.dumps({"key": path.name, "byte_size": X.nbytes}).encode()
        assert asked(running, post(body, "/v2/systemsharedmemory/region/cut/register"))[0] == 200
        os.truncate(path, 4)
        parameters = {"shared_memory_region": "cut", "shared_memory_byte_size": X.nbytes}
        status, _, answer = asked(running, post(inputs(data=None, parameters=parameters)))
        assert status == 400 and "was cut short" in json.loads(answer)["error"]
    finally:
        path.unlink()
        asked(running, post(b"", "/v2/systemsharedmemory/region/cut/unregister"))


def test_a_head_that_came_before_with_other_bodies(running: Running) -> None:
    """Whole requests, pieces of one, several at once, and the begin of one behind another."""
    bodies = [json.dumps({"id": str(n), "inputs": [{**INPUT, "data": [n] * 6}]}).encode() for n in range(10, 20)]
    sent = b"".join(post(body) for body in bodies)
    ends = [int(len(sent) * part / 10) for part in (1, 2, 3, 3.02, 4, 4.9, 5, 7, 8.5, 9, 10)]
    answers = b""
    with socket.create_connection(("127.0.0.1", running.server.port), timeout=10) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start, end in zip([0, *ends], ends):
            connection.sendall(sent[start:end])
            while answers.count(b'"id": "') < end * 10 // len(sent):
                answers += connection.recv(65536)
            time.sleep(0.02)  # two pieces may come as one
    assert [part.split(b'"')[0] for part in answers.split(b'"id": "')[1:]] == [str(n).encode() for n in range(10, 20)]
    assert any(
        len(post(bodies[0])) == len(head) + fields.length for head, fields in running.server.routes.heads.items()
    )


def test_requests_sent_ahead_are_answered_in_order(running: Running) -> None:
    bodies = [json.dumps({"id": str(n), "inputs": [{**INPUT, "data": [n] * 6}]}).encode() for n in range(20)]
    answers = talk(running, b"".join(post(body) for body in bodies))
    assert [part.split(b'"')[0] for part in answers.split(b'"id": "')[1:]] == [str(n).encode() for n in range(20)]


def test_a_flood_of_requests_ahead_ends_the_connection(running: Running) -> None:
    try:
        answers = talk(running, post(inputs()) * 1000)
    except OSError:  # reset while the flood is still being sent
        answers = b""
    assert answers.count(b"HTTP/1.1 200") < 1000
    assert asked(running, post(inputs()))[0] == 200


def test_paths_that_are_none(running: Running) -> None:
    for line, status in (
        ("GET /v3", 404), ("PUT /v2", 405), ("GET /v2/models/none", 404), ("GET /v2/models/scale/versions/9", 404),
        ("GET /v2/models/scale/versions/1", 200), ("GET /v2/models/scale/config", 200), ("GET /v2/health/live", 200),
        ("GET /v2/models/none/ready", 400), ("GET /v2/models/scale/stats", 200), ("GET /%00%ff", 404),
    ):  # fmt: skip
        assert asked(running, f"{line} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n".encode())[0] == status, line


def test_metrics(running: Running) -> None:
    asked(running, post(inputs()))
    _, _, body = asked(running, b"GET /metrics HTTP/1.1\r\n\r\n")
    lines = dict(line.rsplit(" ", 1) for line in body.decode().splitlines() if not line.startswith("#"))
    labels = 'model="scale",version="3"'
    assert float(lines[f'tilewright_requests_total{{{labels},result="success"}}']) >= 1
    assert (
        lines[f'tilewright_request_seconds_bucket{{{labels},le="+Inf"}}']
        == lines[f"tilewright_request_seconds_count{{{labels}}}"]
    )


def test_the_command_serves_without_the_compiler_and_ends(artifacts: Path) -> None:
    """Artifacts alone: what compiles is not imported. SIGTERM ends it with status 0."""
    program = (
        "import sys, threading\nfrom tilewright.cli.main import cli\n"
        "import tilewright.serving.server as server\nran = server.serve\n"
        "def serve(make, limits, address, ready):\n"
        "    def then(found):\n"
        "        ready(found)\n"
        "        heavy = ('tilewright.relay', 'tilewright.topi', 'tilewright.driver', 'llvmlite')\n"
        "        print([name for name in heavy if name in sys.modules], flush=True)\n"
        "    ran(make, limits, address, then)\n"
        "server.serve = serve\n"
        f"cli.main(['serve', {str(artifacts)!r}, '--port', '0', '--grpc-port', '0'])\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(5)]
    assert lines[0] == "fixed 1: READY\n" and lines[3].startswith("serving at http://127.0.0.1:") and lines[4] == "[]\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/nowhere/model.tw", "model=/other"], "two models are named 'model'"),
        (["/nowhere", "--max-batch", "0"], "is not in the range"),
        (["{empty}"], "there are no models in"),
    ],
)
def test_errors_of_the_command(
    tmp_path: Path, arguments: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    from tilewright.cli.main import guarded

    given = [text.replace("{empty}", str(tmp_path)) for text in arguments]
    assert guarded(lambda: cli.main(["serve", *given, "--port", "0", "--no-grpc"], standalone_mode=False)) == 2
    assert message in capfd.readouterr().err


def test_messages_have_the_numbers_of_the_protocol() -> None:
    """Every field of ours is one of the client's, by number, name and type on the wire."""
    theirs = pytest.importorskip("tritonclient.grpc.service_pb2", reason="tritonclient is not installed")
    from tilewright.serving.grpc.messages import messages

    names = {"ConfigTensor": "ModelInput", "ConfigOutput": "ModelOutput", "ModelConfig": "ModelConfig"}
    config = theirs.model__config__pb2.DESCRIPTOR.message_types_by_name
    found = dict(theirs.DESCRIPTOR.message_types_by_name)
    for message in [one for one in found.values() if not one.name.startswith("Cuda")]:
        found.update(message.nested_types_by_name)
    for name, made in messages().items():
        other = config[names[name]] if name in names else found[name]
        for field in made.DESCRIPTOR.fields:
            same = other.fields_by_number[field.number]
            kinds = {field.type, same.type}
            assert field.name == same.name and field.is_repeated == same.is_repeated, (name, field.name)
            assert len(kinds) == 1 or kinds == {field.TYPE_INT32, field.TYPE_ENUM}, (name, field.name)
