/* Ed25519 signatures, checked (RFC 8032, section 5.1): pure, without cofactor. All of it is public: signature, key and
   message. A number modulo p = 2^255 - 19 is 16 limbs of 16 bits, each a bit more than that between reductions. */
typedef int64_t sealed_number[16];
/* Extended coordinates: x = X/Z, y = Y/Z, x y = T/Z. */
typedef struct {
  sealed_number x, y, z, t;
} sealed_point;

static void sealed_carry(int64_t *a) {
  int i;
  for (i = 0; i < 16; i++) {
    const int64_t carry = a[i] >> 16;
    a[i] -= carry * 65536;
    if (i < 15) a[i + 1] += carry;
    else a[0] += 38 * carry; /* 2^256 = 38 */
  }
}

static void sealed_set(int64_t *to, int64_t value) {
  int i;
  for (i = 0; i < 16; i++) to[i] = 0;
  to[0] = value;
}

static void sealed_copy(int64_t *to, const int64_t *a) {
  int i;
  for (i = 0; i < 16; i++) to[i] = a[i];
}

static void sealed_sum(int64_t *to, const int64_t *a, const int64_t *b, int64_t sign) {
  int i;
  for (i = 0; i < 16; i++) to[i] = a[i] + sign * b[i];
  sealed_carry(to);
}

static void sealed_product(int64_t *to, const int64_t *a, const int64_t *b) {
  int64_t wide[31] = {0};
  int i, j;
  for (i = 0; i < 16; i++)
    for (j = 0; j < 16; j++) wide[i + j] += a[i] * b[j];
  for (i = 0; i < 15; i++) wide[i] += 38 * wide[i + 16];
  sealed_copy(to, wide);
  sealed_carry(to);
  sealed_carry(to);
}

/* a^((p - 5) / 8) = a^(2^252 - 3), of which square roots and inverses are made. */
static void sealed_power(int64_t *to, const int64_t *a) {
  sealed_number found;
  int i;
  sealed_copy(found, a);
  for (i = 250; i >= 0; i--) {
    sealed_product(found, found, found);
    if (i != 1) sealed_product(found, found, a); /* 2^252 - 3 = 11...1101 in binary */
  }
  sealed_copy(to, found);
}

/* 1/a = a^(p - 2) = (a^(2^252 - 3))^8 a^3. */
static void sealed_inverse(int64_t *to, const int64_t *a) {
  sealed_number found, cube;
  int i;
  sealed_power(found, a);
  for (i = 0; i < 3; i++) sealed_product(found, found, found);
  sealed_product(cube, a, a);
  sealed_product(cube, cube, a);
  sealed_product(to, found, cube);
}

/* The 32 bytes of a number, reduced. */
static void sealed_pack(uint8_t *bytes, const int64_t *a) {
  sealed_number reduced, less;
  int i, turn;
  sealed_copy(reduced, a);
  for (i = 0; i < 3; i++) sealed_carry(reduced);
  for (turn = 0; turn < 2; turn++) {
    int64_t borrow = 0;
    for (i = 0; i < 16; i++) {
      less[i] = reduced[i] - (i == 0 ? 0xffed : i == 15 ? 0x7fff : 0xffff) - borrow;
      borrow = less[i] < 0;
      less[i] += borrow * 65536;
    }
    if (!borrow) sealed_copy(reduced, less);
  }
  for (i = 0; i < 32; i++) bytes[i] = (uint8_t)(reduced[i / 2] >> 8 * (i % 2));
}

static void sealed_unpack(int64_t *to, const uint8_t *bytes) {
  int i;
  for (i = 0; i < 16; i++) to[i] = bytes[2 * i] + ((int64_t)bytes[2 * i + 1] << 8);
  to[15] &= 0x7fff;
}

static int sealed_differs(const uint8_t *a, const uint8_t *b, size_t bytes) {
  uint8_t found = 0;
  size_t i;
  for (i = 0; i < bytes; i++) found = (uint8_t)(found | (a[i] ^ b[i]));
  return found != 0;
}

static int sealed_unequal(const int64_t *a, const int64_t *b) {
  uint8_t first[32], second[32];
  sealed_pack(first, a);
  sealed_pack(second, b);
  return sealed_differs(first, second, 32);
}

/* d = -121665/121666 of the curve. */
static void sealed_curve(int64_t *d) {
  sealed_number over, under;
  sealed_set(over, -121665);
  sealed_set(under, 121666);
  sealed_carry(over);
  sealed_carry(under);
  sealed_inverse(under, under);
  sealed_product(d, over, under);
}

/* A point of its encoding (5.1.3); 1 if there is none. */
static int sealed_decode(sealed_point *point, const uint8_t *bytes, const int64_t *d) {
  sealed_number one, u, v, root, check;
  uint8_t packed[32], given[32];
  const int sign = bytes[31] >> 7;
  int i;
  sealed_set(one, 1);
  sealed_unpack(point->y, bytes);
  sealed_pack(packed, point->y);
  for (i = 0; i < 32; i++) given[i] = bytes[i];
  given[31] &= 0x7f;
  if (sealed_differs(packed, given, 32)) return 1; /* y was not below p */
  sealed_product(u, point->y, point->y);
  sealed_product(v, u, d);
  sealed_sum(u, u, one, -1);
  sealed_sum(v, v, one, 1);
  sealed_product(check, v, v); /* x = u v^3 (u v^7)^((p - 5) / 8) */
  sealed_product(root, check, v);
  sealed_product(check, check, check);
  sealed_product(check, check, root);
  sealed_product(check, check, u);
  sealed_power(check, check);
  sealed_product(root, root, u);
  sealed_product(root, root, check);
  sealed_product(check, root, root);
  sealed_product(check, check, v);
  if (sealed_unequal(check, u)) {
    sealed_sum(u, u, u, -2); /* -u */
    if (sealed_unequal(check, u)) return 1;
    sealed_set(check, 2); /* 2^((p - 1) / 4) = 2 (2^((p - 5) / 8))^2, a root of -1 */
    sealed_power(check, check);
    sealed_product(check, check, check);
    sealed_sum(check, check, check, 1);
    sealed_product(root, root, check);
  }
  sealed_pack(packed, root);
  sealed_set(check, 0);
  if (sign && !sealed_unequal(root, check)) return 1;
  if ((packed[0] & 1) != sign) sealed_sum(root, check, root, -1);
  sealed_copy(point->x, root);
  sealed_set(point->z, 1);
  sealed_product(point->t, point->x, point->y);
  return 0;
}

