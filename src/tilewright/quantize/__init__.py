"""Quantization: a float model and samples of its inputs to a model in integers, after training or in training."""

from tilewright.quantize.aware import Aware, Bits, quantize_aware
from tilewright.quantize.quantize import Quantized, quantize
from tilewright.quantize.recipe import Recipe, read_recipe

__all__ = ["Aware", "Bits", "Quantized", "Recipe", "quantize", "quantize_aware", "read_recipe"]
