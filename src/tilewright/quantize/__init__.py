"""Quantization: a float model to one in integers, after training or in training, or with weights of a few bits."""

from tilewright.quantize.aware import Aware, Bits, quantize_aware
from tilewright.quantize.quantize import Quantized, quantize
from tilewright.quantize.recipe import Recipe, read_recipe
from tilewright.quantize.weight_only import QuantizedWeights
from tilewright.quantize.weight_recipe import WeightRecipe, read_weight_recipe

__all__ = [
    "Aware",
    "Bits",
    "Quantized",
    "QuantizedWeights",
    "Recipe",
    "WeightRecipe",
    "quantize",
    "quantize_aware",
    "read_recipe",
    "read_weight_recipe",
]
