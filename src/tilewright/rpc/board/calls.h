/* Calls of what the worker of a board has loaded: functions and models, once or timed. Part of worker.c. */

/* ------------------------------------------------------------------------------------------------- functions */
#define MOST_TURNS 16

/* A call with its arguments in place; the slots of `turn` are given another array at each call. */
struct prepared {
  struct thing *module;
  const struct tilewright_function *function;
  uint64_t *slots, record[5];
  void *shared, *own;
  int turn_count, turn_slot[MOST_TURNS], turn_length[MOST_TURNS];
  void **turn[MOST_TURNS];
  uint64_t calls;
};

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec + 1e-9 * (double)at.tv_nsec;
}

static void release(struct prepared *p) {
  for (int i = 0; i < p->turn_count; ++i) free(p->turn[i]);
  free(p->slots);
  free(p->shared);
  free(p->own);
}

/* The memory of array `number`, if it fits parameter `index`; null after a refusal. */
static void *buffer_for(const struct prepared *p, int index, int64_t number) {
  const struct tilewright_parameter *wanted = &p->function->parameters[index];
  struct thing *array = find(number, 1);
  if (!array) return NULL;
  if (!strcmp(array->dtype, wanted->dtype) && (wanted->bytes < 0 || array->bytes == wanted->bytes)) return array->data;
  refuse("InputError", "%s: argument %d is %s of %" PRId64 " bytes, not %s of %" PRId64, p->function->name, index + 1,
         array->dtype, array->bytes, wanted->dtype, wanted->bytes);
  return NULL;
}

static int place_turns(struct prepared *p, int index, const struct json *numbers) {
  if (p->turn_count == MOST_TURNS || !numbers->count) return refuse("InputError", "too many arguments take turns");
  int which = p->turn_count++;
  p->turn_slot[which] = index;
  p->turn_length[which] = numbers->count;
  p->turn[which] = calloc((size_t)numbers->count, sizeof(void *));
  int i = 0;
  for (struct json *one = numbers->first; one; one = one->next)
    if (!(p->turn[which][i++] = buffer_for(p, index, one->integer))) return 0;
  p->slots[index] = (uintptr_t)p->turn[which][0];
  return 1;
}

static int place_scalar(struct prepared *p, int index, const struct json *value) {
  float narrow = (float)value->number;
  if (value->kind != JSON_NUMBER && value->kind != JSON_BOOL)
    return refuse("InputError", "%s: argument %d is a number", p->function->name, index + 1);
  switch (p->function->parameters[index].kind) {
    case 'i': p->slots[index] = (uint64_t)value->integer; return 1;
    case 'f': memcpy(&p->slots[index], &narrow, sizeof narrow); return 1;
    case 'd': memcpy(&p->slots[index], &value->number, sizeof value->number); return 1;
    default: return refuse("InputError", "%s: argument %d is an array", p->function->name, index + 1);
  }
}

static int place(struct prepared *p, int index, const struct json *value) {
  const struct json *turns = json_get(value, "arrays");
  if (value->kind != JSON_OBJECT) return place_scalar(p, index, value);
  if (p->function->parameters[index].kind != 'b')
    return refuse("InputError", "%s: argument %d is a number", p->function->name, index + 1);
  if (turns) return place_turns(p, index, turns);
  void *data = buffer_for(p, index, json_int(value, "array", -1));
  p->slots[index] = (uintptr_t)data;
  return data != NULL;
}

static int place_memory(struct prepared *p) {
  const struct tilewright_function *f = p->function;
  int64_t stride = (f->worker_bytes + 63) / 64 * 64;
  if (!f->shared_bytes && !f->worker_bytes) return 1;
  p->shared = memory(f->shared_bytes);
  p->own = memory(stride * p->module->threads);
  if (!p->shared || !p->own) return refuse("EnvironmentError_", "the device has no memory for this");
  p->slots[f->count] = (uintptr_t)p->shared;
  p->slots[f->count + 1] = (uintptr_t)p->own;
  uint64_t record[5] = {(uintptr_t)f->entry, (uintptr_t)p->slots, (uint64_t)f->count + 2, (uint64_t)f->count + 1,
                        (uint64_t)stride};
  memcpy(p->record, record, sizeof record);
  return 1;
}

