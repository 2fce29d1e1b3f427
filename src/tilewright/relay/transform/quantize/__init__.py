"""Numbers in fewer bits: post-training quantization, arithmetic on integers, 16-bit floats."""

from tilewright.relay.transform.quantize.qconfig import QConfig, qconfig
from tilewright.relay.transform.quantize.quantize import quantize

__all__ = ["QConfig", "qconfig", "quantize"]
