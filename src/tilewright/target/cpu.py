"""Processors as targets: which one, its vectors, registers, caches and cores.

    Target("cpu")                                        this machine, or what TILEWRIGHT_TARGET names instead
    Target("llvm -mcpu=skylake-avx512")                  a named processor of this machine's architecture
    Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1 -mattr=+dotprod")
    Target("cpu -cores=1 -l2=262144")                    any figure may be given
    Target("wasm")                                       WebAssembly with 128-bit vectors
    Target("c")                                          the same by way of C99 source and a C compiler
    Target("c -mcpu=cortex-m4")                          a board without a system, for which C99 is written

Where `tilewright doctor --calibrate` has measured this machine, its spelling ends in `-machine=` and a digest of the
figures, which are then `target.machine`; without it they are the shipped ones of the processor. A digest means
something only where the figures are kept, in the cache of the machine that they were measured on: elsewhere it is a
`TargetError`, as code chosen by other figures under the same name would be worse. TILEWRIGHT_CALIBRATION=0 spells this
machine without it.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Mapping
from pathlib import Path

from tilewright.errors import TargetError
from tilewright.machine import BOARD_MACHINES, Machine, l3_share, machine_of
from tilewright.machine_store import stored, stored_key
from tilewright.runtime.processor import may_use_tiles
from tilewright.runtime.threads import available_processors
from tilewright.support import knobs
from tilewright.support.forks import between_forks
from tilewright.support.suggestion import nearest
from tilewright.target.microcontrollers import MICROCONTROLLERS, WITHOUT_SYSTEM
from tilewright.target.target import Target, made, spelled

_SSE = ("sse2",)
_V2 = (*_SSE, "sse3", "ssse3", "sse4.1", "sse4.2", "popcnt")
_V3 = (*_V2, "avx", "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_ICE = (*_V4, "avx512vnni", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512bitalg", "avx512vpopcntdq", "gfni",
        "vaes", "vpclmulqdq")  # fmt: skip
_SPR = (*_ICE, "avx512bf16", "avx512fp16", "avxvnni", "amx-tile", "amx-int8", "amx-bf16")
_NEON = ("neon",)
_DOT = (*_NEON, "fullfp16", "dotprod")

#: The feature of arithmetic of float16, by architecture.
_HALF_ARITHMETIC = {"x86_64": "avx512fp16", "aarch64": "fullfp16"}

#: Features that change the code generated for each architecture, by LLVM's processor names.
PROCESSORS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "x86-64": _SSE, "x86-64-v2": _V2, "x86-64-v3": _V3, "x86-64-v4": _V4, "nehalem": _V2,
        "sandybridge": (*_V2, "avx"), "ivybridge": (*_V2, "avx", "f16c"), "haswell": _V3, "broadwell": _V3,
        "skylake": _V3, "skylake-avx512": _V4, "cascadelake": (*_V4, "avx512vnni"),
        "cooperlake": (*_V4, "avx512vnni", "avx512bf16"), "icelake-client": _ICE, "icelake-server": _ICE,
        "tigerlake": (*_ICE, "avx512vp2intersect"), "rocketlake": _ICE, "sapphirerapids": _SPR, "emeraldrapids": _SPR,
        "graniterapids": (*_SPR, "amx-fp16"), "alderlake": (*_V3, "avxvnni", "gfni", "vaes", "vpclmulqdq"),
        "znver1": _V3, "znver2": _V3, "znver3": (*_V3, "vaes", "vpclmulqdq"), "znver4": (*_ICE, "avx512bf16"),
        "znver5": (*_ICE, "avx512bf16", "avxvnni", "avx512vp2intersect"),
    },
    "aarch64": {
        "generic": _NEON, "cortex-a53": _NEON, "cortex-a55": _DOT, "cortex-a57": _NEON, "cortex-a72": _NEON,
        "cortex-a76": _DOT, "cortex-a78": _DOT, "cortex-x1": _DOT, "neoverse-n1": _DOT,
        "neoverse-n2": (*_DOT, "bf16", "i8mm"), "neoverse-v1": (*_DOT, "bf16", "i8mm"),
        "neoverse-v2": (*_DOT, "bf16", "i8mm"), "apple-m1": _DOT, "apple-m2": (*_DOT, "bf16", "i8mm"),
    },
    "riscv64": {"generic-rv64": ("m", "a", "f", "d", "c"), "sifive-u74": ("m", "a", "f", "d", "c")},
    "wasm32": {"generic": ("simd128",), "mvp": ()},
}  # fmt: skip
#: Features that no processor of the table has by its name.
_OTHER = {"relaxed-simd"}
#: Other names that LLVM has for processors of the table.
_ALIASES = {
    "core-avx2": "haswell", "core-avx-i": "ivybridge", "corei7-avx": "sandybridge", "corei7": "nehalem",
    "westmere": "nehalem", "silvermont": "nehalem", "slm": "nehalem", "goldmont": "nehalem", "skx": "skylake-avx512",
    "cannonlake": "skylake-avx512", "raptorlake": "alderlake", "meteorlake": "alderlake", "k8-sse3": "x86-64",
}  # fmt: skip
_DEFAULT_CPU = {"x86_64": "x86-64", "aarch64": "generic", "riscv64": "generic-rv64",
                "wasm32": "generic"}  # fmt: skip
_ARCHITECTURES = {"amd64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64"}

_OPTION_NAMES = ("-mtriple=", "-mcpu=", "-mattr=", "-cores=", "-l1d=", "-l2=", "-l3=", "-machine=")
_OPTION = re.compile(rf"-({'|'.join(name.strip('-=') for name in _OPTION_NAMES)})=(\S+)$")
_FIGURES = ("l1d", "l2", "l3", "cores")
_WASM_TRIPLE = "wasm32-unknown-unknown"


@spelled
class CpuTarget(Target):
    """A processor to generate code for.

    `vector_bits` is the width of its widest vector registers and `vector_registers` their number; `l1d`, `l2` (of one
    core) and `l3` (shared) are in bytes; `features` are LLVM feature names that are on; `has_fma` says that a fused
    multiply-add is one instruction, `converts_half` that there are instructions between float16 and float32,
    `half_feature_string` is that of functions with arithmetic of float16, "" where there is none; `measured`
    is the digest of the figures that were measured of its machine, or ""; `machine` is what the processor can do, with
    the sizes that this target sets.
    """

    __slots__ = ("converts_half", "cores", "cpu", "feature_string", "features", "half_feature_string", "has_fma", "l1d",
                 "l2", "l3", "machine", "measured", "triple", "vector_bits", "vector_registers")  # fmt: skip
    KINDS = ("cpu", "llvm", "c", "wasm")
    is_processor = True

    @classmethod
    def parse(cls, spec: str) -> CpuTarget:
        """The processor that `spec` spells."""
        return _parsed(spec, knobs.TARGET.get(), stored_key(host_identity()))

    @property
    def architecture(self) -> str:
        """ "x86_64", "aarch64", "riscv64" or "wasm32"; of a board "thumb", "riscv32" or "portable"."""
        board = MICROCONTROLLERS.get(self.cpu) if self.kind == "c" else None
        return board[0] if board is not None and board[1] == self.triple else _architecture(self.triple)

    @property
    def backend(self) -> str:
        """The kind, "board" for a processor without a system, "wasm" for WebAssembly of LLVM."""
        if self.architecture == "wasm32" and self.kind == "llvm":
            return "wasm"
        return "board" if self.architecture in WITHOUT_SYSTEM else self.kind

    @property
    def is_host(self) -> bool:
        """True if this process can run code for this target: same architecture, and no feature this machine lacks."""
        host = Target.host()
        return self.architecture == host.architecture and set(self.features) <= set(host.features)

    def supports(self, *features: str) -> bool:
        """True if all the LLVM features named are on."""
        return all(f in self.features for f in features)


@functools.lru_cache(maxsize=256)
def _parsed(spec: str, default: str | None, measured: str) -> CpuTarget:
    """The target spelled `spec`; where that names no processor, it is the one of `default` (None: this machine).

    `measured` is the digest of this machine's figures, "" without such.
    """
    words = spec.split()
    options = _options(spec)
    if default is not None and words[0] != "wasm" and not options.keys() & {"mtriple", "mcpu"}:
        options = {**_options(default), **options}
    if words[0] == "wasm":
        options.setdefault("mtriple", _WASM_TRIPLE)
    if words[0] == "c" and _names_board(options, spec):
        return _make_board(options["mcpu"], options, spec)
    triple = options.get("mtriple") or _host_triple()
    architecture = _architecture(triple)
    local = architecture == _architecture(_host_triple())
    cpu = options.get("mcpu", "native" if local and "mtriple" not in options else _DEFAULT_CPU[architecture])
    cpu = _ALIASES.get(cpu, cpu)
    if cpu == "native":
        if not local:
            raise TargetError(f"target {spec!r}: -mcpu=native needs this machine's own architecture")
        if measured:
            options.setdefault("machine", measured)
        cpu, changes = _host_cpu()
        changes = {**changes, **_feature_changes(options.get("mattr", ""), spec)}
    else:
        _check_cpu(cpu, architecture, spec)
        changes = _feature_changes(options.get("mattr", ""), spec)
    return _make("c" if words[0] == "c" else "llvm", triple, cpu, changes, options, spec)


def _options(spec: str) -> dict[str, str]:
    """The options of a spelling by name: `{"mcpu": "haswell"}`."""
    options = {}
    for word in spec.split()[1:]:
        match = _OPTION.match(word)
        if match is None:
            hint = nearest(word.split("=")[0] + "=", _OPTION_NAMES)
            raise TargetError(f"target {spec!r}: unknown option {word!r}{hint}; known: {' '.join(_OPTION_NAMES)}")
        options[match.group(1)] = match.group(2)
    return options


def _make(kind: str, triple: str, cpu: str, changes: dict[str, bool], options: dict[str, str], spec: str) -> CpuTarget:
    architecture = _architecture(triple)
    base = PROCESSORS[architecture].get(cpu, ())
    changes = {name: on for name, on in sorted(changes.items()) if on != (name in base)}
    if changes.get("avx512f") is False:
        changes.update((name, False) for name in base if name.startswith("avx512"))
    features = tuple(sorted(name for name in {*base, *changes} if changes.get(name, True)))
    bits, registers = _vectors(architecture, features)
    attributes = ",".join(f"{'+' if on else '-'}{name}" for name, on in sorted(changes.items()))
    figures = dict(zip(_FIGURES, _figures(architecture, cpu, features), strict=True))
    measured = options.get("machine", "")
    known = (stored(measured) if measured else None) or machine_of(cpu, features)
    if measured:
        figures["l3"] = min(figures["l3"], known.l3.size)
    for name in _FIGURES:
        if name in options:
            if not options[name].isdigit() or int(options[name]) < 1:
                raise TargetError(f"target {spec!r}: -{name}={options[name]} is not a positive number")
            figures[name] = int(options[name])
    words = [f"{kind} -mtriple={triple} -mcpu={cpu}", f"-mattr={attributes}" if attributes else ""]
    words += [f"-{name}={figures[name]}" for name in _FIGURES]
    if "machine" in options:
        _check_measured(options["machine"], spec)
        words.append(f"-machine={options['machine']}")
    return made(
        CpuTarget,
        kind=kind,
        triple=triple,
        cpu=cpu,
        features=features,
        feature_string=_llvm_features(architecture, base, changes),
        vector_bits=bits,
        vector_registers=registers,
        measured=measured,
        machine=_machine(known, bits, registers, figures),
        has_fma="fma" in features or architecture in ("aarch64", "riscv64"),
        converts_half=architecture == "aarch64" or "f16c" in features,
        half_feature_string=_half_feature_string(architecture, base, changes, features),
        spelling=" ".join(w for w in words if w),
        **figures,
    )


def _names_board(options: Mapping[str, str], spec: str) -> bool:
    """True if a target of C names a board's processor, or raise `TargetError` for one that nobody knows."""
    cpu, triple = options.get("mcpu", ""), options.get("mtriple")
    if cpu in MICROCONTROLLERS:
        return triple in (None, MICROCONTROLLERS[cpu][1])
    if triple is None and cpu.startswith(("cortex-m", "riscv32")):
        known = list(MICROCONTROLLERS)
        raise TargetError(f"target {spec!r}: unknown processor {cpu!r} of a board{nearest(cpu, known)}; known: "
                          f"{', '.join(known)}")  # fmt: skip
    return False


