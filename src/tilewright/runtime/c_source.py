"""The C side of an exported model: its header, and the functions that the header declares (C99, and clean as C++).

    int tilewright_NAME([dims,] inputs, outputs, workspace, threads);      0 or an error's code
    int64_t tilewright_NAME_workspace_bytes([dims,] threads);              symbolic sizes: minus the code of an error
    int tilewright_NAME_output_shapes(dims, shapes);                       for symbolic sizes only
    const char *tilewright_NAME_error_text(code);
    int tilewright_NAME_run([dims,] inputs, outputs, workspace, size);     of C source: on one thread, all checked

No function keeps anything between calls: calls with workspaces of their own may run at the same time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tilewright.runtime.c_interface import INTERFACE_ERRORS, CInterface
from tilewright.runtime.c_stream import c_type
from tilewright.runtime.manifest import Manifest
from tilewright.runtime.signature import TensorSpec

_HEADER = """\
/* {name}: {what} compiled by Tilewright {version} for {target}.

   Tensors are dense, the last dimension varying fastest, and aligned to their elements. */
#ifndef TILEWRIGHT_{upper}_H
#define TILEWRIGHT_{upper}_H

{size_type}#include <stdint.h>

{image}#ifdef __cplusplus
extern "C" {{
#endif

{models}{weights}
#ifdef __cplusplus
}}
#endif
#endif
"""

_IMAGE = """\
/* Bytes of a workspace for any of the models. They may share one where only one runs at a time. */
#define TILEWRIGHT_{upper}_WORKSPACE_SIZE {size}
#define TILEWRIGHT_{upper}_WORKSPACE_ALIGNMENT {alignment}

"""

_MODEL = """\
/* The model {name}.

{dims}   inputs:
{inputs}
   outputs:
{outputs} */
{numbers}

/* Runs the model once. The caller owns all memory: inputs, outputs, and a workspace of at least
   tilewright_{name}_workspace_bytes bytes for as many threads, whose contents before and after do not matter.
   {threads}
   Returns 0, or the code of an error. Calls with workspaces of their own may run at the same time. */
int tilewright_{name}({dims_param}const void *const *inputs, void *const *outputs, void *workspace, int threads);
{checked}
/* Bytes of workspace that a call needs{negative}. */
int64_t tilewright_{name}_workspace_bytes({dims_param}int threads);
{shapes}
/* What a code means, in words. */
const char *tilewright_{name}_error_text(int code);
"""

_CHECKED_HEADER = """
/* The same on one thread, with everything checked that can be: null pointers, a workspace of less than {size}
   bytes or not on a multiple of {alignment}, inputs and outputs that are not aligned to their elements. */
int tilewright_{name}_run({dims_param}const void *const *inputs, void *const *outputs, void *workspace,
                          size_t workspace_size);
"""

_SHAPES = """
/* Writes the dimensions of all outputs to shapes, one output after another, {count} in all. Returns 0 or an error's
   code. */
int tilewright_{name}_output_shapes(const int64_t *dims, int64_t *shapes);
"""

_SET_WEIGHTS = """
/* Must be called before the first run, with the address of the contents of {file}, on a multiple of 64 bytes.
   They must stay there. */
void tilewright_{name}_set_weights(const void *weights);
"""

#: How the functions of the library call what was compiled for them.
DECLARATIONS = """\
typedef int32_t (*entry_type)(void **slots, const void *context);
extern int32_t {entry}__entry(void **slots, const void *context);
extern int32_t tilewright_parallel_run(entry_type entry, void **slots, int32_t threads);
/* What a model's own code says of it goes before this. */
__attribute__((weak)) int32_t {entry}__run(void **slots, int32_t threads) {{
  return tilewright_parallel_run({entry}__entry, slots, threads);
}}
extern int32_t {entry}__plan(int64_t *dims, int64_t *plan, const void *context);
extern const unsigned char tilewright_weights[];
"""

_RUN = """\
int tilewright_{name}({dims_param}const void *const *inputs, void *const *outputs, void *workspace, int threads) {{
  void *slots[{slots}];
  unsigned char *arena, *scratch;
  int i;
{plan}  if (!workspace{null_tests}) return 1;
  if (threads < 1) return 2;
  if (threads > {most}) threads = {most};
{refuse}  arena = (unsigned char *)(((uintptr_t)workspace + {slack}) & ~(uintptr_t){slack});
  scratch = arena + {arena};
  for (i = 0; i < {inputs}; i++) {{
    if (!inputs[i]) return 1;
    slots[i] = (void *)(uintptr_t)inputs[i];
  }}
  for (i = 0; i < {outputs}; i++) {{
    if (!outputs[i]) return 1;
    slots[{inputs} + i] = outputs[i];
  }}
  slots[{first}] = (void *)(uintptr_t)tilewright_weights;
  slots[{first} + 1] = arena;
  slots[{first} + 2] = scratch;
{table}  return {run};
}}
"""

_REFUSE = """\
  i = {entry}__plan((int64_t *)(uintptr_t)dims, plan, 0);
  if (i) return {own} + i;
