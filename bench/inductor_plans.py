"""Kernels in PyTorch Inductor's plans of the benchmark networks for a GPU in float16, without one: a line of JSON each.

    PYTHON_WITH_TORCH bench/inductor_plans.py resnet50 bert_base_128 …

Needs PyTorch (2.13) and torchvision; a build for processors does. The networks are torchvision's, or the layers of the
exported file in plain PyTorch. Tensors are fake ones on "cuda"; the interface of the device says what an A100 is; the
scheduler fuses as for that and is stopped before it writes code, so that no Triton is needed. Counted are fused loops
and calls of libraries (products, convolutions, attention), one kernel each: what a library launches within, such as
changes of layout or the parts of a split sum, nobody knows here, so that Inductor has at least as many.
"""

from __future__ import annotations

import json
import sys
import types
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo.device_interface as interfaces
import torch._inductor.fx_passes.fuse_attention
import torch._inductor.fx_passes.misc_patterns
import torch._inductor.fx_passes.pad_mm
from torch import nn
from torch._inductor import ir, scheduler
from torch._subclasses.fake_tensor import FakeTensorMode

# torchvision's own operators may not load in a build for processors; its networks have none of them
sys.modules["torchvision._meta_registrations"] = types.ModuleType("none")
from torchvision import models  # noqa: E402

A100 = types.SimpleNamespace(
    name="A100", major=8, minor=0, multi_processor_count=108, regs_per_multiprocessor=65536, warp_size=32,
    max_threads_per_multi_processor=2048, max_threads_per_block=1024, shared_memory_per_block_optin=166912,
    shared_memory_per_multiprocessor=167936, L2_cache_size=40 << 20, total_memory=80 << 30, gcnArchName="",
)  # fmt: skip


class _Planned(Exception):
    """The scheduler is done."""


class _A100(interfaces.CudaInterface):
    """An A100 of which only the figures are there."""

    class Worker:
        set_device = staticmethod(lambda device: None)
        current_device = staticmethod(lambda: 0)
        get_device_properties = staticmethod(lambda device=None: A100)

    get_device_properties = staticmethod(lambda device=None: A100)
    get_compute_capability = staticmethod(lambda device=None: 80)
    current_device = staticmethod(lambda: 0)
    device_count = staticmethod(lambda: 1)
    is_available = is_triton_capable = staticmethod(lambda *_: True)
    is_bf16_supported = staticmethod(lambda including_emulation=False: True)
    synchronize = raise_if_triton_unavailable = staticmethod(lambda *_: None)


def pretend() -> list[Any]:
    """Have this process plan for an A100; a list that the nodes of each plan are put into."""
    found: list[Any] = []

    def codegen(self: Any) -> None:
        found.extend(self.nodes)
        raise _Planned

    interfaces.get_registered_device_interfaces()
    for name in ("cuda", "cuda:0"):
        interfaces.register_interface_for_device(name, _A100)
    torch.cuda._lazy_init = lambda: None
    torch.cuda.current_device = lambda: 0
    torch.cuda.get_device_properties = lambda device=None: A100
    torch.cuda.get_device_capability = lambda device=None: (8, 0)
    # patterns that are traced on real tensors: attention of separate operators, of which these networks have none,
    # padding of products, and indexing by random permutations
    torch._inductor.fx_passes.fuse_attention._sfdp_init = lambda *_: None
    torch._inductor.fx_passes.pad_mm._pad_mm_init = lambda *_: None
    torch._inductor.fx_passes.misc_patterns._misc_patterns_init = lambda *_: None
    scheduler.has_triton = lambda: True
    scheduler.Scheduler.codegen = codegen
    return found


