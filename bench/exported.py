"""Networks as PyTorch's exporters write them: what `bench/verified.py` checks and times.

    python bench/exported.py FOLDER [--only NAME]     # needs torch, torchvision, transformers and onnxscript

Each is a public definition of torchvision, transformers or `torch.nn` with seeded random weights, small enough that an
inference takes milliseconds. No trained weights are read: what a model computes is not the question here, but whether
the graphs that exporters make of it are compiled right. `@ts` is the exporter by tracing, `@dynamo` the one by graph
capture. A network that this installation cannot export is named with the reason.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

Made = tuple[nn.Module, tuple[Any, ...]]


def _picture(size: int = 64, channels: int = 3) -> torch.Tensor:
    return torch.randn(1, channels, size, size)


def _vision(name: str, size: int = 64, **options: Any) -> Callable[[], Made]:
    def build() -> Made:
        import torchvision.models as models

        return models.get_model(name, weights=None, **options), (_picture(size),)

    return build


class _Field(nn.Module):
    """A model of which one field of the answer, or the first of a tuple, is the result."""

    def __init__(self, model: nn.Module, field: str = "") -> None:
        super().__init__()
        self.model, self.field = model, field

    def forward(self, *args: torch.Tensor) -> Any:
        found = self.model(*args)
        return found[self.field] if self.field else found[0]


def _segmented(name: str) -> Callable[[], Made]:
    def build() -> Made:
        import torchvision.models as models

        model = models.get_model(name, weights=None, weights_backbone=None)
        return _Field(model, "out"), (_picture(96),)

    return build


def _video(name: str) -> Callable[[], Made]:
    def build() -> Made:
        import torchvision.models as models

        return models.get_model(name, weights=None), (torch.randn(1, 3, 16, 64, 64),)

    return build


_SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}


def _text(kind: str, length: int = 24, **options: Any) -> Callable[[], Made]:
    """A transformer over token numbers, as `transformers` defines it for `kind`, two layers of 64."""

    def build() -> Made:
        import transformers

        config = getattr(transformers, f"{kind}Config")(**{"vocab_size": 500, **_SMALL, **options})
        config.return_dict, config.use_cache = False, False
        model = getattr(transformers, f"{kind}Model")(config)
        return _Field(model), (torch.randint(0, 500, (1, length)),)

    return build


def _seen(kind: str, channels: int = 3, **options: Any) -> Callable[[], Made]:
    def build() -> Made:
        import transformers

        config = getattr(transformers, f"{kind}Config")(**options)
        config.return_dict = False
        return _Field(getattr(transformers, f"{kind}Model")(config)), (_picture(64, channels),)

    return build


class _Recurrent(nn.Module):
    """Two layers of recurrent cells; their outputs, not their last states."""

    def __init__(self, kind: type[nn.Module], **options: Any) -> None:
        super().__init__()
        self.cells = kind(16, 32, num_layers=2, batch_first=True, **options)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.cells(x)[0]


def _speech() -> Made:
    """A spectrogram network: strided 1-D convolutions, gated units, upsampling back."""
    layers = [
        nn.Conv1d(1, 32, 16, 8, 4), nn.GELU(), nn.Conv1d(32, 64, 5, padding=2), nn.GLU(1), nn.GroupNorm(4, 32),
        nn.PReLU(32), nn.Conv1d(32, 32, 3, padding=2, dilation=2, groups=32), nn.InstanceNorm1d(32, affine=True),
        nn.ConvTranspose1d(32, 1, 16, 8, 4), nn.Tanh(),
    ]  # fmt: skip
    return nn.Sequential(*layers), (torch.randn(1, 1, 4000),)


class _Warped(nn.Module):
    """A spatial transformer: a network predicts an affine grid at which the picture is sampled."""

    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Sequential(nn.Conv2d(3, 8, 7, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.affine = nn.Linear(128, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        grid = nn.functional.affine_grid(self.affine(self.where(x)).view(-1, 2, 3), list(x.shape), False)
        return nn.functional.grid_sample(x, grid, align_corners=False)


class _Pyramid(nn.Module):
    """Super resolution: features, bicubic and bilinear resizing, pixel shuffling."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.LeakyReLU(0.1), nn.Conv2d(16, 12, 3, 1, 1))
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        near = nn.functional.interpolate(x, scale_factor=2, mode="bicubic", align_corners=False)
        wide = nn.functional.interpolate(self.shuffle(self.features(x)), scale_factor=2, mode="bilinear")
        return nn.functional.interpolate(near + wide[..., ::2, ::2], size=(50, 70), mode="nearest")