"""

_BYTES = """\
int64_t tilewright_{name}_workspace_bytes(int threads) {{
  return threads < 1 ? -2 : {arena} + (int64_t)threads * {scratch} + {slack};
}}
"""

_PLANNED = """\
int64_t tilewright_{name}_workspace_bytes(const int64_t *dims, int threads) {{
  int64_t plan[{plan}];
  int32_t code;
  if (!dims) return -1;
  if (threads < 1) return -2;
  code = {entry}__plan((int64_t *)(uintptr_t)dims, plan, 0);
  return code ? -(int64_t)({own} + code) : plan[{table}] + (int64_t)threads * plan[{stride}] + {slack};
}}

int tilewright_{name}_output_shapes(const int64_t *dims, int64_t *shapes) {{
  int64_t plan[{plan}];
  int32_t code;
  int i;
  if (!dims || !shapes) return 1;
  code = {entry}__plan((int64_t *)(uintptr_t)dims, plan, 0);
  if (code != 0) return {own} + code;
  for (i = {table} + 1; i < {plan}; i++) *shapes++ = plan[i];
  return 0;
}}
"""

_CHECKED = """\
int tilewright_{name}_run({dims_param}const void *const *inputs, void *const *outputs, void *workspace,
                          size_t workspace_size) {{
  static const unsigned char alignments[] = {{{alignments}}};
  int i;
{needed}  if (!workspace{null_tests}) return 1;
  if ((uintptr_t)workspace % {alignment}) return 4;
{short}  for (i = 0; i < {inputs} + {outputs}; i++) {{
    const void *tensor = i < {inputs} ? inputs[i] : outputs[i - {inputs}];
    if (!tensor) return 1;
    if ((uintptr_t)tensor % alignments[i]) return 4;
  }}
  return tilewright_{name}({dims}inputs, outputs, workspace, 1);
}}
"""

_SHORT_PLANNED = """\
  needed = tilewright_{name}_workspace_bytes(dims, 1);
  if (needed < 0) return (int)-needed;
  if (workspace_size < (uint64_t)needed - {slack}) return 3;
