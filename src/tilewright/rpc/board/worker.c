/* The worker of a board without Python: a session's shared libraries and arrays, asked over standard input and output.
 *
 *   tilewright-worker FIRST MEMORY      # the first number of modules and arrays; bytes that may be used, 0: any
 *
 * It speaks the frames of rpc/frames.py with the server of the device, which runs beside it or on another machine, and
 * does the verbs of rpc/worker.py; what is loaded comes with the request. It ends with its input. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "board.h"
#include "json.h"

#define MOST_TEXT (1u << 20)
#define MOST_SHAPE 1024

/* A module or an array of the session. */
struct thing {
  int64_t number;
  void *library;
  const struct tilewright_board *board;
  int32_t threads;
  void *data;
  int64_t bytes;
  char dtype[16];
  struct thing *next;
};

static struct thing *things;
static int64_t next_number;
static int answers;          /* the descriptor that answers go to */
static uint64_t left;        /* bytes of the request that were not read yet */
static char reason[512];     /* why the request at hand is not done */
static const char *kind;     /* and by which of our errors */
static char *reply;          /* the text of the answer at hand */
static size_t reply_size, reply_used;
static const void *attached[4096]; /* what is sent behind it */
static int64_t attached_bytes[4096];
static int attachments;

/* ------------------------------------------------------------------------------------------------- frames */
static void read_all(void *to, uint64_t count) {
  char *at = to;
  while (count) {
    ssize_t got = read(0, at, count);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) _exit(got < 0);
    at += got;
    count -= (uint64_t)got;
  }
}

static void take(void *to, uint64_t count) {
  read_all(to, count);
  left -= count;
}

static void drop(void) {
  static char waste[1 << 16];
  while (left) take(waste, left < sizeof waste ? left : sizeof waste);
}

static void write_all(const void *from, uint64_t count) {
  const char *at = from;
  while (count) {
    ssize_t put = write(answers, at, count);
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) _exit(1);
    at += put;
    count -= (uint64_t)put;
  }
}

static void say(const char *format, ...) {
  va_list args;
  for (;;) {
    va_start(args, format);
    int more = vsnprintf(reply + reply_used, reply_size - reply_used, format, args);
    va_end(args);
    if (reply_used + (size_t)more < reply_size) {
      reply_used += (size_t)more;
      return;
    }
    reply_size = 2 * (reply_size + (size_t)more);
    reply = realloc(reply, reply_size);
    if (!reply) _exit(1);
  }
}

static void say_string(const char *text) {
  say("\"");
  for (; *text; ++text) {
    if (*text == '"' || *text == '\\') say("\\%c", *text);
    else if ((unsigned char)*text < 32) say(" ");
    else say("%c", *text);
  }
  say("\"");
}

static void send_reply(void) {
  unsigned char head[16] = "TWR1";
  uint64_t size = 0;
  for (int i = 0; i < attachments; ++i) size += (uint64_t)attached_bytes[i];
  for (int i = 0; i < 4; ++i) head[4 + i] = (unsigned char)(reply_used >> 8 * i);
  for (int i = 0; i < 8; ++i) head[8 + i] = (unsigned char)(size >> 8 * i);
  write_all(head, sizeof head);
  write_all(reply, reply_used);
  for (int i = 0; i < attachments; ++i) write_all(attached[i], (uint64_t)attached_bytes[i]);
}

/* Refuse the request at hand; 0, so that `return refuse(…)` ends it. */
static int refuse(const char *error, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(reason, sizeof reason, format, args);
  va_end(args);
  kind = error;
  return 0;
}

/* ------------------------------------------------------------------------------------------------- things */
static void *memory(int64_t bytes) {
  return aligned_alloc(64, (size_t)(bytes < 64 ? 64 : (bytes + 63) / 64 * 64));
}

static struct thing *find(int64_t number, int is_array) {
  for (struct thing *one = things; one; one = one->next)
    if (one->number == number && (one->data != NULL) == is_array) return one;
  refuse("InputError", is_array ? "array %" PRId64 " is not on the device: it was freed, or its worker has died"
                                : "module %" PRId64 " is not here", number);
  return NULL;
}

static struct thing *add(void) {
  struct thing *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  made->number = ++next_number;
  made->next = things;
  return things = made;
}

static void discard(int64_t number, int is_array) {
  for (struct thing **link = &things; *link; link = &(*link)->next) {
    struct thing *one = *link;
    if (one->number != number || (one->data != NULL) != is_array) continue;
    *link = one->next;
    free(one->data); /* code stays: threads of its pool may still be in it */
    free(one);
    return;
  }
}

