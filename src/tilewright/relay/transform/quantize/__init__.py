"""Numbers in fewer bits: post-training quantization, arithmetic on integers, 16-bit floats."""

from tilewright.relay.transform.quantize.partition_conversions import partition_conversions
from tilewright.relay.transform.quantize.qconfig import QConfig, qconfig
from tilewright.relay.transform.quantize.quantize import quantize
from tilewright.relay.transform.quantize.quantize_to_shifts import quantize_to_shifts

__all__ = ["QConfig", "partition_conversions", "qconfig", "quantize", "quantize_to_shifts"]
