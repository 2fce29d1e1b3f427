"""The adapters of examples/serving, each run by the server that it is for, where that is installed."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import types
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilewright as tw
from tilewright import relay

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "serving"
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that doubles rows of three, of any batch."""
    x = relay.var("x", shape=(tw.te.size_var("N", hint=8), 3), dtype="float32")
    path = tmp_path_factory.mktemp("adapters") / "double.tw"
    tw.compile(relay.IRModule.from_expr(relay.multiply(x, relay.const(np.float32(2)))), threads=1).save(path)
    return path


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@contextmanager
def running(command: list[str], health: str, **variables: str) -> Iterator[None]:
    """A server as a process, from when its health is good."""
    source = os.pathsep.join([str(FOLDER), *sys.path])
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": source, **variables}, start_new_session=True)
    try:
        until = time.monotonic() + 240
        while True:
            try:
                urllib.request.urlopen(health, timeout=5).close()
                break
            except (OSError, urllib.error.HTTPError):
                assert process.poll() is None and time.monotonic() < until, "it starts"
                time.sleep(0.2)
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def post(url: str, body: Any) -> Any:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def infer(port: int) -> np.ndarray:
    """The answer of a server of the Open Inference Protocol."""
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 3], "data": X.ravel().tolist()}]}
    (output,) = post(f"http://127.0.0.1:{port}/v2/models/double/infer", body)["outputs"]
    return np.float32(output["data"]).reshape(output["shape"])


class Stub(types.ModuleType):
    """The part of Triton's `triton_python_backend_utils` that the example uses."""

    class TritonError(Exception):
        pass

    class Tensor:
        def __init__(self, name: str, array: np.ndarray) -> None:
            self.name, self.array = name, array

        def as_numpy(self) -> np.ndarray:
            return self.array

    class InferenceResponse:
        def __init__(self, output_tensors: Any = (), error: Any = None) -> None:
            self.tensors, self.error = output_tensors, error

    @staticmethod
    def get_input_tensor_by_name(request: dict[str, Any], name: str) -> Any:
        return request[name]


def test_triton(artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that come together are one run; one of a wrong shape gets its error, and the others their answers."""
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", Stub("triton_python_backend_utils"))
    shutil.copy(FOLDER / "triton" / "model.py", tmp_path)
    shutil.copy(artifact, tmp_path / "model.tw")
    spec: dict[str, Any] = {"__file__": str(tmp_path / "model.py"), "__name__": "model"}
    exec(compile((tmp_path / "model.py").read_text(), str(tmp_path / "model.py"), "exec"), spec)
    model = spec["TritonPythonModel"]()
    model.initialize({})
    runs = []
    ran = model.model.run
    monkeypatch.setattr(model.model, "run", lambda inputs: runs.append(len(inputs["x"])) or ran(inputs))
    answers = model.execute([{"x": Stub.Tensor("x", X + n)} for n in range(3)])
    assert runs == [6]
    for number, answer in enumerate(answers):
        assert np.array_equal(answer.tensors[0].array, (X + number) * 2)
    good, bad = model.execute([{"x": Stub.Tensor("x", X)}, {"x": Stub.Tensor("x", X[:, :2].copy())}])
    assert np.array_equal(good.tensors[0].array, X * 2) and "wrong shape" in str(bad.error)
    model.finalize()


def test_mlserver(artifact: Path, tmp_path: Path) -> None:
    pytest.importorskip("mlserver", reason="MLServer is not installed")
    shutil.copy(artifact, tmp_path)
    subprocess.run(
        [sys.executable, str(FOLDER / "mlserver_runtime.py"), str(tmp_path / "double.tw")], check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    port = free_port()
    (tmp_path / "settings.json").write_text(
        json.dumps({"http_port": port, "grpc_port": free_port(), "metrics_port": free_port(), "parallel_workers": 0})
    )
    command = [str(Path(sys.executable).parent / "mlserver"), "start", str(tmp_path)]
    with running(command, f"http://127.0.0.1:{port}/v2/health/ready"):
        assert np.array_equal(infer(port), X * 2)


def test_kserve(artifact: Path) -> None:
    pytest.importorskip("kserve", reason="KServe is not installed")
    port = free_port()
    command = [sys.executable, str(FOLDER / "kserve_model.py"), "--artifact", str(artifact), "--model_name", "double"]
    command += ["--http_port", str(port), "--grpc_port", str(free_port())]
    with running(command, f"http://127.0.0.1:{port}/v2/health/ready"):
        assert np.array_equal(infer(port), X * 2)


def test_bentoml(artifact: Path) -> None:
    pytest.importorskip("bentoml", reason="BentoML is not installed")
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "bentoml",
        "serve",
        f"{FOLDER / 'bentoml_service.py'}:Tilewright",
        "--port",
        str(port),
    ]
    with running(command, f"http://127.0.0.1:{port}/readyz", ARTIFACT=str(artifact)):
        assert np.array_equal(post(f"http://127.0.0.1:{port}/run", {"x": X.tolist()}), X * 2)


def test_ray_serve(artifact: Path) -> None:
    pytest.importorskip("ray.serve", reason="Ray Serve is not installed")
    port = free_port()
    program = (
        "import sys, time\nimport ray\nfrom ray import serve\nfrom ray_serve import build\n"
        "ray.init(num_cpus=1, include_dashboard=False)\n"
        f"serve.start(http_options={{'port': {port}}})\n"
        "serve.run(build({'artifact': sys.argv[1]}))\n"
        "time.sleep(300)\n"
    )
    with running([sys.executable, "-c", program, str(artifact)], f"http://127.0.0.1:{port}/-/healthz"):
        until = time.monotonic() + 120
        while True:
            try:
                assert np.array_equal(post(f"http://127.0.0.1:{port}/", {"x": X.tolist()})["y"], X * 2)
                break
            except urllib.error.HTTPError:
                assert time.monotonic() < until
                time.sleep(0.5)
