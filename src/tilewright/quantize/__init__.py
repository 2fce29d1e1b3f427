"""Post-training quantization: a float model and samples of its inputs to a model in integers, with its loss."""

from tilewright.quantize.quantize import Quantized, quantize
from tilewright.quantize.recipe import Recipe, read_recipe

__all__ = ["Quantized", "Recipe", "quantize", "read_recipe"]
