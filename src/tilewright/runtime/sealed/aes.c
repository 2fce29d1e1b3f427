/* AES-256 (FIPS 197) in counter mode with GHASH (SP 800-38D), for nonces of 96 bits. Branches and addresses depend on
   lengths alone: sixteen blocks at a time are eight planes, one for each bit of their 256 bytes, and the S-box is
   computed, as x^254 in GF(2^8); GHASH masks instead of looking up. */
#define SEALED_WORDS 4
#define SEALED_STREAM (64 * SEALED_WORDS)

typedef struct {
  uint64_t words[SEALED_WORDS]; /* loops over these become vectors */
} sealed_plane;

typedef struct {
  uint64_t keys[15][8]; /* planes that repeat */
} sealed_cipher;

static void sealed_add_plane(sealed_plane *to, const sealed_plane *a) {
  int k;
  for (k = 0; k < SEALED_WORDS; k++) to->words[k] ^= a->words[k];
}

/* In GF(2^8) modulo x^8 + x^4 + x^3 + x + 1, for 256 numbers at once. */
static void sealed_reduce(sealed_plane *to, sealed_plane *wide) {
  int i;
  for (i = 14; i > 7; i--) {
    sealed_add_plane(wide + i - 4, wide + i);
    sealed_add_plane(wide + i - 5, wide + i);
    sealed_add_plane(wide + i - 7, wide + i);
    sealed_add_plane(wide + i - 8, wide + i);
  }
  for (i = 0; i < 8; i++) to[i] = wide[i];
}

static void sealed_multiply(sealed_plane *to, const sealed_plane *a, const sealed_plane *b) {
  sealed_plane wide[15] = {{{0}}};
  int i, j, k;
  for (i = 0; i < 8; i++)
    for (j = 0; j < 8; j++)
      for (k = 0; k < SEALED_WORDS; k++) wide[i + j].words[k] ^= a[i].words[k] & b[j].words[k];
  sealed_reduce(to, wide);
}

static void sealed_square(sealed_plane *to, const sealed_plane *a, int times) {
  static const sealed_plane zero = {{0}};
  sealed_plane wide[15];
  int i;
  for (i = 0; i < 8; i++) to[i] = a[i];
  while (times--) {
    for (i = 0; i < 15; i++) wide[i] = i % 2 ? zero : to[i / 2];
    sealed_reduce(to, wide);
  }
}

static void sealed_substitute(sealed_plane *planes) {
  sealed_plane x2[8], x3[8], x12[8], x15[8], inverse[8];
  int i, j, k;
  sealed_square(x2, planes, 1);
  sealed_multiply(x3, x2, planes);
  sealed_square(x12, x3, 2);
  sealed_multiply(x15, x12, x3);
  sealed_square(inverse, x15, 4);
  sealed_multiply(inverse, inverse, x12);
  sealed_multiply(inverse, inverse, x2);
  for (i = 0; i < 8; i++) {
    planes[i] = inverse[i];
    for (j = 4; j < 8; j++) sealed_add_plane(planes + i, inverse + (i + j) % 8);
    for (k = 0; k < SEALED_WORDS; k++) planes[i].words[k] ^= 0 - (uint64_t)(0x63 >> i & 1);
  }
}

/* Bytes to planes and back: bit b of byte n is bit n of plane b. */
static void sealed_to_planes(sealed_plane *planes, const uint8_t *bytes) {
  int i, k, n;
  for (k = 0; k < SEALED_WORDS; k++, bytes += 64)
    for (i = 0; i < 8; i++) {
      uint64_t word = 0;
      for (n = 0; n < 64; n++) word |= (uint64_t)(bytes[n] >> i & 1) << n;
      planes[i].words[k] = word;
    }
}

