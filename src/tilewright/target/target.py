"""The base of all targets, and how a spelling finds its class.

    Target                  equal and hashed by its canonical spelling
        CpuTarget           a processor                                  (target/cpu.py)
        DeviceTarget        a device that runs kernels of thread blocks  (target/device.py)
        VtaTarget           the accelerator VTA beside a processor           (target/vta.py)
        te.Accelerator      a machine that a program declares            (te/accelerator.py)

`str(target)` is the canonical spelling; it names everything that changes the code, so it serves as a cache key, and
`Target(str(target)) == target`. An accelerator has no spelling that says everything: it is given as a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from tilewright.errors import TargetError
from tilewright.support.entry_points import DEVICES, load_plugins
from tilewright.support.suggestion import nearest
from tilewright.target.boards import BOARDS, spelled_board

if TYPE_CHECKING:
    from tilewright.machine import Machine

Kind = TypeVar("Kind", bound="Target")

#: The spelling of the best device of this machine.
AUTO = "auto"


class Target:
    """The target of code generation: an immutable value of one of the classes below this one.

    `Target(spelling)` is a value of the class that the first word of the spelling, its kind, belongs to; "auto" is
    the best device of this machine (`target/auto.py`). Raises `TargetError` for names it does not know.

    Code for processors and for devices of thread blocks takes any target and reads the fields of a `CpuTarget` or a
    `DeviceTarget`, which are declared here: to read one that a target's class does not have is a `TargetError`.
    """

    __slots__ = ("kind", "spelling")
    kind: str
    spelling: str

    KINDS: ClassVar[tuple[str, ...]] = ()
    """the first words of the spellings of a class"""

    is_processor: ClassVar[bool] = False
    """True if code for it is one program on registers, caches and cores"""

    has_thread_blocks: ClassVar[bool] = False
    """True if code for it is kernels that blocks of threads run"""

    triple: str
    cpu: str
    features: tuple[str, ...]
    feature_string: str
    vector_bits: int
    vector_registers: int
    l1d: int
    l2: int
    l3: int
    cores: int
    measured: str
    machine: Machine
    has_fma: bool
    converts_half: bool
    half_feature_string: str

    emulate: int
    ordinal: int | None
    max_threads_per_block: int
    max_shared_memory_per_block: int
    max_local_memory_per_thread: int
    max_vector_bytes: int
    thread_warp_size: int

    def __new__(cls, spec: str | Target = "cpu") -> Target:
        if isinstance(spec, Target):
            return spec
        spec = spelled_board(spec)
        if spec.strip() == AUTO:
            # asks the drivers of this machine
            from tilewright.target.auto import auto_target

            spec = auto_target()
        kind = (spec.split() or [""])[0]
        word, _, number = kind.partition(":")
        if number.isdigit() and word in _CLASSES and _CLASSES[word].has_thread_blocks:
            kind = word
        if kind not in _CLASSES:
            load_plugins(DEVICES)
        if kind not in _CLASSES:
            raise TargetError(f"unknown target {spec!r}{nearest(kind, [*_CLASSES, *BOARDS])}; known: "
                              f"{', '.join(_CLASSES)} ('cpu' is this machine, 'auto' its GPU if it has one; 'llvm' "
                              f"takes -mtriple= -mcpu= -mattr= -cores= -l1d= -l2= -l3= -machine=); boards: "
                              f"{', '.join(BOARDS)}")  # fmt: skip
        return _CLASSES[kind].parse(spec)

    @property
    def max_dynamic_shared_memory(self) -> int:
        """Bytes of shared memory that a launch on a device may ask for."""
        return self.max_shared_memory_per_block

    @classmethod
    def parse(cls, spec: str) -> Target:
        """The target of this class that `spec` spells."""
        raise NotImplementedError

    @staticmethod
    def host() -> Target:
        """The machine this runs on, whatever TILEWRIGHT_TARGET says."""
        return Target("llvm -mcpu=native")

    @property
    def backend(self) -> str:
        """The name of the backend, which is the kind unless a kind has several."""
        return self.kind

    @property
    def architecture(self) -> str:
        """The architecture of the code; the kind, where the target has no other."""
        return self.kind

    @property
    def is_host(self) -> bool:
        """True if this process can run code for this target."""
        return False

    @property
    def shuffle_width(self) -> int:
        """The number of neighbouring threads that can read each other's registers; 1 without shuffles."""
        return 1

    @property
    def has_subgroups(self) -> bool:
        """True if devices may let neighbouring threads read each other's registers, each as many as it chooses."""
        return False

    def supports(self, *features: str) -> bool:
        """True if it is a processor and all the LLVM features named are on."""
        return False

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a Target is immutable; spell another one instead of setting {name!r}")

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in Target.__annotations__ and name not in Target.__slots__:
                wanted = "processor" if name in _OF_PROCESSORS else "device of thread blocks"
                raise TargetError(f"{self} is no {wanted}, so it has no {name}")
            raise AttributeError(f"a {type(self).__name__} has no {name!r}")

    def __str__(self) -> str:
        return self.spelling

    def __repr__(self) -> str:
        return f"Target({self.spelling!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and other.spelling == self.spelling

    def __hash__(self) -> int:
        return hash(self.spelling)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Target, (self.spelling,))


_CLASSES: dict[str, type[Target]] = {}
_OF_PROCESSORS = ("triple", "cpu", "features", "feature_string", "vector_bits", "vector_registers", "l1d", "l2", "l3",
                  "cores", "measured", "machine", "has_fma", "converts_half", "half_feature_string")  # fmt: skip


def spelled(cls: type[Kind]) -> type[Kind]:
    """Enter a class of targets under its `KINDS`."""
    _CLASSES.update(dict.fromkeys(cls.KINDS, cls))
    return cls


def made(cls: type[Kind], **fields: Any) -> Kind:
    """A value of a class of targets with these fields."""
    target = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(target, name, value)
    return target