def _make_board(cpu: str, options: Mapping[str, str], spec: str) -> CpuTarget:
    """The processor of a board: one core, registers of 32 bits, caches as its machine has them."""
    _, triple, features = MICROCONTROLLERS[cpu]
    refused = [name for name in ("mattr", "cores", "machine") if name in options]
    if refused:
        raise TargetError(f"target {spec!r}: the processor of a board takes no -{refused[0]}=; it has one core, "
                          "and its name says its features")  # fmt: skip
    machine = BOARD_MACHINES[cpu]
    return made(
        CpuTarget,
        kind="c",
        triple=triple,
        cpu=cpu,
        features=features,
        feature_string="",
        vector_bits=machine.vector_bits,
        vector_registers=machine.vector_registers,
        measured="",
        machine=machine,
        has_fma=False,
        converts_half=False,
        spelling=f"c -mtriple={triple} -mcpu={cpu}",
        l1d=machine.l1.size,
        l2=machine.l2.size,
        l3=machine.l3.size,
        cores=1,
    )


def _machine(known: Machine, bits: int, registers: int, figures: Mapping[str, int]) -> Machine:
    """`known` with the sizes that a target sets."""
    return dataclasses.replace(
        known.narrowed(bits),
        cores=figures["cores"],
        vector_bits=bits,
        vector_registers=registers,
        l1=dataclasses.replace(known.l1, size=figures["l1d"]),
        l2=dataclasses.replace(known.l2, size=figures["l2"]),
        l3=dataclasses.replace(known.l3, size=figures["l3"]),
    )


