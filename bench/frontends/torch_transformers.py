"""Agreement of tiny models of `transformers`, with random weights, with eager mode.

    python bench/frontends/torch_transformers.py [--ways compile,export,generate,train] [NAME ...]

Ways: through `torch.compile` for four sizes of batch and sequence, which become open ones; exported by `torch.export`
with open batch and sequence and run in two sizes; in the loop of `generate`, whose tokens must be the same; and the
gradients of one step of training. A line each: the largest difference over the largest element of each output, and
how many graphs fell back to PyTorch, with the reasons. Needs torch and transformers.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import transformers

import tilewright
from tilewright.torch_backend import FallbackWarning
from tilewright.torch_backend import tilewright as backend

#: Sizes of batch and sequence that the models are called with.
_SIZES = ((2, 7), (2, 9), (3, 11), (3, 5))
_WORDS = 99

Inputs = Callable[[int, int], dict[str, Any]]


def _tokens(batch: int, steps: int) -> Any:
    return torch.randint(3, _WORDS, (batch, steps))


def _bert() -> tuple[Any, Inputs]:
    config = transformers.BertConfig(
        vocab_size=_WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37
    )

    def inputs(batch: int, steps: int) -> dict[str, Any]:
        mask = torch.ones(batch, steps, dtype=torch.long)
        return {"input_ids": _tokens(batch, steps), "attention_mask": mask}

    return transformers.BertModel(config), inputs


def _gpt2() -> tuple[Any, Inputs]:
    config = transformers.GPT2Config(
        vocab_size=_WORDS, n_embd=32, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2
    )
    return transformers.GPT2LMHeadModel(config), lambda b, s: {"input_ids": _tokens(b, s), "use_cache": False}


def _llama() -> tuple[Any, Inputs]:
    config = transformers.LlamaConfig(
        vocab_size=_WORDS, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        intermediate_size=37, max_position_embeddings=64,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config), lambda b, s: {"input_ids": _tokens(b, s), "use_cache": False}


def _t5() -> tuple[Any, Inputs]:
    config = transformers.T5Config(
        vocab_size=_WORDS,
        d_model=32,
        d_kv=8,
        d_ff=37,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        dropout_rate=0.0,
    )

    def inputs(batch: int, steps: int) -> dict[str, Any]:
        return {"input_ids": _tokens(batch, steps), "decoder_input_ids": _tokens(batch, steps), "use_cache": False}

    return transformers.T5ForConditionalGeneration(config), inputs


def _whisper() -> tuple[Any, Inputs]:
    config = transformers.WhisperConfig(
        vocab_size=_WORDS, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=37, decoder_ffn_dim=37, num_mel_bins=8, max_source_positions=30,
        max_target_positions=32, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip

    def inputs(batch: int, steps: int) -> dict[str, Any]:
        sound = torch.randn(batch, 8, 60)
        return {"input_features": sound, "decoder_input_ids": _tokens(batch, steps), "use_cache": False}

    return transformers.WhisperForConditionalGeneration(config), inputs


def _vit() -> tuple[Any, Inputs]:
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=37, image_size=32, patch_size=8
    )
    return transformers.ViTModel(config), lambda b, s: {"pixel_values": torch.randn(b, 3, 32, 32)}


_MODELS = {"bert": _bert, "gpt2": _gpt2, "llama": _llama, "t5": _t5, "whisper": _whisper, "vit": _vit}


def _tensors(output: Any) -> list[Any]:
    """The tensors of an output of `transformers`, in order."""
    plain = tuple(output.to_tuple()) if hasattr(output, "to_tuple") else output
    return [leaf for leaf in torch.utils._pytree.tree_leaves(plain) if isinstance(leaf, torch.Tensor)]


def _difference(wanted: list[Any], found: list[Any]) -> float:
    """The largest difference of two lists of tensors over the largest element of each; infinite for other shapes."""
    if [one.shape for one in wanted] != [one.shape for one in found]:
        return float("inf")
    pairs = [(one.double(), other.double()) for one, other in zip(wanted, found)]
    return max(float((one - other).abs().max() / one.abs().max().clamp(min=1e-9)) for one, other in pairs)


def by_compile(model: Any, inputs: Inputs) -> float:
    """The difference through `torch.compile`, the largest of all sizes."""
    run = torch.compile(model, backend=backend)
    given = [inputs(*size) for size in _SIZES]
    return max(_difference(_tensors(model(**one)), _tensors(run(**one))) for one in given)


def by_export(model: Any, inputs: Inputs) -> float:
    """The difference of the program that `torch.export` makes, with open batch and sequence, in two sizes."""
    batch, steps = torch.export.Dim("batch", min=2, max=8), torch.export.Dim("steps", min=2, max=32)
    first = inputs(*_SIZES[0])
    axes = {
        name: None if not isinstance(value, torch.Tensor) else {0: batch, 1: steps} if value.dim() == 2 else {0: batch}
        for name, value in first.items()
    }
    program = torch.export.export(model, (), first, dynamic_shapes=axes, strict=False)
    compiled = tilewright.compile(program, cache=False)
    worst = 0.0
    for size in (_SIZES[0], _SIZES[2]):
        given = inputs(*size)
        arrays = [value.numpy() for value in given.values() if isinstance(value, torch.Tensor)]
        found = compiled.run({spec.name: array for spec, array in zip(compiled.inputs, arrays, strict=True)})
        worst = max(worst, _difference(_tensors(model(**given)), [torch.from_numpy(one) for one in found]))
    return worst


def by_generate(model: Any, inputs: Inputs) -> float:
    """0 where `generate` returns the same tokens, else 1."""
    given = {name: value for name, value in inputs(2, 5).items() if name not in ("use_cache", "decoder_input_ids")}
    options = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 2}
    wanted, plain = model.generate(**given, **options), model.forward
    model.forward = torch.compile(plain, backend=backend)
    found = model.generate(**given, **options)
    model.forward = plain
    return float(not torch.equal(wanted, found))


def by_training(model: Any, inputs: Inputs) -> float:
    """The difference of the gradients after one step."""
    model.train()
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    given, gradients = inputs(*_SIZES[0]), []
    with torch.enable_grad():
        for run in (model, torch.compile(model, backend=backend)):
            model.zero_grad()
            results = [one for one in _tensors(run(**given)) if one.requires_grad]
            torch.stack([one.square().mean() for one in results]).sum().backward()
            gradients.append([one.grad.clone() for one in model.parameters() if one.grad is not None])
    model.eval()
    scale = max(float(one.abs().max()) for one in gradients[0])
    return max(float((one - other).abs().max()) for one, other in zip(*gradients, strict=True)) / scale


_WAYS = {"compile": by_compile, "export": by_export, "generate": by_generate, "train": by_training}


def measure(name: str, way: str) -> str:
    """A line on one model, run one way."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, inputs = _MODELS[name]()
    model.eval()
    if way == "generate" and not model.can_generate():
        return f"{name} {way}: generates nothing"
    began = time.perf_counter()
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = _WAYS[way](model, inputs)
    reasons = [" ".join(str(one.message).split()) for one in caught if issubclass(one.category, FallbackWarning)]
    return "; ".join([f"{name} {way}: {found:.1e}, {time.perf_counter() - began:.0f} s", *dict.fromkeys(reasons)])


def main() -> None:
    """Print a line a model and way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(_MODELS))
    parser.add_argument("--ways", default=",".join(_WAYS))
    options = parser.parse_args()
    for name in options.names:
        for way in options.ways.split(","):
            try:
                line = measure(name, way)
            except Exception as error:  # the others are tried
                line = f"{name} {way}: {type(error).__name__}: {' '.join(str(error).split())[:400]}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
