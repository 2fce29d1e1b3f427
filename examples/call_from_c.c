/* Run a compiled model from C, without Python: a file of float32 numbers in, a line for each output number.

     tilewright compile MODEL.onnx -o model.c              (C99 source for any processor, one thread)
     cc -std=c99 -O2 -fwrapv -c model.c
     cc -std=c99 -O2 call_from_c.c model.o -lm -o call_from_c

   or, as fast as from Python and on several threads, with a library of machine code instead:

     tilewright compile MODEL.onnx -o libmodel.so
     cc -std=c99 -O2 call_from_c.c libmodel.so -Wl,-rpath,. -DTHREADS=2 -o call_from_c

     ./call_from_c x.bin INPUT_NUMBERS OUTPUT_NUMBERS      (how many numbers stands in model.h)

   It is written for a model with one input and one output of float32, whose sizes are fixed. The functions are named
   after the file that was compiled, here "model"; model.h tells of each. */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>

#ifndef THREADS
#define THREADS 1
#endif

static void *reserve(size_t bytes) {
  void *memory = malloc(bytes ? bytes : 1);
  if (memory == NULL) {
    fprintf(stderr, "no memory for %lu bytes\n", (unsigned long)bytes);
    exit(1);
  }
  return memory;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s FILE INPUT_NUMBERS OUTPUT_NUMBERS\n", argv[0]);
    return 2;
  }
  size_t input_numbers = strtoul(argv[2], NULL, 10), output_numbers = strtoul(argv[3], NULL, 10);
  float *input = reserve(input_numbers * sizeof(float));
  float *output = reserve(output_numbers * sizeof(float));
  FILE *file = fopen(argv[1], "rb");
  if (file == NULL || fread(input, sizeof(float), input_numbers, file) != input_numbers) {
    fprintf(stderr, "%s does not hold %lu numbers\n", argv[1], (unsigned long)input_numbers);
    return 1;
  }
  fclose(file);

  /* The caller owns all memory. One workspace serves any number of calls, one after another. */
  void *workspace = reserve((size_t)tilewright_model_workspace_bytes(THREADS));
  const void *inputs[] = {input};
  void *outputs[] = {output};
  int code = tilewright_model(inputs, outputs, workspace, THREADS);
  if (code != 0) {
    fprintf(stderr, "%s\n", tilewright_model_error_text(code));
    return 1;
  }
  for (size_t i = 0; i < output_numbers; i++)
    printf("%.9g\n", output[i]);
  free(workspace);
  free(output);
  free(input);
  return 0;
}
