"""Agreement of the architectures of `transformers`, tiny and with random weights, with eager mode.

    python bench/frontends/torch_architectures.py [--ways export,compile] [--file FILE] [--seconds 500] [NAME ...]

Each is made from its own configuration, with two layers of width 32; those that read text get two lines of words, one
of them masked at its end. `torch_compared.py` says what a line means; `torch_transformers.py` has symbolic dimensions,
generation and training of a few of them. Needs torch and transformers.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch_compared import Case, compare_all

_WORDS, _BATCH, _STEPS = 99, 2, 9

#: What most configurations of text call their sizes, and those of images and sound.
_TEXT = {
    "vocab_size": _WORDS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37,
    "max_position_embeddings": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "use_cache": False,
}  # fmt: skip
_SHARED = {**_TEXT, "num_key_value_heads": 2, "head_dim": 8}
_UNCACHED = {name: value for name, value in _TEXT.items() if name not in ("vocab_size", "use_cache")}
_IMAGE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37, "image_size": 32,
    "patch_size": 8,
}  # fmt: skip
_TWO = {
    "vocab_size": _WORDS, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "max_position_embeddings": 64,
    "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2, "use_cache": False,
}  # fmt: skip
_T5 = {
    "vocab_size": _WORDS, "d_model": 32, "d_kv": 8, "d_ff": 37, "num_layers": 2, "num_heads": 4, "use_cache": False,
    "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1,
}  # fmt: skip
_EXPERTS = {
    **_SHARED, "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
    "intermediate_size": 48,
}  # fmt: skip
_CONVOLUTIONS = {
    "depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32], "embedding_size": 8, "num_channels": 3,
}  # fmt: skip
_SOUND = {
    **_UNCACHED, "conv_dim": (16, 16), "conv_kernel": (10, 3), "conv_stride": (5, 2), "num_feat_extract_layers": 2,
    "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 2, "vocab_size": _WORDS,
}  # fmt: skip
_GPT2 = {"vocab_size": _WORDS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, "use_cache": False}

#: What each is made with, by what it reads. A name before a slash is the type of the configuration.
_ARCHITECTURES: dict[str, dict[str, dict[str, Any]]] = {
    "text": {
        "bert": _TEXT, "roberta": _TEXT, "camembert": _TEXT, "xlm-roberta": _TEXT,
        "electra": {**_TEXT, "embedding_size": 16}, "albert": {**_TEXT, "embedding_size": 16},
        "distilbert": {**_TEXT, "dim": 32, "hidden_dim": 37, "n_layers": 2, "n_heads": 4},
        "deberta": {**_TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
        "deberta-v2": {**_TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}, "mpnet": _TEXT,
        "mobilebert": {**_TEXT, "embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16},
        "squeezebert": {**_TEXT, "embedding_size": 32, "q_groups": 2, "k_groups": 2, "v_groups": 2,
            "post_attention_groups": 2, "intermediate_size": 36, "intermediate_groups": 4, "output_groups": 4},
        "convbert": {**_TEXT, "embedding_size": 16},
        "nystromformer": {**_TEXT, "num_landmarks": 9, "segment_means_seq_len": 9},
        "modernbert": {**_TEXT, "global_attn_every_n_layers": 2, "local_attention": 4, "cls_token_id": 1,
            "sep_token_id": 2}, "roformer": {**_TEXT, "embedding_size": 32},
        "rembert": {**_TEXT, "input_embedding_size": 16}, "ernie": _TEXT, "fnet": _TEXT, "layoutlm": _TEXT,
        "esm": {**_TEXT, "position_embedding_type": "rotary"}, "gpt2": _GPT2,
        "gpt_neo": {"vocab_size": _WORDS, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "window_size": 4,
            "attention_types": [[["global", "local"], 1]], "max_position_embeddings": 64, "use_cache": False},
        "gpt_neox": _TEXT, "gptj": {**_GPT2, "rotary_dim": 4}, "codegen": {**_GPT2, "rotary_dim": 4, "n_ctx": 64},
        "opt": {**_TEXT, "ffn_dim": 37, "word_embed_proj_dim": 32},
        "bloom": {"vocab_size": _WORDS, "hidden_size": 32, "n_layer": 2, "n_head": 4, "use_cache": False},
        "llama": _SHARED, "mistral": {**_SHARED, "sliding_window": 4}, "qwen2": _SHARED, "qwen3": _SHARED,
        "gemma": _SHARED, "gemma2": {**_SHARED, "sliding_window": 4, "query_pre_attn_scalar": 8},
        "gemma3_text": {**_SHARED, "sliding_window": 4, "query_pre_attn_scalar": 8}, "phi": _TEXT, "phi3": _SHARED,
        "falcon": {**_TEXT, "multi_query": True}, "stablelm": _SHARED, "olmo2": _SHARED, "cohere": _SHARED,
        "granite": _SHARED, "starcoder2": _SHARED,
        "mpt": {"vocab_size": _WORDS, "d_model": 32, "n_layers": 2, "n_heads": 4, "max_seq_len": 64,
            "use_cache": False}, "mixtral": _EXPERTS,
        "qwen2_moe": {**_EXPERTS, "shared_expert_intermediate_size": 16}, "qwen3_moe": _EXPERTS,
        "mamba": {"vocab_size": _WORDS, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4,
            "use_cache": False},
        "xlnet": {"vocab_size": _WORDS, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 37},
        "ctrl": {"vocab_size": _WORDS, "n_embd": 32, "dff": 37, "n_layer": 2, "n_head": 4, "n_positions": 64,
            "use_cache": False},
    },
    "two texts": {
        "t5": _T5, "mt5": _T5, "bart": _TWO, "mbart": _TWO, "pegasus": _TWO, "marian": _TWO, "m2m_100": _TWO,
        "blenderbot": _TWO, "umt5": _T5,
    },
    "image": {
        "vit": _IMAGE, "deit": _IMAGE, "beit": {**_IMAGE, "use_relative_position_bias": True}, "dinov2": _IMAGE,
        "swin": {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2],
            "window_size": 4},
        "swinv2": {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 2],
            "window_size": 4}, "convnext": _CONVOLUTIONS, "convnextv2": _CONVOLUTIONS, "resnet": _CONVOLUTIONS,
        "regnet": {**_CONVOLUTIONS, "groups_width": 8},
        "segformer": {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32], "num_attention_heads": [1, 2, 2, 4],
            "decoder_hidden_size": 16}, "mobilevit": {"image_size": 32},
        "poolformer": {"depths": [1, 1, 1, 1], "hidden_sizes": [8, 16, 24, 32]}, "siglip_vision_model": _IMAGE,
        "clip_vision_model": _IMAGE, "mobilenet_v2": {"image_size": 32},
        "bit": {**_CONVOLUTIONS, "embedding_size": 32, "hidden_sizes": [32, 32, 64, 64], "num_groups": 4},
        "yolos": {**_IMAGE, "image_size": [32, 32], "num_detection_tokens": 5},
        "vit_mae": {**_IMAGE, "mask_ratio": 0.0},
        "levit": {"image_size": 64, "hidden_sizes": [16, 32, 48], "num_attention_heads": [2, 2, 2], "depths": [1,
            1, 1], "key_dim": [8, 8, 8]},
    },
    "sound": {
        "wav2vec2": _SOUND, "hubert": _SOUND, "wavlm": _SOUND, "data2vec-audio": {**_SOUND, "conv_pos_kernel_size": 5},
    },
    "spectrum": {
        "whisper": {**_TWO, "num_mel_bins": 8, "max_source_positions": 30, "max_target_positions": 32},
        "audio-spectrogram-transformer": {**_UNCACHED, "patch_size": 4, "max_length": 24, "num_mel_bins": 16,
            "frequency_stride": 4, "time_stride": 4},
    },
    "image and text": {
        "clip": {"text_config": _TEXT, "vision_config": _IMAGE, "projection_dim": 16},
        "siglip": {"text_config": _TEXT, "vision_config": _IMAGE},
        "vilt": {**_TEXT, "image_size": 32, "patch_size": 8},
    },
}  # fmt: skip


def _words(steps: int = _STEPS) -> torch.Tensor:
    return torch.randint(3, _WORDS, (_BATCH, steps))


def _inputs(kind: str, name: str) -> dict[str, Any]:
    mask = torch.ones(_BATCH, _STEPS, dtype=torch.long)
    mask[1, -2:] = 0
    image = torch.randn(_BATCH, 3, 64 if name == "levit" else 32, 64 if name == "levit" else 32)
    if kind == "text":
        return {"input_ids": _words(), **({} if name in ("mamba", "fnet") else {"attention_mask": mask})}
    if kind == "two texts":
        return {"input_ids": _words(), "attention_mask": mask, "decoder_input_ids": _words(5)}
    if kind == "image":
        return {"pixel_values": image}
    if kind == "sound":
        return {"input_values": torch.randn(_BATCH, 400)}
    if kind == "spectrum":
        if name == "whisper":
            return {"input_features": torch.randn(_BATCH, 8, 60), "decoder_input_ids": _words(5)}
        return {"input_values": torch.randn(_BATCH, 24, 16)}
    return {"input_ids": _words(), "attention_mask": mask, "pixel_values": image}


def names() -> list[str]:
    """All architectures, those that read text first."""
    return [name for group in _ARCHITECTURES.values() for name in group]


def case_of(name: str) -> Case:
    """A tiny model with random weights, none of them zero, and what it reads."""
    kind, options = next((kind, group[name]) for kind, group in _ARCHITECTURES.items() if name in group)
    module = transformers.AutoModel.from_config(transformers.AutoConfig.for_model(name, **options)).eval()
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.any():
                parameter.normal_(0, 0.02)
    return Case(module, kwargs=_inputs(kind, name))


if __name__ == "__main__":
    compare_all(names, case_of, __doc__)
