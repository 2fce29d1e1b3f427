"""Trained Caffe networks beside OpenCV's dnn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw

FOLDER = Path(__file__).resolve().parents[3].parent / "shared" / "models" / "real" / "caffe" / "wechat_qr"


@pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/models/real/caffe is absent")
@pytest.mark.parametrize("name", ["detect", "sr"])
def test_wechat_qr_is_that_of_opencv(name: str) -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV (opencv-python-headless<5) is not installed")
    if not hasattr(cv2.dnn, "readNetFromCaffe"):
        pytest.skip(f"OpenCV {cv2.__version__} reads no Caffe networks; 4.x does")
    path = FOLDER / f"{name}.prototxt"
    net = cv2.dnn.readNetFromCaffe(str(path), str(path.with_suffix(".caffemodel")))
    exe = tw.compile(path)
    x = np.random.default_rng(0).random(exe.inputs[0].shape).astype("f")
    net.setInput(x)
    np.testing.assert_allclose(np.asarray(exe(x)), net.forward(), rtol=1e-4, atol=5e-5)
