"""The messages of Core ML models (schema.txt), and the element types and operations that ML programs know."""

from tilewright.frontend.messages import Schema

SCHEMA = Schema.of("tilewright.frontend.coreml")

#: Element types of MIL in NumPy's terms.
DTYPES = {
    "BOOL": "bool", "FLOAT16": "float16", "FLOAT32": "float32", "FLOAT64": "float64", "BFLOAT16": "bfloat16",
    "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "UINT8": "uint8", "UINT16": "uint16",
    "UINT32": "uint32", "UINT64": "uint64",
}  # fmt: skip
