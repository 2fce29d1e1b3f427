"""Networks of many kinds as ONNX models, built from seeded weights: what `bench/networks.py --set zoo` measures.

One file a family; each network is a function without arguments that returns the model. They keep the shapes of the
layers of the networks that they are named after, some with fewer layers, so that one inference takes 1 to 200 ms.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx

from zoo import attention, convolutional, decoders, detection, grouped, pictures, points, sequences
from zoo.brought import BROUGHT as BROUGHT

_FAMILIES = (grouped, attention, convolutional, pictures, detection, sequences, decoders, points)

#: Name -> what builds the model, family by family.
NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    build.__name__: build for family in _FAMILIES for build in family.NETWORKS
}
