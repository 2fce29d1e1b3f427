"""Graph passes: one file each, each a function from a module to a module."""

from tilewright.relay.transform.infer_type import infer_type, tensor_type_of, type_of

__all__ = ["infer_type", "tensor_type_of", "type_of"]
