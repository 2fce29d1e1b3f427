"""The messages of Paddle's programs before version 3 (schema.txt), their element types and kinds of attributes."""

from tilewright.frontend.messages import Schema

SCHEMA = Schema.of("tilewright.frontend.paddle")

#: Element types that tensors may have, in NumPy's terms.
DTYPES = ("bool", "int16", "int32", "int64", "float16", "float32", "float64", "uint8", "int8", "bfloat16")

#: The kinds of the attribute of each type, by the field that holds it.
ATTRIBUTES = {
    "INT": "i", "FLOAT": "f", "STRING": "s", "INTS": "ints", "FLOATS": "floats", "STRINGS": "strings", "BOOLEAN": "b",
    "BOOLEANS": "bools", "LONG": "l", "LONGS": "longs", "FLOAT64S": "float64s",
    "FLOAT64": "float64", "BLOCK": "block_idx",
}  # fmt: skip
