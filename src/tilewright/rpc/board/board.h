/* What a shared library exports that the worker of a board runs: one table, `tilewright_board_table`.
 *
 * It is either a model (`model` is not null), called as the library's own header has it, or functions with packed
 * entries: slots of 8 bytes, each a buffer's address or a scalar, and behind them, where a function needs working
 * memory, the addresses of the shared and of each worker's own. */
#ifndef TILEWRIGHT_RPC_BOARD_H
#define TILEWRIGHT_RPC_BOARD_H
#include <stdint.h>

#define TILEWRIGHT_BOARD_VERSION 1

typedef int32_t (*tilewright_entry)(void *slots, void *context);

/* One parameter: `kind` is 'b' for a buffer, 'i' for an integer, 'f' for a float, 'd' for a double. `bytes` is the size
 * of a buffer, -1 where any will do. */
struct tilewright_parameter {
  char kind;
  const char *dtype;
  int64_t bytes;
};

struct tilewright_function {
  const char *name;
  tilewright_entry entry;
  int32_t count;
  const struct tilewright_parameter *parameters;
  int64_t shared_bytes, worker_bytes;
};

struct tilewright_board {
  int32_t version;
  const char *description; /* a JSON object: what the answer to `load` tells of it */
  int32_t function_count;
  const struct tilewright_function *functions;
  int32_t message_count;
  const char *const *messages; /* of the assertions in functions, by their code less 1 */
  int32_t (*parallel_run)(tilewright_entry, void *, int32_t);
  int32_t (*with_worker_memory)(void *, void *);
  void (*set_processors)(int32_t);
  int32_t (*model)(const void *const *inputs, void *const *outputs, void *workspace, int32_t threads);
  int64_t (*workspace_bytes)(int32_t threads);
  const char *(*error_text)(int32_t code);
  int32_t input_count, output_count;
  const int64_t *sizes;      /* bytes of the inputs, then of the outputs */
  const char *const *names;  /* of the inputs */
  const char *outputs;       /* a JSON list: shape and dtype of each output */
};

#endif