def _llvm_features(architecture: str, base: tuple[str, ...], changes: dict[str, bool]) -> str:
    """LLVM's feature string.

    LLVM would split 512-bit vectors on some processors unless set not to; its generic RISC-V has no extensions, its
    generic WebAssembly no vectors. Halves are computed in float32 and rounded: with arithmetic of their own LLVM would
    contract a product and a sum of halves into one operation, and leave out the rounding between them.
    """
    if architecture in ("riscv64", "wasm32"):
        changes = {**dict.fromkeys(base, True), **changes}
    parts = [f"{'+' if on else '-'}{name}" for name, on in sorted(changes.items())]
    half_arithmetic = _HALF_ARITHMETIC.get(architecture)
    if half_arithmetic:
        parts = [part for part in parts if part != f"+{half_arithmetic}"] + [f"-{half_arithmetic}"]
    if architecture == "x86_64":
        parts.append("-prefer-256-bit")
    return ",".join(parts)


def _half_feature_string(
    architecture: str, base: tuple[str, ...], changes: dict[str, bool], features: tuple[str, ...]
) -> str:
    """The same of functions with arithmetic of float16; "" without."""
    feature = _HALF_ARITHMETIC.get(architecture)
    if feature not in features:
        return ""
    return _llvm_features(architecture, base, changes).replace(f"-{feature}", f"+{feature}")