static void sealed_from_planes(uint8_t *bytes, const sealed_plane *planes) {
  int i, k, n;
  for (k = 0; k < SEALED_WORDS; k++, bytes += 64)
    for (n = 0; n < 64; n++) {
      unsigned byte = 0;
      for (i = 0; i < 8; i++) byte |= (unsigned)(planes[i].words[k] >> n & 1) << i;
      bytes[n] = (uint8_t)byte;
    }
}

/* Row r of a block, bytes r, r + 4, r + 8 and r + 12, turns left by r columns. */
static uint64_t sealed_shift_rows(uint64_t x) {
  const uint64_t row = UINT64_C(0x1111111111111111), each = UINT64_C(0x0001000100010001);
  const uint64_t second = x & row << 1, third = x & row << 2, fourth = x & row << 3;
  return (x & row) | (second >> 4 & each * 0x0fff) | (second & each * 0x000f) << 12 | (third >> 8 & each * 0x00ff) |
         (third & each * 0x00ff) << 8 | (fourth << 4 & each * 0xfff0) | (fourth >> 12 & each * 0x000f);
}

/* Byte r of each column becomes byte r + by. */
static uint64_t sealed_turn_columns(uint64_t x, int by) {
  const uint64_t each = UINT64_C(0x1111111111111111) * (0xfu >> by);
  return (x >> by & each) | (x & ~(each << by)) << (4 - by);
}

static void sealed_mix_columns(sealed_plane *planes) {
  sealed_plane next[8], pair[8];
  int i, k;
  for (i = 0; i < 8; i++)
    for (k = 0; k < SEALED_WORDS; k++) {
      next[i].words[k] = sealed_turn_columns(planes[i].words[k], 1);
      pair[i].words[k] = planes[i].words[k] ^ next[i].words[k];
    }
  for (i = 0; i < 8; i++) {
    for (k = 0; k < SEALED_WORDS; k++)
      planes[i].words[k] = next[i].words[k] ^ sealed_turn_columns(pair[i].words[k], 2);
    if (i) sealed_add_plane(planes + i, pair + i - 1);
    if (i == 0 || i == 1 || i == 3 || i == 4) sealed_add_plane(planes + i, pair + 7);
  }
}

static void sealed_add_key(sealed_plane *planes, const uint64_t *key) {
  int i, k;
  for (i = 0; i < 8; i++)
    for (k = 0; k < SEALED_WORDS; k++) planes[i].words[k] ^= key[i];
}

static void sealed_encrypt(const sealed_cipher *cipher, uint8_t *blocks) {
  sealed_plane planes[8];
  int i, k, turn;
  sealed_to_planes(planes, blocks);
  sealed_add_key(planes, cipher->keys[0]);
  for (turn = 1; turn < 15; turn++) {
    sealed_substitute(planes);
    for (i = 0; i < 8; i++)
      for (k = 0; k < SEALED_WORDS; k++) planes[i].words[k] = sealed_shift_rows(planes[i].words[k]);
    if (turn < 14) sealed_mix_columns(planes);
    sealed_add_key(planes, cipher->keys[turn]);
  }
  sealed_from_planes(blocks, planes);
}

static void sealed_expand_key(sealed_cipher *cipher, const uint8_t *key) {
  uint8_t words[240], bytes[SEALED_STREAM] = {0};
  sealed_plane planes[8];
  int i, j, constant = 1;
  for (i = 0; i < 32; i++) words[i] = key[i];
  for (i = 32; i < 240; i += 4) {
    for (j = 0; j < 4; j++) bytes[j] = words[i - 4 + (i % 32 ? j : (j + 1) % 4)];
    if (i % 16 == 0) {
      sealed_to_planes(planes, bytes);
      sealed_substitute(planes);
      sealed_from_planes(bytes, planes);
    }
    if (i % 32 == 0) {
      bytes[0] = (uint8_t)(bytes[0] ^ constant);
      constant <<= 1; /* seven of them: no reduction */
    }
    for (j = 0; j < 4; j++) words[i + j] = words[i + j - 32] ^ bytes[j];
  }
  for (i = 0; i < 15; i++) {
    for (j = 0; j < 64; j++) bytes[j] = words[16 * i + j % 16];
    sealed_to_planes(planes, bytes);
    for (j = 0; j < 8; j++) cipher->keys[i][j] = planes[j].words[0];
  }
}

