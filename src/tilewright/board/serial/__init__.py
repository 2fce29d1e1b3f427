"""Boards at the other end of a serial line: firmware around a model, a protocol that noise does not get through."""