class Attention(nn.Module):
    """Self-attention by the kernel of FlashAttention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.into, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, None]:
        batch, rows, width = x.shape
        parts = self.into(x).reshape(batch, rows, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        mixed = torch.ops.aten._scaled_dot_product_flash_attention(*parts.unbind(0))[0]
        return self.out(mixed.transpose(1, 2).reshape(batch, rows, width)), None


class Block(nn.Module):
    """A layer of BERT."""

    def __init__(self) -> None:
        super().__init__()
        self.attention, self.first, self.last = Attention(768, 12), nn.LayerNorm(768), nn.LayerNorm(768)
        self.inner = nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Linear(3072, 768))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x + self.attention(x)[0])
        return self.last(x + self.inner(x))


class Bert(nn.Module):
    """The network of bert_base_128.onnx."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(30522, 768), nn.LayerNorm(768)
        self.rows = nn.Parameter(torch.empty(1, 128, 768))
        self.layers = nn.Sequential(*(Block() for _ in range(12)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(self.norm(self.words(x) + self.rows))


class LanguageModel(nn.Module):
    """The network of lstm_lm.onnx."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.lstm = nn.Embedding(10000, 650), nn.LSTM(650, 650, 2, batch_first=True)
        self.out = nn.Linear(650, 10000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(self.words(x))[0])


class Vit(nn.Module):
    """torchvision's ViT-B/16 with the attention above, as its own and indexing cannot be traced without a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = models.vit_b_16(weights=None)
        for layer in self.parts.encoder.layers:
            layer.self_attention = Attention(768, 12)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.cat([self.parts.class_token, self.parts._process_input(x)], dim=1)
        return self.parts.heads(self.parts.encoder(rows).select(1, 0))


def dcgan() -> nn.Module:
    """The network of dcgan.onnx."""
    layers: list[nn.Module] = []
    for step, (before, after) in enumerate([(100, 512), (512, 256), (256, 128), (128, 64)]):
        layers += [nn.ConvTranspose2d(before, after, 4, 2 if step else 1, 1 if step else 0, bias=False)]
        layers += [nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1, bias=False), nn.Tanh())


def dqn() -> nn.Module:
    """The network of dqn.onnx."""
    layers = [nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU()]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, 18))


def mlp() -> nn.Module:
    """The network of mlp.onnx."""
    return nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10))


#: Networks that are not torchvision's as they are, with the shape of their input.
OWN: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "vit_b_16": (Vit, (1, 3, 224, 224)),
    "inception_v3": (lambda: models.inception_v3(weights=None, init_weights=False), (1, 3, 299, 299)),
    "bert_base_128": (Bert, (1, 128)),
    "lstm_lm": (LanguageModel, (1, 35)),
    "dcgan": (dcgan, (1, 100, 1, 1)),
    "dqn": (dqn, (1, 4, 84, 84)),
    "mlp": (mlp, (1, 784)),
}
WORDS = ("bert_base_128", "lstm_lm")  # whose inputs are numbers of words


def on_fake_gpu(model: nn.Module) -> None:
    """Replace what a module holds by fake tensors on the GPU."""
    for module in model.modules():
        for name, old in list(module._parameters.items()):
            if old is not None:
                module._parameters[name] = nn.Parameter(torch.empty(old.shape, dtype=old.dtype), requires_grad=False)
        for name, old in list(module._buffers.items()):
            if old is not None:
                module._buffers[name] = torch.empty(old.shape, dtype=old.dtype)


def kind(node: Any) -> str:
    """A node of the plan: the library's function that it calls, "fused loops", or "" where it runs nothing."""
    if isinstance(node, scheduler.NopKernelSchedulerNode) or isinstance(node.node, ir.MultiOutput):
        return ""
    if not isinstance(node, scheduler.ExternKernelSchedulerNode):
        return "fused loops"
    return str(getattr(node.node, "python_kernel_name", None) or type(node.node).__name__)


def plan(name: str, found: list[Any]) -> dict[str, Any]:
    """The kernels of a network's plan by kind, or the `error` that kept Inductor from one."""
    build, shape = OWN.get(name) or (lambda: getattr(models, name)(weights=None), (1, 3, 224, 224))
    found.clear()
    torch._dynamo.reset()
    with torch.device("meta"):
        model = build().half().eval()
    with FakeTensorMode(), torch.device("cuda"), torch.no_grad():
        on_fake_gpu(model)
        try:
            torch.compile(model, fullgraph=True)(torch.empty(shape, dtype=torch.int64 if name in WORDS else torch.half))
        except Exception as error:  # of any kind, as the scheduler's end is wrapped in one of Inductor's
            if not found:
                return {"network": name, "error": str(error)[:300]}
    counts = Counter(map(kind, found))
    del counts[""]
    return {"network": name, "kernels": counts.total(), "kinds": dict(counts)}


def main() -> None:
    """Print a line of JSON for each network that the command line names."""
    found = pretend()
    for name in sys.argv[1:]:
        print(json.dumps(plan(name, found)), flush=True)


if __name__ == "__main__":
    main()
