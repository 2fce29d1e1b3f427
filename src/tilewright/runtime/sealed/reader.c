/* Sealed weights: header (48 bytes), encrypted bytes, tag (16), signature (64). The header is the format's name (8), the
   number of bytes (8, from the lowest on), the model that they belong to (16), the nonce (12) and 4 zeros; the tag covers
   header and encrypted bytes, the signature all before it. Nothing is decrypted before both were found right. */
#define SEALED_HEADER 48u
#define SEALED_TAG 16u
#define SEALED_SIGNATURE 64u

static const uint8_t sealed_format[8] = {'T', 'W', 'S', 'E', 'A', 'L', '0', '1'};

/* Codes are the header's; `model` has 16 bytes, `public_key` and `key` 32. */
static int sealed_open(const uint8_t *sealed, size_t sealed_bytes, const uint8_t *model, const uint8_t *public_key,
                       const uint8_t *key, uint8_t *memory, size_t memory_bytes) {
  const uint8_t *const data = sealed + SEALED_HEADER;
  sealed_cipher cipher;
  uint64_t bytes = 0;
  uint8_t tag[SEALED_TAG];
  int i;
  if (!sealed || !public_key || !key || !memory) return 1;
  if ((uintptr_t)memory % 64) return 4;
  if (sealed_bytes < SEALED_HEADER + SEALED_TAG + SEALED_SIGNATURE) return 101;
  if (sealed_differs(sealed, sealed_format, 8)) return 102;
  for (i = 7; i >= 0; i--) bytes = bytes << 8 | sealed[8 + i];
  if (bytes != sealed_bytes - (SEALED_HEADER + SEALED_TAG + SEALED_SIGNATURE)) return 101;
  if (sealed_differs(sealed + 16, model, 16)) return 103;
  if (memory_bytes < bytes) return 3;
  if (sealed_verify(sealed + sealed_bytes - SEALED_SIGNATURE, public_key, sealed, sealed_bytes - SEALED_SIGNATURE))
    return 104;
  sealed_expand_key(&cipher, key);
  sealed_tag(&cipher, sealed + 32, sealed, SEALED_HEADER, data, (size_t)bytes, tag);
  if (sealed_differs(tag, data + bytes, SEALED_TAG)) return 105;
  sealed_decrypt(&cipher, sealed + 32, data, (size_t)bytes, memory);
  return 0;
}