static int prepare(struct prepared *p, const struct json *run) {
  const char *name = json_text_of(run, "function");
  const struct json *args = json_get(run, "args");
  memset(p, 0, sizeof *p);
  p->module = find(json_int(run, "module", -1), 0);
  if (!p->module) return 0;
  const struct tilewright_board *board = p->module->board;
  for (int i = 0; i < board->function_count && !p->function; ++i)
    if (!strcmp(board->functions[i].name, name)) p->function = &board->functions[i];
  if (!p->function) return refuse("InputError", "the module has no function %.80s", name);
  if (!args || args->count != p->function->count)
    return refuse("InputError", "%s takes %d arguments", name, p->function->count);
  p->slots = calloc((size_t)p->function->count + 3, sizeof *p->slots);
  if (!p->slots) return refuse("EnvironmentError_", "the device has no memory for this");
  int index = 0;
  for (struct json *one = args->first; one; one = one->next)
    if (!place(p, index++, one)) return 0;
  return place_memory(p);
}

static int once(struct prepared *p) {
  const struct tilewright_board *board = p->module->board;
  for (int i = 0; i < p->turn_count; ++i)
    p->slots[p->turn_slot[i]] = (uintptr_t)p->turn[i][p->calls % (uint64_t)p->turn_length[i]];
  ++p->calls;
  int code = p->own ? board->parallel_run((tilewright_entry)(void *)board->with_worker_memory, p->record,
                                          p->module->threads)
                    : board->parallel_run(p->function->entry, p->slots, p->module->threads);
  if (!code) return 1;
  if (code > 0 && code <= board->message_count)
    return refuse("InputError", "%s: %s", p->function->name, board->messages[code - 1]);
  return refuse("InputError", "%s: compiled code failed with status %d", p->function->name, code);
}

/* The mean seconds of `number` calls; below 0 after a refusal. */
static double many(struct prepared *p, int64_t number) {
  double begun = now();
  for (int64_t i = 0; i < number; ++i)
    if (!once(p)) return -1;
  return (now() - begun) / (double)number;
}

static int call(const struct json *request) {
  struct prepared p;
  int done = prepare(&p, request) && once(&p);
  release(&p);
  return done;
}

/* As the field's time evaluator: means over `number` calls, more where `min_repeat_ms` is not reached. */
static int time_all(struct prepared *p, const struct json *request) {
  int64_t number = json_int(request, "number", 1), repeat = json_int(request, "repeat", 1);
  struct json *wanted = json_get(request, "min_repeat_ms");
  double least = wanted ? wanted->number / 1e3 : 0, taken = 0;
  if (number < 1) number = 1;
  if (!once(p)) return 0;
  while (least > 0 && (taken = many(p, number) * (double)number) < least) {
    double more = taken > 0 ? least / taken * 1.2 : 100;
    if (taken < 0) return 0;
    number = (int64_t)((double)number * fmax(fmin(more, 100), 1.618)) + 1;
  }
  say("\"seconds\":[");
  for (int64_t i = 0; i < repeat; ++i) {
    double seconds = many(p, number);
    if (seconds < 0) return 0;
    say("%s%.9g", i ? "," : "", seconds);
  }
  say("]");
  return 1;
}

static int time_calls(const struct json *request) {
  struct prepared p;
  int done = prepare(&p, request) && time_all(&p, request);
  release(&p);
  return done;
}

/* Calls that are compared: in each round each of them `number` times in a row, every other round backwards. */
static int compare(struct prepared *all, const struct json *runs, int64_t rounds, double *seconds) {
  int count = 0;
  for (struct json *run = runs->first; run; run = run->next)
    if (!prepare(&all[count++], run)) return 0;
  for (int64_t done = 0; done < rounds; ++done) {
    for (int i = 0; i < count; ++i) {
      int which = done % 2 ? count - 1 - i : i, at = 0;
      struct json *run = runs->first;
      while (at++ < which) run = run->next;
      int64_t number = json_int(run, "number", 1);
      if ((seconds[which * rounds + done] = many(&all[which], number < 1 ? 1 : number)) < 0) return 0;
    }
  }
  for (int i = 0; i < count; ++i) {
    say(i ? ",[" : "\"seconds\":[[");
    for (int64_t done = 0; done < rounds; ++done) say("%s%.9g", done ? "," : "", seconds[i * rounds + done]);
    say("]");
  }
  say(count ? "]" : "\"seconds\":[]");
  return 1;
}

