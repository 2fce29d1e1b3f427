"""Numbers in fewer bits: post-training quantization, arithmetic on integers, 16-bit floats."""

from tilewright.relay.transform.quantize.qconfig import QConfig, qconfig
from tilewright.relay.transform.quantize.quantize import quantize
from tilewright.relay.transform.quantize.quantize_to_shifts import quantize_to_shifts

__all__ = ["QConfig", "qconfig", "quantize", "quantize_to_shifts"]
