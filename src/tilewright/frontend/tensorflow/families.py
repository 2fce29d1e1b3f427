"""All families of converters: importing this registers them."""

from tilewright.frontend.converters import import_families

import_families(
    "tilewright.frontend.tensorflow",
    "control dilation image indexing lists loops math nn reduce shape tables",
)