"""

_TEXTS = """\
const char *tilewright_{name}_error_text(int code) {{
  static const char *const texts[] = {{
{texts}
  }};
  return code >= 0 && code < {count} ? texts[code] : "unknown error";
}}
"""

_ANY_THREADS = "threads workers share the work, the calling thread among them; such calls take turns."
_ONE_THREAD = "The calling thread does the work; threads must be at least 1."


@dataclass(frozen=True)
class CModel:
    """A model that C can call: what its functions look like, the text before them, and the C expression of a run.

    That expression reads `slots` and `threads`; it is 0 or the code of an error.
    """

    interface: CInterface
    before: str
    run: str


def library_model(manifest: Manifest) -> CModel:
    """A straight model whose kernels are object code. Raises `UnsupportedError` for one with control flow."""
    interface = CInterface.of(manifest)
    run = f"{interface.entry}__run(slots, threads) ? {interface.kernel_error} : 0"
    return CModel(interface, DECLARATIONS.format(entry=interface.entry), run)


def header_text(
    name: str,
    manifest: Manifest,
    one_thread: bool = False,
    weights: str = "",
    interface: CInterface | None = None,
) -> str:
    """The C header of an exported model; `weights` declares how a program provides them, or more functions.

    The `interface` of a straight model is in its manifest.
    """
    return image_header_text(name, [(name, manifest, interface or CInterface.of(manifest))], one_thread, weights)


def image_header_text(
    name: str,
    models: Sequence[tuple[str, Manifest, CInterface]],
    one_thread: bool = False,
    weights: str = "",
) -> str:
    """One C header of several models, each with its name."""
    _, manifest, _ = models[0]
    several = len(models) > 1
    described = [_model_header(own, interface, one_thread) for own, _, interface in models]
    return _HEADER.format(
        name=name,
        what=f"{len(models)} models" if several else "a model",
        upper=name.upper(),
        version=_comment(manifest.tilewright_version),
        target=_comment(manifest.target),
        size_type="#include <stddef.h>\n" if one_thread or "size_t" in weights else "",
        image=_image(name.upper(), [interface for _, _, interface in models]) if several else "",
        models="\n".join(described),
        weights=weights,
    )


def set_weights_declaration(name: str, file: str) -> str:
    """The declaration of the function that takes the address of the weights in `file`."""
    return _SET_WEIGHTS.format(name=name, file=_comment(file))


def _image(upper: str, interfaces: Sequence[CInterface]) -> str:
    """The macros of the memory that models share; nothing where only a call can tell."""
    if any(interface.is_symbolic for interface in interfaces):
        return ""
    size = max(interface.workspace_size for interface in interfaces)
    return _IMAGE.format(upper=upper, size=size, alignment=max(interface.alignment for interface in interfaces))


def _model_header(name: str, interface: CInterface, one_thread: bool) -> str:
    """The macros and functions of one model."""
    size = f"what tilewright_{name}_workspace_bytes returns" if interface.is_symbolic else interface.workspace_size
    checked = _CHECKED_HEADER.format(
        name=name, size=size, alignment=interface.alignment, dims_param=_dims_param(interface)
    )
    return _MODEL.format(
        name=name,
        dims="".join(["   dimensions:\n", *_dims(interface), "\n"]) if interface.dims else "",
        inputs="\n".join(_described(interface.inputs)),
        outputs="\n".join(_described(interface.outputs)),
        numbers="\n".join(_numbers(name.upper(), interface, one_thread)),
        threads=_ONE_THREAD if one_thread else _ANY_THREADS,
        dims_param=_dims_param(interface),
        checked=checked if one_thread else "",
        negative=", or minus the code of an error" if interface.is_symbolic else "; the macro says the same",
        shapes=_SHAPES.format(name=name, count=interface.plan - interface.table - 1) if interface.is_symbolic else "",
    )


def functions_text(name: str, interface: CInterface, run: str, given_weights: bool = False) -> str:
    """The functions that the header declares; `run` is the C expression that runs the model on `slots`.

    With `given_weights` the program has to set the weights, and a call before that is an error.
    """
    symbolic = interface.is_symbolic
    values = {
        "name": name,
        "entry": interface.entry,
        "own": len(INTERFACE_ERRORS),
        "plan": interface.plan,
        "table": interface.table,
        "stride": interface.stride,
        "slack": interface.alignment - 1,
    }
    first = len(interface.inputs) + len(interface.outputs)
    pointers = [*(["dims"] if symbolic else []), *(["inputs"] if interface.inputs else []), "outputs"]
    pointers += ["tilewright_weights"] if given_weights else []
    text = _RUN.format(
        name=name,
        dims_param=_dims_param(interface),
        slots=interface.slots,
        plan=f"  int64_t plan[{interface.plan}];\n" if symbolic else "",
        null_tests="".join(f" || !{pointer}" for pointer in pointers),
        most=interface.max_threads,
        refuse=_REFUSE.format_map(values) if symbolic else "",
        arena=f"plan[{interface.table}]" if symbolic else interface.arena_bytes,
        slack=interface.alignment - 1,
        inputs=len(interface.inputs),
        outputs=len(interface.outputs),
        first=first,
        table=f"  slots[{first} + 3] = plan;\n" if symbolic else "",
        run=run,
    )
    sizes = {"arena": interface.arena_bytes, "scratch": interface.scratch_bytes}
    query = (_PLANNED if symbolic else _BYTES).format_map(values | sizes)
    texts = ["success", *interface.errors]
    listed = ",\n".join(f"    {_literal(text)}" for text in texts)
    return "\n".join([text, query, _TEXTS.format(name=name, texts=listed, count=len(texts))])


def checked_text(name: str, interface: CInterface) -> str:
    """The function ``tilewright_NAME_run`` of the header, for one thread."""
    symbolic = interface.is_symbolic
    tensors = (*interface.inputs, *interface.outputs)
    short = f"  if (workspace_size < {interface.workspace_size}) return 3;\n"
    pointers = [*(["dims"] if symbolic else []), *(["inputs"] if interface.inputs else []), "outputs"]
    return _CHECKED.format(
        name=name,
        dims_param=_dims_param(interface),
        dims="dims, " if symbolic else "",
        alignments=", ".join(_alignment(spec) for spec in tensors) or "1",
        needed="  int64_t needed;\n" if symbolic else "",
        null_tests="".join(f" || !{pointer}" for pointer in pointers),
        alignment=interface.alignment,
        short=_SHORT_PLANNED.format(name=name, slack=interface.alignment - 1) if symbolic else short,
        inputs=len(interface.inputs),
        outputs=len(interface.outputs),
    )


def _alignment(spec: TensorSpec) -> str:
    """The C of what a tensor's address is a multiple of: less than an element's bytes on processors of 8 bits."""
    return "1" if spec.dtype.itemsize == 1 else f"offsetof(struct {{ char first; {c_type(spec)} next; }}, next)"


def checked_declaration(name: str, interface: CInterface) -> str:
    """The declaration of what `checked_text` defines, for the header of a library, with the macros of its workspace."""
    upper, bytes_ = name.upper(), interface.workspace_size
    macros = f"#define TILEWRIGHT_{upper}_WORKSPACE_SIZE {bytes_}\n"
    macros += f"#define TILEWRIGHT_{upper}_WORKSPACE_ALIGNMENT {interface.alignment}\n"
    parameters = {"dims_param": _dims_param(interface), "size": bytes_, "alignment": interface.alignment}
    return macros + _CHECKED_HEADER.format(name=name, **parameters)


def library_text(name: str, model: CModel) -> str:
    """The C file that is linked with a model's object code, its weights and the worker pool."""
    functions = functions_text(name, model.interface, model.run)
    return "\n".join([f'#include "{name}.h"\n', model.before, _LIFETIME.format(name=name), functions])