static int64_t item_bytes(const char *dtype) {
  static const char *const names[] = {"bool", "int8", "uint8", "int16", "uint16", "float16", "bfloat16", "int32",
                                      "uint32", "float32", "int64", "uint64", "float64"};
  static const int64_t sizes[] = {1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8, 8};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    if (!strcmp(dtype, names[i])) return sizes[i];
  return 0;
}

/* Bytes of an array of a shape; -1 for what is none or too large. */
static int64_t array_bytes(const struct json *shape, const char *dtype) {
  int64_t bytes = item_bytes(dtype);
  if (!bytes || !shape || shape->kind != JSON_LIST) return -1;
  for (struct json *one = shape->first; one; one = one->next)
    if (one->kind != JSON_NUMBER || one->integer < 0) return -1;
    else if (one->integer && bytes > INT64_MAX / 4 / one->integer) return -1;
    else bytes *= one->integer;
  return bytes;
}

static int load(const struct json *request) {
  char path[512];
  const char *folder = getenv("TMPDIR");
  snprintf(path, sizeof path, "%s/tilewright-XXXXXX", folder && *folder ? folder : "/tmp");
  int file = mkstemp(path);
  if (file < 0) return refuse("EnvironmentError_", "the device cannot store the upload: %m");
  static char buffer[1 << 16];
  while (left) {
    uint64_t part = left < sizeof buffer ? left : sizeof buffer;
    take(buffer, part);
    if (write(file, buffer, part) != (ssize_t)part) {
      close(file);
      unlink(path);
      return refuse("EnvironmentError_", "the device cannot store the upload: %m");
    }
  }
  close(file);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  const char *problem = library ? NULL : dlerror();
  const struct tilewright_board *board = library ? dlsym(library, "tilewright_board_table") : NULL;
  unlink(path);
  if (!library) return refuse("ArtifactError", "the upload is no library that this device loads: %s", problem);
  if (!board || board->version != TILEWRIGHT_BOARD_VERSION)
    return refuse("ArtifactError", "the upload is a library without a table for workers of this version");
  struct thing *made = add();
  if (!made) return refuse("EnvironmentError_", "the device has no memory for this");
  int processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
  made->library = library;
  made->board = board;
  made->threads = (int32_t)json_int(request, "threads", 0);
  if (made->threads < 1) made->threads = processors < 1 ? 1 : processors;
  board->set_processors(processors);
  say("\"module\":%" PRId64 ",\"threads\":%d,%s", made->number, made->threads, board->description + 1);
  --reply_used; /* the brace that ends the description: the answer's own follows */
  return 1;
}

static int allocate(const struct json *request) {
  const char *dtype = json_text_of(request, "dtype");
  int64_t bytes = array_bytes(json_get(request, "shape"), dtype);
  if (bytes < 0) return refuse("InputError", "%.40s of that shape is no array that this device holds", dtype);
  void *data = memory(bytes);
  struct thing *made = data ? add() : NULL;
  if (!made) {
    free(data);
    return refuse("EnvironmentError_", "the device has no memory for this");
  }
  made->data = data;
  made->bytes = bytes;
  snprintf(made->dtype, sizeof made->dtype, "%s", dtype);
  say("\"array\":%" PRId64, made->number);
  return 1;
}

static int write_array(const struct json *request) {
  struct thing *array = find(json_int(request, "array", -1), 1);
  if (!array) return 0;
  if ((uint64_t)array->bytes != left)
    return refuse("InputError", "the array has %" PRId64 " bytes, %" PRIu64 " were sent", array->bytes, left);
  take(array->data, left);
  return 1;
}

static int read_array(const struct json *request) {
  struct thing *array = find(json_int(request, "array", -1), 1);
  if (!array) return 0;
  attached[attachments] = array->data;
  attached_bytes[attachments++] = array->bytes;
  return 1;
}

static int copy(const struct json *request) {
  struct thing *from = find(json_int(request, "source", -1), 1), *to = find(json_int(request, "target", -1), 1);
  if (!from || !to) return 0;
  if (from->bytes != to->bytes || strcmp(from->dtype, to->dtype))
    return refuse("InputError", "arrays of different size or data type cannot be copied");
  memmove(to->data, from->data, (size_t)to->bytes);
  return 1;
}

#include "calls.h"

