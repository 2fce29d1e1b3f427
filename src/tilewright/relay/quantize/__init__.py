"""Post-training quantization: products of float models computed in 8-bit integers."""

from tilewright.relay.quantize.qconfig import QConfig, qconfig
from tilewright.relay.quantize.quantize import quantize

__all__ = ["QConfig", "qconfig", "quantize"]