static void sealed_encode(uint8_t *bytes, const sealed_point *point) {
  sealed_number inverse, x, y;
  uint8_t packed[32];
  sealed_inverse(inverse, point->z);
  sealed_product(x, point->x, inverse);
  sealed_product(y, point->y, inverse);
  sealed_pack(packed, x);
  sealed_pack(bytes, y);
  bytes[31] = (uint8_t)(bytes[31] | (packed[0] & 1) << 7);
}

/* p += q (5.1.4); the formulas hold for equal points, too. */
static void sealed_add(sealed_point *p, const sealed_point *q, const int64_t *d) {
  sealed_number a, b, c, e;
  sealed_sum(a, p->y, p->x, -1);
  sealed_sum(e, q->y, q->x, -1);
  sealed_product(a, a, e);
  sealed_sum(b, p->y, p->x, 1);
  sealed_sum(e, q->y, q->x, 1);
  sealed_product(b, b, e);
  sealed_product(c, p->t, q->t);
  sealed_product(c, c, d);
  sealed_sum(c, c, c, 1);
  sealed_product(e, p->z, q->z);
  sealed_sum(e, e, e, 1);
  sealed_sum(p->x, b, a, -1);
  sealed_sum(b, b, a, 1);
  sealed_sum(a, e, c, -1);
  sealed_sum(c, e, c, 1);
  sealed_product(p->t, p->x, b);
  sealed_product(p->x, p->x, a);
  sealed_product(p->y, c, b);
  sealed_product(p->z, a, c);
}

/* The order of the base point, 2^252 + 27742317777372353535851937790883648493, in words from the lowest on. */
static const uint32_t sealed_order[8] = {0x5cf5d3edu, 0x5812631au, 0xa2f79cd6u, 0x14def9deu, 0, 0, 0, 0x10000000u};

/* r -= order; r as it was and 1 if that is less than 0. */
static int sealed_less_order(uint32_t *r) {
  uint32_t less[8];
  uint64_t borrow = 0;
  int i;
  for (i = 0; i < 8; i++) {
    const uint64_t found = (uint64_t)r[i] - sealed_order[i] - borrow;
    less[i] = (uint32_t)found;
    borrow = found >> 63;
  }
  if (borrow) return 1;
  for (i = 0; i < 8; i++) r[i] = less[i];
  return 0;
}

/* The remainder of 64 bytes, from the lowest on, by the order. */
static void sealed_scalar(uint32_t *r, const uint8_t *bytes) {
  int i, j;
  for (i = 0; i < 8; i++) r[i] = 0;
  for (i = 511; i >= 0; i--) {
    for (j = 7; j > 0; j--) r[j] = r[j] << 1 | r[j - 1] >> 31;
    r[0] = r[0] << 1 | (uint32_t)(bytes[i / 8] >> i % 8 & 1);
    sealed_less_order(r);
  }
}

/* 1 unless `signature` (64 bytes) is by the owner of `key` (32 bytes) of the message. */
static int sealed_verify(const uint8_t *signature, const uint8_t *key, const uint8_t *message, size_t bytes) {
  sealed_point base, owner, sum;
  sealed_number d;
  sealed_hash hash;
  uint32_t s[8], h[8];
  uint8_t digest[64], encoded[32];
  int i;
  for (i = 0; i < 32; i++) encoded[i] = i ? 0x66 : 0x58; /* y = 4/5 */
  sealed_curve(d);
  if (sealed_decode(&base, encoded, d) || sealed_decode(&owner, key, d)) return 1;
  for (i = 0; i < 8; i++) {
    const uint8_t *word = signature + 32 + 4 * i;
    s[i] = h[i] = word[0] | (uint32_t)word[1] << 8 | (uint32_t)word[2] << 16 | (uint32_t)word[3] << 24;
  }
  if (!sealed_less_order(h)) return 1; /* s must be below the order */
  sealed_hash_begin(&hash);
  sealed_hash_add(&hash, signature, 32);
  sealed_hash_add(&hash, key, 32);
  sealed_hash_add(&hash, message, bytes);
  sealed_hash_end(&hash, digest);
  sealed_scalar(h, digest);
  sealed_set(sum.x, 0);
  sealed_sum(owner.x, sum.x, owner.x, -1);
  sealed_sum(owner.t, sum.x, owner.t, -1);
  sealed_set(sum.y, 1);
  sealed_set(sum.z, 1);
  sealed_set(sum.t, 0);
  for (i = 252; i >= 0; i--) { /* s B - h A */
    sealed_point again = sum;
    sealed_add(&sum, &again, d);
    if (s[i / 32] >> i % 32 & 1) sealed_add(&sum, &base, d);
    if (h[i / 32] >> i % 32 & 1) sealed_add(&sum, &owner, d);
  }
  sealed_encode(encoded, &sum);
  return sealed_differs(encoded, signature, 32);
}
