"""A trained Darknet network beside OpenCV's dnn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw

FOLDER = Path(__file__).resolve().parents[3].parent / "shared" / "models" / "real" / "darknet" / "yolo_fastest"


@pytest.mark.skipif(not FOLDER.is_dir(), reason="../shared/models/real/darknet is absent")
def test_yolo_fastest_is_that_of_opencv() -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV (opencv-python-headless<5) is not installed")
    if not hasattr(cv2.dnn, "readNetFromDarknet"):
        pytest.skip(f"OpenCV {cv2.__version__} reads no Darknet networks; 4.x does")
    (cfg,), (weights,) = FOLDER.glob("*.cfg"), FOLDER.glob("*.weights")
    net = cv2.dnn.readNetFromDarknet(str(cfg), str(weights))
    x = np.random.default_rng(0).random((1, 3, 320, 320)).astype("f")
    net.setInput(x)
    wanted = net.forward(net.getUnconnectedOutLayersNames())
    for ours, theirs in zip(tw.compile(cfg)(x), wanted, strict=True):
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-4, atol=1e-5)
