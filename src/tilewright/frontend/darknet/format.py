"""Darknet among the formats: a cfg file with its weights beside it, or a pair of both."""

from tilewright.frontend.darknet import converts, from_darknet, initial_states
from tilewright.frontend.darknet.cfg import is_cfg
from tilewright.frontend.darknet.convert import weights_beside
from tilewright.frontend.two_files import PairFrontend

DARKNET = PairFrontend(
    "darknet", "a Darknet cfg", "a tuple of a Darknet cfg and its weights", is_cfg, from_darknet, weights_beside,
    {"layers": converts}, initial_states,
)  # fmt: skip