#: Threads do not live on in a forked process, and must not outlive the code that they run. With more workers than
#: processors they sleep rather than spin.
_LIFETIME = """\
extern void tilewright_pool_stop(void);
extern void tilewright_pool_forget(void);
extern void tilewright_set_processors(int32_t count);
extern int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void));
extern int sched_getaffinity(int process, unsigned long bytes, void *mask);

__attribute__((constructor)) static void tilewright_{name}_load(void) {{
  unsigned char mask[128] = {{0}};
  int i, count = 0;
  (void)sched_getaffinity(0, sizeof mask, mask);
  for (i = 0; i < 1024; i++) count += mask[i / 8] >> i % 8 & 1;
  tilewright_set_processors(count ? count : 1);
#ifndef TILEWRIGHT_WITHOUT_ATFORK
  (void)pthread_atfork(0, 0, tilewright_pool_forget);
#endif
}}

__attribute__((destructor)) static void tilewright_{name}_unload(void) {{
  tilewright_pool_stop();
}}
"""


def _dims_param(interface: CInterface) -> str:
    return "const int64_t *dims, " if interface.is_symbolic else ""


def _numbers(upper: str, interface: CInterface, one_thread: bool) -> Iterator[str]:
    yield f"#define TILEWRIGHT_{upper}_INPUTS {len(interface.inputs)}"
    yield f"#define TILEWRIGHT_{upper}_OUTPUTS {len(interface.outputs)}"
    if not interface.is_symbolic:
        size = f"{interface.arena_bytes} + (int64_t)(threads) * {interface.scratch_bytes} + {interface.alignment - 1}"
        yield f"#define TILEWRIGHT_{upper}_WORKSPACE_BYTES(threads) ({size})"
        if one_thread:
            yield f"#define TILEWRIGHT_{upper}_WORKSPACE_SIZE {interface.workspace_size}"
            yield f"#define TILEWRIGHT_{upper}_WORKSPACE_ALIGNMENT {interface.alignment}"
        return
    yield f"#define TILEWRIGHT_{upper}_DIMS {len(interface.dims)}"
    for index, macro in enumerate(_macros(interface.dims)):
        yield f"#define TILEWRIGHT_{upper}_DIM_{macro} {index}"


def _macros(names: Sequence[str]) -> list[str]:
    """Names of dimensions as C names, all different."""
    made: list[str] = []
    for index, name in enumerate(names):
        cleaned = re.sub(r"\W", "_", name, flags=re.ASCII)
        made.append(cleaned if cleaned not in made else f"{cleaned}_{index}")
    return made


def _dims(interface: CInterface) -> Iterator[str]:
    for index, name in enumerate(interface.dims):
        yield f"     dims[{index}] {_comment(name)}\n"


def _described(specs: Sequence[TensorSpec]) -> Iterator[str]:
    for index, spec in enumerate(specs):
        size = f", {spec.nbytes} bytes" if spec.is_static else ""
        yield f"     [{index}] {_comment(str(spec))}{size}"


def _comment(text: str) -> str:
    """Text that can neither end a C comment nor open another."""
    return text.replace("*/", "* /").replace("/*", "/ *")


def _literal(text: str) -> str:
    """A C string literal: bytes beyond ASCII as octal escapes, question marks so that they form no trigraphs."""
    parts = []
    for byte in text.encode():
        plain = 32 <= byte < 127 and chr(byte) not in '"\\?'
        parts.append(chr(byte) if plain else f"\\{byte:03o}")
    return f'"{"".join(parts)}"'