def _translator() -> Made:
    model = nn.Transformer(32, 4, 2, 2, 64, batch_first=True, norm_first=True)
    return model, (torch.randn(1, 12, 32), torch.randn(1, 9, 32))


#: name -> how the model and its inputs are made.
NETWORKS: dict[str, Callable[[], Made]] = {
    "swin_v2_t": _vision("swin_v2_t"),
    "convnext_tiny": _vision("convnext_tiny"),
    "maxvit_t": _vision("maxvit_t", 224),
    "regnet_y_400mf": _vision("regnet_y_400mf"),
    "shufflenet_v2_x1_0": _vision("shufflenet_v2_x1_0"),
    "googlenet": _vision("googlenet", 96, init_weights=False, aux_logits=False),
    "efficientnet_v2_s": _vision("efficientnet_v2_s"),
    "resnext50_32x4d": _vision("resnext50_32x4d"),
    "deeplabv3_mobilenet_v3_large": _segmented("deeplabv3_mobilenet_v3_large"),
    "lraspp_mobilenet_v3_large": _segmented("lraspp_mobilenet_v3_large"),
    "r2plus1d_18": _video("r2plus1d_18"),
    "bert": _text("Bert"),
    "roberta": _text("Roberta"),
    "albert": _text("Albert", embedding_size=32),
    "distilbert": _text("DistilBert", dim=64, n_layers=2, n_heads=4, hidden_dim=128),
    "deberta_v2": _text("DebertaV2", relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "gpt2": _text("GPT2", n_embd=64, n_layer=2, n_head=4),
    "llama": _text("Llama", num_key_value_heads=2),
    "mistral": _text("Mistral", num_key_value_heads=2, sliding_window=8),
    "mamba": _text("Mamba", state_size=8),
    "vit": _seen("ViT", image_size=64, patch_size=16, **_SMALL),
    "segformer": _seen("Segformer", depths=[1, 1, 1, 1], hidden_sizes=[16, 32, 64, 80]),
    "lstm_both_ways": lambda: (_Recurrent(nn.LSTM, bidirectional=True), (torch.randn(1, 20, 16),)),
    "gru": lambda: (_Recurrent(nn.GRU), (torch.randn(1, 20, 16),)),
    "speech": _speech,
    "warped": lambda: (_Warped(), (_picture(40),)),
    "pyramid": lambda: (_Pyramid(), (_picture(20),)),
    "translator": _translator,
}


def export(name: str, dynamo: bool, folder: Path) -> None:
    """`NETWORKS[name]` as FOLDER/NAME@EXPORTER.onnx, from seed 0."""
    torch.manual_seed(0)
    model, inputs = NETWORKS[name]()
    path = folder / f"{name}@{'dynamo' if dynamo else 'ts'}.onnx"
    options: dict[str, Any] = {"external_data": False} if dynamo else {"opset_version": 17}
    try:
        torch.onnx.export(model.eval(), inputs, str(path), dynamo=dynamo, **options)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", default=[])
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.only or NETWORKS:
        for dynamo in (False, True):
            try:
                export(name, dynamo, args.folder)
            except Exception as error:
                reason = str(error).strip().split("\n")[0][:160]
                print(f"{name} ({'dynamo' if dynamo else 'ts'}): {type(error).__name__}: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