def _vectors(architecture: str, features: tuple[str, ...]) -> tuple[int, int]:
    """Width in bits and number of the vector registers."""
    if architecture == "aarch64":
        return 128, 32
    if architecture == "riscv64":
        return 64, 32
    if architecture == "wasm32":
        return 128, 15  # an engine keeps one
    if "avx512f" in features and "avx512vl" in features:
        return 512, 32
    return (256 if "avx2" in features else 128), 16


def _architecture(triple: str) -> str:
    name = triple.split("-")[0].lower()
    name = _ARCHITECTURES.get(name, name)
    if name not in PROCESSORS:
        raise TargetError(f"unknown architecture {name!r} in triple {triple!r}; known: {', '.join(PROCESSORS)}")
    return name


def _check_cpu(cpu: str, architecture: str, spec: str) -> None:
    if cpu not in PROCESSORS[architecture] and cpu != _host_cpu()[0]:
        known = ["native", *sorted(PROCESSORS[architecture])]
        hint = nearest(cpu, known)
        raise TargetError(
            f"target {spec!r}: unknown processor {cpu!r} for {architecture}{hint}; known: {', '.join(known)}"
        )


def _feature_changes(text: str, spec: str) -> dict[str, bool]:
    changes = {}
    known = {name for table in PROCESSORS.values() for features in table.values() for name in features} | _OTHER
    for word in filter(None, text.split(",")):
        if word[0] not in "+-" or word[1:] not in known:
            raise TargetError(
                f"target {spec!r}: unknown feature {word!r} in -mattr; write +name or -name, with a name of: "
                f"{', '.join(sorted(known))}"
            )
        changes[word[1:]] = word[0] == "+"
    return changes