static int turns(const struct json *request) {
  const struct json *runs = json_get(request, "runs");
  int64_t rounds = json_int(request, "rounds", 1);
  if (!runs || runs->kind != JSON_LIST || rounds > 100000) return refuse("InputError", "there is nothing to compare");
  struct prepared *all = calloc((size_t)runs->count + 1, sizeof *all);
  double *seconds = calloc((size_t)(runs->count * rounds) + 1, sizeof *seconds);
  int done = all && seconds ? compare(all, runs, rounds, seconds)
                            : refuse("EnvironmentError_", "the device has no memory for this");
  for (int i = 0; all && i < runs->count; ++i) release(&all[i]);
  free(all);
  free(seconds);
  return done;
}

/* ------------------------------------------------------------------------------------------------- models */
static struct {
  void **arrays, *workspace;
  char *ours; /* which of the arrays are to be freed */
  int count;
} model;

static void free_run(void) {
  for (int i = 0; i < model.count; ++i)
    if (model.ours[i]) free(model.arrays[i]);
  free(model.arrays);
  free(model.ours);
  free(model.workspace);
  memset(&model, 0, sizeof model);
}

static int take_inputs(const struct tilewright_board *board, const struct json *inputs) {
  int index = 0;
  for (struct json *one = inputs->first; one; one = one->next, ++index) {
    int64_t needed = board->sizes[index];
    if (strcmp(json_text_of(one, "name"), board->names[index]))
      return refuse("InputError", "input %d of the model is %s", index + 1, board->names[index]);
    if (json_get(one, "array")) {
      struct thing *array = find(json_int(one, "array", -1), 1);
      if (!array) return 0;
      if (array->bytes != needed) return refuse("InputError", "input %s has another size", board->names[index]);
      model.arrays[index] = array->data;
      continue;
    }
    int64_t bytes = array_bytes(json_get(one, "shape"), json_text_of(one, "dtype"));
    if (bytes != needed || (uint64_t)bytes > left)
      return refuse("InputError", "input %s needs %" PRId64 " bytes", board->names[index], needed);
    if (!(model.arrays[index] = memory(bytes))) return refuse("EnvironmentError_", "the device has no memory for this");
    model.ours[index] = 1;
    take(model.arrays[index], (uint64_t)bytes);
  }
  return 1;
}

/* The model that a request is for, its inputs taken and room made for its outputs. */
static struct thing *ready(const struct json *request) {
  const struct json *inputs = json_get(request, "inputs");
  struct thing *found = find(json_int(request, "module", -1), 0);
  if (!found) return NULL;
  const struct tilewright_board *board = found->board;
  if (!board->model || !inputs || inputs->count != board->input_count) {
    refuse("InputError", board->model ? "the model has another number of inputs"
                                      : "this is a library of functions, which are called one by one");
    return NULL;
  }
  int count = board->input_count + board->output_count;
  model.arrays = calloc((size_t)count + 1, sizeof(void *));
  model.ours = calloc((size_t)count + 1, 1);
  model.workspace = memory(board->workspace_bytes(found->threads));
  if (!model.arrays || !model.ours || !model.workspace) {
    refuse("EnvironmentError_", "the device has no memory for this");
    return NULL;
  }
  model.count = count;
  if (!take_inputs(board, inputs)) return NULL;
  for (int i = board->input_count; i < count; ++i) {
    model.ours[i] = 1;
    if ((model.arrays[i] = memory(board->sizes[i]))) continue;
    refuse("EnvironmentError_", "the device has no memory for this");
    return NULL;
  }
  return found;
}

static int infer(const struct thing *found) {
  const struct tilewright_board *board = found->board;
  int code = board->model((const void *const *)model.arrays, model.arrays + board->input_count, model.workspace,
                          found->threads);
  return code ? refuse("InputError", "%s", board->error_text(code)) : 1;
}

static int run_model(const struct json *request) {
  struct thing *found = ready(request);
  if (!found || !infer(found)) return 0;
  say("\"outputs\":%s", found->board->outputs);
  for (int i = found->board->input_count; i < model.count; ++i) {
    attached[attachments] = model.arrays[i];
    attached_bytes[attachments++] = found->board->sizes[i];
  }
  return 1;
}

static int time_model(const struct json *request) {
  struct thing *found = ready(request);
  int64_t repeat = json_int(request, "repeat", 1), warmup = json_int(request, "warmup", 1);
  if (!found) return 0;
  for (int64_t i = 0; i < warmup; ++i)
    if (!infer(found)) return 0;
  say("\"seconds\":[");
  for (int64_t i = 0; i < repeat; ++i) {
    double begun = now();
    if (!infer(found)) return 0;
    say("%s%.9g", i ? "," : "", now() - begun);
  }
  say("]");
  return 1;
}
