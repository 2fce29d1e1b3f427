"""`python -m tilewright.compat [--emulate] script.py arguments…`: run a classic program on this package.

`-m tvm.exec.rpc_server arguments…` in place of the script runs a module, as `python -m` does.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path

from tilewright.compat import install


def main(arguments: list[str]) -> int:
    """Run the script that `arguments` name, with the rest as its own; 2 if there is none.

    With `--emulate` before it, kernels for CUDA and Metal run on this machine's processor.
    """
    emulate = arguments[:1] == ["--emulate"]
    arguments = arguments[emulate:]
    if not arguments or arguments == ["-m"]:
        print("usage: python -m tilewright.compat [--emulate] script.py|-m module [argument …]", file=sys.stderr)
        return 2
    if arguments[0] == "-m":
        install(emulate)
        sys.argv = arguments[1:]
        try:
            found = importlib.util.find_spec(arguments[1])
        except ModuleNotFoundError as error:
            print(error, file=sys.stderr)
            return 2
        if found is None:
            print(f"{arguments[1]}: there is no such module", file=sys.stderr)
            return 2
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        return 0
    script = Path(arguments[0])
    if not script.is_file():
        print(f"{script}: there is no such file", file=sys.stderr)
        return 2
    install(emulate)
    sys.argv = arguments
    sys.path.insert(0, str(script.resolve().parent))
    runpy.run_path(str(script), run_name="__main__")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