/* ------------------------------------------------------------------------------------------------- requests */
static int forget_array(const struct json *request) { return discard(json_int(request, "array", -1), 1), 1; }
static int forget_module(const struct json *request) { return discard(json_int(request, "module", -1), 0), 1; }

static const struct {
  const char *verb;
  int (*act)(const struct json *request);
} verbs[] = {{"load", load},       {"unload", forget_module}, {"allocate", allocate}, {"write", write_array},
             {"read", read_array}, {"copy", copy},            {"free", forget_array}, {"call", call},
             {"time", time_calls}, {"turns", turns},          {"run", run_model},     {"time_model", time_model}};

static void answer(const struct json *request) {
  const char *verb = json_text_of(request, "verb");
  int done = 0;
  reason[0] = 0;
  kind = "UnsupportedError";
  refuse(kind, "a board without Python does not know %.40s", verb);
  reply_used = 0;
  attachments = 0;
  say("{\"id\":%" PRId64 ",\"ok\":{", json_int(request, "id", -1));
  for (size_t i = 0; i < sizeof verbs / sizeof *verbs; ++i)
    if (!strcmp(verb, verbs[i].verb)) done = verbs[i].act(request);
  drop();
  if (done) {
    say("}}");
  } else {
    reply_used = 0;
    attachments = 0;
    say("{\"id\":%" PRId64 ",\"error\":{\"kind\":\"%s\",\"text\":", json_int(request, "id", -1), kind);
    say_string(reason);
    say("}}");
  }
  send_reply();
  free_run();
}

/* What the processor can do, by LLVM's names: bits that the kernel tells (asm/hwcap.h). */
#if defined(__aarch64__)
static const char *const architecture = "aarch64";
static const struct {
  unsigned long which;
  int bit;
  const char *name;
} known_features[] = {{AT_HWCAP, 0, "fp-armv8"}, {AT_HWCAP, 1, "neon"},    {AT_HWCAP, 3, "aes"},   {AT_HWCAP, 6, "sha2"},
                      {AT_HWCAP, 7, "crc"},      {AT_HWCAP, 8, "lse"},     {AT_HWCAP, 10, "fullfp16"},
                      {AT_HWCAP, 12, "rdm"},     {AT_HWCAP, 15, "rcpc"},   {AT_HWCAP, 20, "dotprod"},
                      {AT_HWCAP, 22, "sve"},     {AT_HWCAP2, 13, "i8mm"},  {AT_HWCAP2, 14, "bf16"}};
static void say_features(void) {
  const char *comma = "";
  for (size_t i = 0; i < sizeof known_features / sizeof *known_features; ++i) {
    if (!(getauxval(known_features[i].which) >> known_features[i].bit & 1)) continue;
    say("%s\"%s\"", comma, known_features[i].name);
    comma = ",";
  }
}
#else
#if defined(__riscv)
static const char *const architecture = "riscv64";
#else
static const char *const architecture = "x86_64";
#endif
static void say_features(void) {} /* not told: nothing is compared with them */
#endif

static void greet(void) {
  long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE), processors = sysconf(_SC_NPROCESSORS_ONLN);
  reply_used = 0;
  say("{\"capability\":{\"architecture\":\"%s\",\"features\":[", architecture);
  say_features();
  say("],\"processors\":%ld,\"memory\":%lld,\"system\":\"linux\",\"loads\":\"library\"}}", processors,
      (long long)pages * page);
  send_reply();
}

int main(int count, char **words) {
  next_number = count > 1 ? strtoll(words[1], NULL, 10) : 0;
  rlim_t most = count > 2 ? strtoull(words[2], NULL, 10) : 0;
  if (most) setrlimit(RLIMIT_AS, &(struct rlimit){most, most});
  setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
  answers = dup(1); /* what uploaded code prints is no answer */
  dup2(2, 1);
  reply = malloc(reply_size = 4096);
  if (!reply) return 1;
  greet();
  for (;;) {
    unsigned char head[16];
    read_all(head, sizeof head);
    uint32_t length = 0;
    left = 0;
    for (int i = 3; i >= 0; --i) length = length << 8 | head[4 + i];
    for (int i = 7; i >= 0; --i) left = left << 8 | head[8 + i];
    if (memcmp(head, "TWR1", 4) || length > MOST_TEXT) return 1;
    char *text = malloc(length + 1u);
    struct json *nodes = NULL;
    if (!text) return 1;
    read_all(text, length);
    text[length] = 0;
    struct json *request = json_read(text, length, &nodes);
    if (!request) return 1;
    answer(request);
    free(nodes);
    free(text);
  }
}