/* The key stream for the counters from `counter` on. */
static void sealed_stream(const sealed_cipher *cipher, const uint8_t *nonce, uint32_t counter, uint8_t *stream) {
  int i, j;
  for (i = 0; i < 4 * SEALED_WORDS; i++) {
    const uint32_t number = counter + (uint32_t)i;
    for (j = 0; j < 12; j++) stream[16 * i + j] = nonce[j];
    for (j = 0; j < 4; j++) stream[16 * i + 12 + j] = (uint8_t)(number >> (24 - 8 * j));
  }
  sealed_encrypt(cipher, stream);
}

/* In GF(2^128): y = (y + block) h, the first bit of the first byte being the coefficient of 1. */
static void sealed_ghash(uint64_t *y, const uint64_t *h, const uint8_t *data, size_t bytes) {
  while (bytes) {
    const size_t part = bytes < 16 ? bytes : 16;
    uint64_t v[2], z[2] = {0, 0};
    size_t i;
    for (i = 0; i < part; i++) y[i / 8] ^= (uint64_t)data[i] << (56 - 8 * (i % 8));
    v[0] = h[0];
    v[1] = h[1];
    for (i = 0; i < 128; i++) {
      const uint64_t taken = 0 - (y[i / 64] >> (63 - i % 64) & 1), carry = 0 - (v[1] & 1);
      z[0] ^= v[0] & taken;
      z[1] ^= v[1] & taken;
      v[1] = v[1] >> 1 | v[0] << 63;
      v[0] = v[0] >> 1 ^ (carry & UINT64_C(0xe100000000000000));
    }
    y[0] = z[0];
    y[1] = z[1];
    data += part;
    bytes -= part;
  }
}

/* The tag of `header` and `data`, the encrypted bytes. */
static void sealed_tag(const sealed_cipher *cipher, const uint8_t *nonce, const uint8_t *header, size_t header_bytes,
                       const uint8_t *data, size_t bytes, uint8_t *tag) {
  uint8_t stream[SEALED_STREAM] = {0}, lengths[16];
  uint64_t h[2] = {0, 0}, y[2] = {0, 0};
  int i;
  sealed_encrypt(cipher, stream);
  for (i = 0; i < 16; i++) h[i / 8] = h[i / 8] << 8 | stream[i];
  for (i = 0; i < 8; i++) {
    lengths[i] = (uint8_t)((uint64_t)header_bytes * 8 >> (56 - 8 * i));
    lengths[8 + i] = (uint8_t)((uint64_t)bytes * 8 >> (56 - 8 * i));
  }
  sealed_ghash(y, h, header, header_bytes);
  sealed_ghash(y, h, data, bytes);
  sealed_ghash(y, h, lengths, 16);
  sealed_stream(cipher, nonce, 1, stream);
  for (i = 0; i < 16; i++) tag[i] = (uint8_t)(stream[i] ^ (uint8_t)(y[i / 8] >> (56 - 8 * (i % 8))));
}

static void sealed_decrypt(const sealed_cipher *cipher, const uint8_t *nonce, const uint8_t *data, size_t bytes,
                           uint8_t *to) {
  uint8_t stream[SEALED_STREAM];
  uint32_t counter = 2;
  size_t i;
  for (i = 0; i < bytes; i++) {
    if (i % SEALED_STREAM == 0) {
      sealed_stream(cipher, nonce, counter, stream);
      counter += 4 * SEALED_WORDS;
    }
    to[i] = data[i] ^ stream[i % SEALED_STREAM];
  }
}
