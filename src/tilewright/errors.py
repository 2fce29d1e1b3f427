"""The exception tree: every error a user can meet, and what each one means.

    TilewrightError
    ├── UserError              something the caller can mend; the message says what and how
    │   ├── ModelError         the file is not a model, is truncated, or is malformed
    │   ├── ParseError         a text, such as a Relay program, is malformed; the message shows where
    │   ├── IllFormedError     a program binds a variable twice, uses it out of its scope, or names what is not there
    │   ├── UnsupportedError   a valid request that this version does not implement
    │   ├── TypeMismatchError  shapes or dtypes in a program do not fit together
    │   ├── NoTruthValue       an expression stands where Python wants true or false
    │   ├── ShapeError         an input shape is missing, dynamic, or wrong
    │   ├── InputError         an input given to a compiled model has a wrong name, dtype or shape
    │   ├── TargetError        an unknown target or one this machine cannot run
    │   ├── ArtifactError      a saved artifact is corrupt or from another version or machine
    │   ├── ScheduleError      a schedule step that is not legal for its stage or axis
    │   ├── ProgramError       a program for an accelerator cannot be decoded, reaches too far, races or waits for ever
    │   ├── RpcError           a device, its server or the tracker is gone, refuses, or does not speak this protocol
    │   └── EnvironmentError_  a directory, library or device this run needs is not usable
    └── InternalError          a fault in Tilewright itself; the message says how to report it

The command line prints a `UserError` as one message and exits with status 2, an `InternalError` with status 70.
"""

from __future__ import annotations


class TilewrightError(RuntimeError):
    """Base of every exception Tilewright raises on purpose; a `RuntimeError`, as programs of the field expect."""


class UserError(TilewrightError):
    """Something the caller can mend."""


class ModelError(UserError):
    """The model file is not a model, is truncated or is malformed."""


class ParseError(UserError):
    """A text, such as a Relay program, is malformed; the message shows the line and underlines the position."""


class IllFormedError(UserError):
    """A program binds a variable twice, uses it outside of its scope, names what is not defined, or requests
    a type that was not inferred."""


class UnsupportedError(UserError):
    """A valid request that this version does not implement."""


class TypeMismatchError(UserError, TypeError):
    """Shapes or dtypes in a program do not fit together."""


class NoTruthValue(UserError, TypeError, ValueError):
    """An expression stands where Python wants true or false, while the program that computes it is being built."""


class ShapeError(UserError):
    """An input shape is missing, still dynamic, or wrong."""


class InputError(UserError):
    """An input given to a compiled model has a wrong name, dtype or shape."""


class TargetError(UserError):
    """An unknown target, or one that this machine cannot run."""


class ArtifactError(UserError):
    """A saved artifact is corrupt, or was made by another version or for another machine."""


class ScheduleError(UserError):
    """A schedule step that is not legal for the stage or axis it names."""


class ProgramError(UserError):
    """A program for an accelerator cannot be decoded, reaches out of a memory, races, or waits for ever.

    `kind` is the rule that it breaks, one word for programs that generate programs.
    """

    def __init__(self, message: str, kind: str = "") -> None:
        super().__init__(message)
        self.kind = kind


class RpcError(UserError):
    """A device, its server or the tracker is gone, refuses what was asked, or does not speak this protocol."""


class EnvironmentError_(UserError):
    """A directory, library or device that this run needs is not usable."""


class InternalError(TilewrightError):
    """A fault in Tilewright itself."""

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}\nThis is a fault in Tilewright. Please report it with the output of "
            "`tilewright doctor` and the command that led here."
        )
