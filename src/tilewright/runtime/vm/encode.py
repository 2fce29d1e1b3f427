"""The steps of a flat program as the words that `tilewright_steps` runs: see `codegen/native/steps.py`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tilewright.errors import InternalError
from tilewright.runtime.vm import steps as vm

# The numbers of the instructions.
(_DONE, _POINT, _SET, _INCREMENT, _JUMP, _UNLESS, _WHEN, _BACK, _RUN, _CARRY, _SWAP, _COPY, _STACK, _GROW, _ROOM,
 _EXPECT, _STOP) = range(17)  # fmt: skip

# The cells at the beginning of every frame.
POSITION, TURNS, THREADS, CODE, SLOTS, WHAT, ZERO = range(7)


class Encoder:
    """Steps to words; `cells` are the positions of bases and variables, more of which are made as they are met.

    `entries` are the address of each segment's code and how it is called (`codegen/native/steps.py`); `homes` other
    bases for what the steps have in the arena, by its offset there.
    """

    def __init__(self, entries: Sequence[tuple[int, int]], homes: Mapping[int, str]) -> None:
        self.entries = entries
        self.homes = homes
        self.cells: dict[str, int] = {"0": ZERO}
        self._words: list[int | str] = []
        self._labels: dict[str, int] = {}
        self._skips = 0

    def cell(self, name: str) -> int:
        """The cell of a base or a variable."""
        return self.cells.setdefault(name, ZERO + len(self.cells))

    @property
    def frame_cells(self) -> int:
        """The number of cells in a frame."""
        return ZERO + len(self.cells)

    def words(self, steps: Sequence[vm.Step]) -> list[int]:
        """The words of the steps, and of the end behind them."""
        for step in steps:
            self._step(step)
        self._words.append(_DONE)
        return [self._labels[word] if isinstance(word, str) else word for word in self._words]

    def _address(self, address: vm.Address) -> tuple[int, int, int, int]:
        base, offset = address.base, address.offset
        if base == "arena" and offset in self.homes:
            base, offset = self.homes[offset], 0
        count = self.cell(address.count) if address.count else ZERO
        return self.cell(base), offset, count, address.stride

    def _step(self, step: vm.Step) -> None:
        if isinstance(step, vm.Label):
            self._labels[step.name] = len(self._words)
        elif isinstance(step, vm.Assign | vm.Jump):
            self._assign(step.before)
            if isinstance(step, vm.Jump):
                self._words += [_JUMP, step.label]
        elif isinstance(step, vm.Unless | vm.Repeat):
            self._branch(step)
        elif isinstance(step, vm.Again):
            self._again(step)
        else:
            self._words += self._plain(step)

    def _assign(self, before: Sequence[vm.Point | vm.Count]) -> None:
        for one in before:
            self._words += self._plain(one)

    def _branch(self, step: vm.Unless | vm.Repeat) -> None:
        """A conditional jump on a byte; the assignments before it are executed only if it is taken."""
        if isinstance(step, vm.Unless) and not step.before:
            self._words += [_UNLESS, *self._address(step.test), step.label]
            return
        self._skips += 1
        over = f"over {self._skips}"
        self._words += [_WHEN if isinstance(step, vm.Unless) else _UNLESS, *self._address(step.test), over]
        if isinstance(step, vm.Unless):
            self._assign(step.before)
        self._words += [_JUMP if isinstance(step, vm.Unless) else _BACK, step.label]
        self._labels[over] = len(self._words)

    def _again(self, step: vm.Again) -> None:
        """All values are looked at, then carried on."""
        values = [self.cell(f"next{index}") for index in range(len(step.carried))]
        lengths = [self.cell(f"length{index}") for index in range(len(step.counts))]
        for cell, one in zip(values, step.carried):
            self._words += [_POINT, cell, *self._address(one.value)]
        for cell, count in zip(lengths, step.counts):
            self._words += [_SET, cell, self.cell(count.value)]
        for cell, one in zip(values, step.carried):
            positions = (*self._address(one.one), *self._address(one.other))
            self._words += [_CARRY, self.cell(one.variable), cell, *positions, one.nbytes]
        for cell, count in zip(lengths, step.counts):
            self._words += [_SET, self.cell(count.variable), cell]
        self._words += [_BACK, step.label]

    def _plain(self, step: vm.Step) -> Iterator[int]:
        """A step that goes on to the next."""
        match step:
            case vm.Point(variable, address):
                yield from (_POINT, self.cell(variable), *self._address(address))
            case vm.Count(variable, value):
                yield from (_SET, self.cell(variable), self.cell(value))
            case vm.Increment(variable):
                yield from (_INCREMENT, self.cell(variable))
            case vm.Run(segment, addresses, table):
                entry, how = self.entries[segment]
                memory = [vm.Address("weights"), vm.Address("working"), vm.Address("scratch")]
                positions = [*addresses, *memory, *([table] if table is not None else [])]
                yield from (_RUN, entry, how, len(positions))
                for position in positions:
                    yield from self._address(position)
            case vm.Swap(variable, one, other):
                yield from (_SWAP, self.cell(variable), *self._address(one), *self._address(other))
            case vm.Copy(target, source, nbytes):
                yield from (_COPY, *self._address(target), *self._address(source), nbytes)
            case vm.Stack(target, source, length, outer, nbytes):
                yield from (_STACK, *self._address(target), *self._address(source), length, outer, nbytes)
            case vm.Grow(count, room, number):
                yield from (_GROW, self.cell(count), self.cell(room), number)
            case vm.Room(count, most, error):
                yield from (_ROOM, self.cell(count), most, error)
            case vm.Expect(count, length, error):
                yield from (_EXPECT, self.cell(count), length, error)
            case vm.Stop(error):
                yield from (_STOP, error)
            case _:
                raise InternalError(f"there are no words for the step {step}")
