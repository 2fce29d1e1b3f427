"""Agreement of programs as PyTorch's users write them with eager mode: networks, training, state, functions.

    python bench/frontends/torch_uses.py [--file FILE] [--seconds 500] [NAME ...]

A program (`torch_uses_*.py`) is a function of a `Way`: it marks what is to be compiled or exported, and returns what is
to be compared. It runs in eager mode in float32, in eager mode in float64 and with this package, each time with the
same random numbers. A line says how far the results are from those in float64, over the largest element of each tensor
(of one that is all but zero, over a thousandth of the largest of all), what eager mode's distance is, how many graphs
Dynamo made and what ran in PyTorch. A program that agrees ends with "agrees": `torch_compared.py` says what that
means. Needs torch alone.
"""

from __future__ import annotations

import torch_uses_functions  # noqa: F401
import torch_uses_networks  # noqa: F401
import torch_uses_state  # noqa: F401
import torch_uses_training  # noqa: F401
from torch_compared import compare_all
from torch_uses_way import PROGRAMS, measure

if __name__ == "__main__":
    compare_all(lambda: PROGRAMS, PROGRAMS.__getitem__, __doc__, measure)
