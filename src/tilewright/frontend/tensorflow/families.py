"""All families of converters: importing this registers them."""

from tilewright.frontend.tensorflow import (  # noqa: F401
    control,
    dilation,
    image,
    indexing,
    linalg,
    lists,
    loops,
    math,
    nn,
    reduce,
    shape,
    signal,
    tables,
)
