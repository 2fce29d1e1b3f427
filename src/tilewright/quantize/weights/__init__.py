"""Weights of a few bits as other programs store them, made products that never hold them as floats.

weights = read_weights("model.gguf")
y = weights["blk.0.ffn_up.weight"].dense(x)
"""

from tilewright.quantize.weights.coded import CodedWeights
from tilewright.quantize.weights.files import read_weights
from tilewright.quantize.weights.gguf_blocks import GGUF_TYPES, from_gguf
from tilewright.quantize.weights.packings import from_awq, from_channels, from_gptq, from_hqq

__all__ = [
    "GGUF_TYPES",
    "CodedWeights",
    "from_awq",
    "from_channels",
    "from_gguf",
    "from_gptq",
    "from_hqq",
    "read_weights",
]
