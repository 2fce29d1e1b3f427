"""The reader of sealed weights in C, without a library: SHA-512, AES-256-GCM, Ed25519, and the function of a model.

Its branches and addresses do not depend on keys, nor on what is decrypted; multiplications of 64 bits occur with public
numbers alone.
"""

from __future__ import annotations

import importlib.resources

#: What the function returns beside the codes of a model's interface.
ERRORS = {
    101: "the sealed file is truncated",
    102: "the file is not sealed, or by another version",
    103: "the weights belong to another model",
    104: "the signature is not by that key, or the file was changed",
    105: "the weights were encrypted with another key",
}

_DECLARATION = """
/* Must return 0 before the first run: checks the signature and the tag of the {sealed} bytes of {file}, and
   decrypts them into memory of at least {weights} bytes on a multiple of 64, which must stay. Keys have 32 bytes. Where
   it returns another code, nothing was decrypted:
{codes} */
int tilewright_{name}_load_weights(const void *sealed, size_t sealed_bytes, const uint8_t *public_key,
                                   const uint8_t *key, void *memory, size_t memory_bytes);
#define TILEWRIGHT_{upper}_WEIGHTS_BYTES {weights}
"""

_FUNCTION = """
static const void *tilewright_weights;

int tilewright_{name}_load_weights(const void *sealed, size_t sealed_bytes, const uint8_t *public_key,
                                   const uint8_t *key, void *memory, size_t memory_bytes) {{
  static const uint8_t model[16] = {{{owner}}};
  const int code = sealed_open(sealed, sealed_bytes, model, public_key, key, memory, memory_bytes);
  if (!code) tilewright_weights = memory;
  return code;
}}
"""

_PARTS = ("sha512.c", "aes.c", "ed25519.c", "reader.c")
_CODES = {1: "a pointer is null", 3: "the memory is too small", 4: "the memory is not aligned"} | ERRORS


def reader_text() -> str:
    """The static function `sealed_open` and what it needs, in C99."""
    folder = importlib.resources.files(__package__)
    parts = ((folder / name).read_text(encoding="utf-8") for name in _PARTS)
    return "\n".join(["#include <stddef.h>\n#include <stdint.h>\n", *parts])


def load_text(name: str, owner: bytes) -> str:
    """The function by which a program loads the weights of `name`; `owner` is the model's 16 bytes."""
    return reader_text() + _FUNCTION.format(name=name, owner=", ".join(map(str, owner)))


def load_declaration(name: str, file: str, weights: int, sealed: int) -> str:
    """Its declaration, for the header."""
    codes = "\n".join(f"     {code}: {text}" for code, text in sorted(_CODES.items()))
    return _DECLARATION.format(name=name, upper=name.upper(), file=file, weights=weights, sealed=sealed, codes=codes)
