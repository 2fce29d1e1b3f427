"""All families of converters: importing this registers them."""

from tilewright.frontend.converters import import_families

import_families(
    "tilewright.frontend.keras",
    "attention convolution core image merging models nn_operations normalization numeric_operations preprocessing "
    "product_operations quantized recurrent reduce_operations reshaping shape_operations signal",
)
