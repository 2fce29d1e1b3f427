"""The schema of TFLite files (schema.txt), as far as it is read here.

Own text rather than the package `tflite`: that knows 209 operators and reads without looking at bounds.
"""

from __future__ import annotations

from tilewright.frontend.messages import schema_entries, schema_text

_ENTRIES = schema_entries(schema_text("tilewright.frontend.tflite"))
#: The fields of each table, as they are spelled.
TABLES = {name: fields for name, *fields in _ENTRIES if name != "enum"}
#: The members of enumerations, and the tables of unions, by their codes.
ENUMS = {name: tuple(members) for kind, name, *members in _ENTRIES if kind == "enum"}

OPERATORS, ELEMENT_TYPES = ENUMS["BuiltinOperator"], ENUMS["TensorType"]
#: The functions that an operator may apply to its result.
ACTIVATIONS = ENUMS["ActivationFunctionType"]
