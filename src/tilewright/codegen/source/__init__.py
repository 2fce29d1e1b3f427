"""Loop IR to source text of C-like languages: one dialect table a language, one emitter for all of them."""

from tilewright.codegen.source.c import EmittedSource, emit_c

__all__ = ["EmittedSource", "emit_c"]
