"""All families of converters: importing this registers them."""

from tilewright.frontend.converters import import_families

import_families(
    "tilewright.frontend.keras",
    "activation attention convolution core image "
    "image_operations index_operations merging models nn_operations normalization numeric_operations "
    "preprocessing product_operations quantized recurrent reduce_operations reshaping "
    "shape_operations signal text ",
)