# --------------------------------------------------------------------------------------------- this machine
@functools.cache
@between_forks
def _host_triple() -> str:
    # on first use: a target of another kind needs no LLVM
    from llvmlite import binding as llvm

    return str(llvm.get_process_triple())


@functools.cache
@between_forks
def _host_cpu() -> tuple[str, dict[str, bool]]:
    """The processor's name and, of the features that matter, those that differ from what the name stands for."""
    from llvmlite import binding as llvm

    architecture = _architecture(_host_triple())
    name = str(llvm.get_host_cpu_name())
    found = dict(llvm.get_host_cpu_features())
    if any(name.startswith("amx-") and has for name, has in found.items()) and not may_use_tiles():
        found = {name: has and not name.startswith("amx-") for name, has in found.items()}
    if name not in PROCESSORS[architecture] and not found:
        name = _DEFAULT_CPU[architecture]
    base = PROCESSORS[architecture].get(name, ())
    matter = {feature for features in PROCESSORS[architecture].values() for feature in features}
    changes = {f: found[f] for f in matter if f in found and found[f] != (f in base)}
    return name, changes


@functools.cache
def _figures(architecture: str, cpu: str, features: tuple[str, ...]) -> tuple[int, int, int, int]:
    """L1d, L2, L3 bytes and cores: this machine's own where the processor is this machine's, else the table's."""
    known = machine_of(cpu, features)
    family = (known.l1.size, known.l2.size, known.l3.size)
    if architecture == _architecture(_host_triple()) and cpu == _host_cpu()[0]:
        measured = _host_caches()
        sizes = tuple(measured.get(level) or default for level, default in zip((1, 2, 3), family, strict=True))
        cores = os.cpu_count() or 1
        return sizes[0], sizes[1], l3_share(sizes[2], cores), cores
    return (*family, 1 if architecture == "wasm32" else known.cores)


@functools.cache
def host_identity() -> str:
    """The identity of this machine: processor, features, caches and the cores that this process may use."""
    name, changes = _host_cpu()
    features = ",".join(f"{'+' if on else '-'}{feature}" for feature, on in sorted(changes.items()))
    caches = ",".join(f"{level}={size}" for level, size in sorted(_host_caches().items()))
    return f"{_host_triple()} {name} {features} {caches} {available_processors()}"


def _check_measured(key: str, spec: str) -> None:
    if stored(key) is None:
        raise TargetError(
            f"target {spec!r}: the figures -machine={key} are not kept on this machine; they were measured on another, "
            "or the cache was emptied. `tilewright doctor --calibrate` measures this one, and 'cpu' then names it; "
            "without -machine the shipped figures of the processor are used"
        )


def _host_caches() -> dict[int, int]:
    """Bytes of the data cache at each level, as Linux tells; empty where it does not."""
    sizes: dict[int, int] = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            kind, level = (index / "type").read_text().strip(), int((index / "level").read_text())
            text = (index / "size").read_text().strip()
        except (OSError, ValueError):
            continue
        match = re.match(r"(\d+)([KMG]?)$", text)
        if match and kind in ("Data", "Unified"):
            sizes[level] = int(match.group(1)) << {"": 0, "K": 10, "M": 20, "G": 30}[match.group(2)]
    return sizes
