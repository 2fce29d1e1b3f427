"""`vta.get_env()`: the accelerator that classic programs are written against, and what they ask of it.

The default configuration, on the functional simulator. `VTA_HW_PATH` names a folder with `config/vta_config.json`, and
`with vta.Environment(figures):` makes another one the current one; target "sim" is the functional simulator, "tsim"
the one that counts cycles.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from tilewright import te, tir
from tilewright.compat.target.target import Target, arm_cpu
from tilewright.errors import UserError
from tilewright.target import Target as OwnTarget
from tilewright.te.tensor_intrin import TensorIntrin
from tilewright.vta.config import Config
from tilewright.vta.isa import ALU_OPS, MEMORY_IDS, Isa
from tilewright.vta.te import Machine

#: The figures of a configuration, as logarithms, and their defaults.
_SIZES = {
    "INP_WIDTH": 3, "WGT_WIDTH": 3, "ACC_WIDTH": 5, "BATCH": 0, "BLOCK": 4,
    "UOP_BUFF_SIZE": 15, "INP_BUFF_SIZE": 15, "WGT_BUFF_SIZE": 18, "ACC_BUFF_SIZE": 17,
}  # fmt: skip
_DEFAULT = {"TARGET": "sim", "HW_VER": "0.0.2", **{f"LOG_{name}": value for name, value in _SIZES.items()}}
_HOSTS = {**dict.fromkeys(("pynq", "de10nano"), "armv7-none-linux-gnueabihf"), "ultra96": "aarch64-linux-gnu"}
#: Kinds of drivers by the names of targets; boards are not reached.
DRIVERS = {"sim": "native", "tsim": "cycle"}


class DevContext:
    """The figures that the compiler of an environment needs: numbers of memories, operations and units, and the matrix
    product.
    """

    MEM_ID_UOP, MEM_ID_WGT, MEM_ID_INP = (MEMORY_IDS[name] for name in ("UOP", "WGT", "INP"))
    MEM_ID_ACC, MEM_ID_OUT, MEM_ID_ACC_8BIT = (MEMORY_IDS[name] for name in ("ACC", "OUT", "ACC_8BIT"))
    ALU_OPCODE_MIN, ALU_OPCODE_MAX, ALU_OPCODE_ADD = (ALU_OPS[name] for name in ("MIN", "MAX", "ADD"))
    ALU_OPCODE_SHR, ALU_OPCODE_MUL = (ALU_OPS[name] for name in ("SHR", "MUL"))
    QID_LOAD_INP = QID_LOAD_WGT = 1
    QID_LOAD_OUT = QID_COMPUTE = 2
    QID_STORE_OUT = 3
    DEBUG_NO_SYNC = False

    def __init__(self, env: Environment) -> None:
        self.vta_axis = te.thread_axis("vta")
        self.vta_push_uop = tir.StringImm("VTAPushGEMMOp")
        self.gemm = env.machine.no_gemm if env.mock_mode else env.machine.gemm

    def get_task_qid(self, qid: int) -> int:
        """The queue of a unit: its own, unless everything is put into one."""
        return 1 if self.DEBUG_NO_SYNC else qid


class Environment:
    """A configuration as classic programs see it: `env.BATCH`, `env.inp_dtype`, `env.acc_scope`, `env.gemm` …"""

    current: ClassVar[Environment]
    MAX_XFER = 1 << 22
    DEBUG_DUMP_INSN, DEBUG_DUMP_UOP, DEBUG_SKIP_READ_BARRIER, DEBUG_SKIP_WRITE_BARRIER = 2, 4, 8, 16
    inp_scope, wgt_scope, acc_scope = (Machine.scopes[name] for name in ("INP", "WGT", "ACC"))

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        self.cfg_dict = {**_DEFAULT, **cfg}
        figures = {name: value for name, value in self.cfg_dict.items() if name not in ("TARGET", "HW_VER")}
        both = {name: figures.pop(name) for name in ("LOG_BLOCK_IN", "LOG_BLOCK_OUT") if name in figures}
        if len({*both.values(), figures["LOG_BLOCK"]}) > 1:
            raise UserError(f"tiles of weights are square here: {both} with LOG_BLOCK {figures['LOG_BLOCK']}")
        derived = {name: figures.pop(name) for name in ("LOG_OUT_WIDTH", "LOG_OUT_BUFF_SIZE") if name in figures}
        self.config = Config.from_json(json.dumps(figures))
        self.machine = Machine(Isa(self.config))
        self.TARGET, self.HW_VER = str(self.cfg_dict["TARGET"]), str(self.cfg_dict["HW_VER"])
        self._figures()
        if wrong := {name: value for name, value in derived.items() if value != getattr(self, name)}:
            raise UserError(f"{wrong} follows from the other figures: leave it out of the configuration")
        self.mock_mode = False
        self._last_env: list[Environment] = []

    def _figures(self) -> None:
        config = self.config
        for name in (*_SIZES, "BLOCK_IN", "BLOCK_OUT", "OUT_WIDTH"):
            same = {"BLOCK_IN": "block", "BLOCK_OUT": "block", "OUT_WIDTH": "inp_width"}.get(name, name.lower())
            setattr(self, f"LOG_{name}", getattr(config, f"log_{same}"))
        self.LOG_OUT_BUFF_SIZE = config.log_acc_buff_size + config.log_inp_width - config.log_acc_width
        self.BATCH, self.BLOCK_IN, self.BLOCK_OUT = config.batch, config.block, config.block
        memories = self.machine.isa.memories
        for name in ("INP", "WGT", "ACC", "OUT"):
            width, size = 1 << getattr(self, f"LOG_{name}_WIDTH"), memories[name].element_bytes
            setattr(self, f"{name}_WIDTH", width)
            setattr(self, f"{name}_BUFF_SIZE", 1 << getattr(self, f"LOG_{name}_BUFF_SIZE"))
            setattr(self, f"{name}_ELEM_BYTES", size)
            setattr(self, f"{name}_ELEM_BITS", 8 * size)
            setattr(self, f"{name.lower()}_dtype", f"int{width}")
        self.UOP_BUFF_SIZE = 1 << config.log_uop_buff_size
        self.BITSTREAM = config.name
        self.MODEL = f"{self.TARGET}_{self.BITSTREAM}"

    def __enter__(self) -> Environment:
        self._last_env.append(Environment.current)
        Environment.current = self
        return self

    def __exit__(self, *_: object) -> None:
        Environment.current = self._last_env.pop()

    @cached_property
    def dev(self) -> DevContext:
        """The figures that the compiler needs."""
        return DevContext(self)

    @property
    def mock(self) -> Environment:
        """The environment whose copies, vector loops and products do nothing."""
        if self.mock_mode:
            return self
        made = copy.copy(self)
        made.__dict__.pop("dev", None)
        made.mock_mode = True
        return made

    @property
    def dma_copy(self) -> str:
        """The pragma of loops that are a transfer."""
        return "skip_dma_copy" if self.mock_mode else "dma_copy"

    @property
    def alu(self) -> str:
        """The pragma of loops of the vector unit."""
        return "skip_alu" if self.mock_mode else "alu"

    @property
    def gemm(self) -> TensorIntrin:
        """The intrinsic of the matrix unit."""
        return self.dev.gemm

    @property
    def target(self) -> Any:
        """The accelerator as a target."""
        return Target(f"ext_dev -device=vta -keys=vta,cpu -model={self.MODEL}")

    @property
    def target_host(self) -> str:
        """The target of the host's part."""
        return f"llvm -mtriple={_HOSTS[self.TARGET]}" if self.TARGET in _HOSTS else "llvm"

    @property
    def target_vta_cpu(self) -> OwnTarget:
        """The processor beside the accelerator: this one, under the name of an ARM's."""
        if self.TARGET in DRIVERS:
            made: OwnTarget = Target(f"llvm -device=arm_cpu -keys=arm_cpu,cpu -model={self.TARGET}")
            return made
        found: OwnTarget = arm_cpu(self.TARGET)
        return found


def get_env() -> Environment:
    """The current environment."""
    return Environment.current


def get_vta_hw_path() -> str:
    """The folder with `config/vta_config.json`, as `VTA_HW_PATH` says; "" where it is unset."""
    path = os.environ.get("VTA_HW_PATH", "")
    return os.path.abspath(path) if path else ""


def _first() -> Environment:
    file = Path(get_vta_hw_path()) / "config" / "vta_config.json"
    return Environment(json.loads(file.read_text()) if get_vta_hw_path() and file.is_file() else {})


Environment.current = _first()
