/* A model as a WebAssembly module without imports. The host writes weights and inputs into the module's memory, behind
   __heap_base, and passes addresses. */
#include "enclave_model.h"

#include <stddef.h>
#include <stdint.h>

#define EXPORTED(name) __attribute__((export_name(name)))

/* `tensors` are the addresses of all inputs, then of all outputs. Runs the model `runs` times; the code of an error. */
EXPORTED("run") int32_t enclave_run(void **tensors, void *workspace, uint32_t runs) {
  int32_t code = 0;
  while (runs-- && !code)
    code = MODEL_RUN((const void *const *)tensors, (void *const *)(tensors + INPUTS), workspace, WORKSPACE_BYTES);
  return code;
}

#if WEIGHTS_BYTES
EXPORTED("set_weights") void enclave_set_weights(const void *weights) { SET_WEIGHTS(weights); }
#endif
