/* A model behind a serial line. A frame is COBS (Cheshire and Baker, 1999) of
 *
 *   length of the body (2), number (2), kind (1), body, CRC-32 of all that (4)
 *
 * between zero bytes; numbers are little-endian. What is no whole frame is dropped, and the other side sends it again:
 * each request may come any number of times. Answers have the number of their request and its kind in small letters.
 *
 *   H                                        fingerprint (4), bytes of inputs (4), of outputs (4), longest part (2)
 *   W  offset (4), bytes                     how many were written into the inputs (2)
 *   R  number of the run (4), CRC-32 (4)     if that is the inputs' check sum: code (4), memory intact (4), stack (4),
 *                                            count (8), CRC-32 of the outputs (4)
 *   G  region (1), offset (4), bytes (2)     those bytes: 0 of the outputs, 1 of the counts of kernels
 *
 * An answer of kind x refuses: 1 a request that is not understood, 2 a run on inputs of another check sum.
 *
 * The board brings uint8_t serial_get(void), which waits, void serial_put(uint8_t) and uint64_t serial_count(void), and
 * calls serial_serve(), which does not return. What stands before this text is made for the model. */
#define MOST_PART 256u
#define HEAD 5u
static uint8_t frame[HEAD + MOST_PART + 4u];

static uint32_t check_sum(const uint8_t *bytes, uint32_t count) {
  static const uint32_t table[16] = {
    0x00000000u, 0x1db71064u, 0x3b6e20c8u, 0x26d930acu, 0x76dc4190u, 0x6b6b51f4u, 0x4db26158u, 0x5005713cu,
    0xedb88320u, 0xf00f9344u, 0xd6d6a3e8u, 0xcb61b38cu, 0x9b64c2b0u, 0x86d3d2d4u, 0xa00ae278u, 0xbdbdf21cu};
  uint32_t sum = 0xffffffffu;
  for (; count; count--) {
    sum ^= *bytes++;
    sum = sum >> 4 ^ table[sum & 15u];
    sum = sum >> 4 ^ table[sum & 15u];
  }
  return ~sum;
}

static uint32_t number_at(const uint8_t *at, uint32_t bytes) {
  uint32_t number = 0;
  while (bytes--) number = number << 8 | at[bytes];
  return number;
}

static uint8_t *put_number(uint8_t *at, uint64_t number, uint32_t bytes) {
  for (; bytes; bytes--, number >>= 8) *at++ = (uint8_t)number;
  return at;
}

/* Wait for a frame that is whole; the bytes of its body. */
static uint32_t receive(void) {
  for (;;) {
    uint32_t count = 0, left = 0, zero = 0, byte;
    while ((byte = serial_get()) != 0) {
      uint32_t starts = !left;
      if (left) left--;
      else left = byte - 1;
      if ((starts && zero) || !starts) {
        if (count < sizeof frame) frame[count] = starts ? 0 : (uint8_t)byte;
        count++;
      }
      if (starts) zero = byte != 255;
    }
    if (left || count < HEAD + 4 || count > sizeof frame) continue;
    if (number_at(frame, 2) != count - HEAD - 4) continue;
    if (number_at(frame + count - 4, 4) == check_sum(frame, count - 4)) return count - HEAD - 4;
  }
}

/* Send the frame, whose number is there, with `body` bytes. */
static void answer(uint8_t kind, uint32_t body) {
  uint32_t count = HEAD + body, start = 0;
  frame[4] = kind;
  put_number(frame, body, 2);
  put_number(frame + count, check_sum(frame, count), 4);
  count += 4;
  serial_put(0);
  while (start <= count) {
    uint32_t end = start;
    while (end < count && frame[end] && end - start < 254) end++;
    serial_put((uint8_t)(end - start + 1));
    for (; start < end; start++) serial_put(frame[start]);
    if (end == count) break;
    if (!frame[end]) start = end + 1;
  }
  serial_put(0);
}

/* The stack that a run may use is painted before it, where its end is known. */
static uint32_t run_models(uint32_t *stack, uint64_t *count) {
  uint32_t code = 0;
#ifdef SERIAL_STACK
  uint8_t *low, *mark;
#if defined(__riscv)
  __asm__ volatile("mv %0, sp" : "=r"(mark));
#else
  __asm__ volatile("mov %0, sp" : "=r"(mark));
#endif
  for (low = SERIAL_STACK; low < mark; low++) *low = 0xa5;
#endif
  *count = serial_count();
  MODEL_CALLS
  *count = serial_count() - *count;
  *stack = 0;
#ifdef SERIAL_STACK
  for (low = SERIAL_STACK; low < mark && *low == 0xa5; low++) {}
  *stack = (uint32_t)(mark - low);
#endif
  return code;
}

/* Run once for each number; the body of the answer. */
static uint32_t run(const uint8_t *body) {
  static uint8_t saved[24];
  static uint32_t last;
  uint32_t i, intact = 1, stack, code, number = number_at(body, 4);
  uint64_t count;
  if (!last || number != last) {
    uint8_t *at;
    if (number_at(body + 4, 4) != check_sum(input_area, INPUT_BYTES)) return 0;
    for (i = 0; i < sizeof room; i++) room[i] = 0xa5;
    for (i = 0; i < sizeof kernels; i++) ((uint8_t *)kernels)[i] = 0;
    code = run_models(&stack, &count);
    for (i = 0; i < GUARD; i++) intact &= room[i] == 0xa5 && room[GUARD + SIZE + i] == 0xa5;
    at = put_number(put_number(put_number(saved, code, 4), intact, 4), stack, 4);
    put_number(put_number(at, count, 8), check_sum(output_area, OUTPUT_BYTES), 4);
    last = number;
  }
  for (i = 0; i < sizeof saved; i++) frame[HEAD + i] = saved[i];
  return sizeof saved;
}

static void serial_serve(void) {
  for (;;) {
    uint32_t count = receive(), i, bytes = 0, refused = 1;
    uint8_t *body = frame + HEAD, kind = frame[4];
    if (kind == 'H' && count == 0) {
      uint8_t *at = put_number(put_number(body, FINGERPRINT, 4), INPUT_BYTES, 4);
      bytes = (uint32_t)(put_number(put_number(at, OUTPUT_BYTES, 4), MOST_PART, 2) - body);
      refused = 0;
    } else if (kind == 'W' && count > 4) {
      uint32_t offset = number_at(body, 4);
      if (offset <= INPUT_BYTES && count - 4 <= INPUT_BYTES - offset) {
        for (i = 4; i < count; i++) input_area[offset + i - 4] = body[i];
        put_number(body, count - 4, 2);
        bytes = 2;
        refused = 0;
      }
    } else if (kind == 'R' && count == 8) {
      bytes = run(body);
      refused = bytes ? 0 : 2;
    } else if (kind == 'G' && count == 7 && body[0] < 2) {
      const uint8_t *area = body[0] ? (const uint8_t *)kernels : output_area;
      uint32_t all = body[0] ? sizeof kernels : OUTPUT_BYTES, offset = number_at(body + 1, 4);
      uint32_t wanted = number_at(body + 5, 2);
      if (wanted <= MOST_PART && offset <= all && wanted <= all - offset) {
        for (i = 0; i < wanted; i++) body[i] = area[offset + i];
        bytes = wanted;
        refused = 0;
      }
    }
    if (refused) {
      body[0] = (uint8_t)refused;
      answer('x', 1);
    } else {
      answer((uint8_t)(kind + 32), bytes);
    }
  }
}
