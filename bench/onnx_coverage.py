"""The onnx package's own backend tests on Tilewright and on onnxruntime: how many pass, and which do not.

    python bench/onnx_coverage.py [--engines tilewright,onnxruntime] [--kinds NodeModel,…] [--failures]

Each engine runs in a process of its own; where a case ends that process, it counts as failed and the next one goes on
behind it. onnxruntime is allowed opsets that it does not call released, as in its own tests.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import unittest
import warnings
from collections.abc import Iterator
from typing import Any

KINDS = ("NodeModel", "SimpleModel", "PyTorchConvertedModel", "PyTorchOperatorModel", "RealModel")
ENGINES = ("tilewright", "onnxruntime")


def test_cases(engine: str) -> dict[str, Any]:
    """The test cases that the onnx package makes for an engine, by kind."""
    from onnx.backend.test import BackendTest

    if engine == "tilewright":
        from tilewright.onnx_backend import TilewrightBackend as backend
    else:
        import onnxruntime
        import onnxruntime.backend as backend  # type: ignore[no-redef]

        onnxruntime.set_default_logger_severity(4)
    made = BackendTest(backend, __name__).test_cases
    return {name.removeprefix("OnnxBackend").removesuffix("Test"): case for name, case in made.items()}


def run_child(engine: str, kind: str, skipped: int) -> None:
    """Run the cases of a kind from number `skipped` on; print each name when it begins, and how it ended."""
    warnings.simplefilter("ignore")
    case = test_cases(engine)[kind]
    names = sorted(name for name in dir(case) if name.endswith("_cpu"))
    for name in names[skipped:]:
        print(f"begin {name.removesuffix('_cpu')}", flush=True)
        try:
            getattr(case(name), name)()
            outcome = "pass"
        except unittest.SkipTest as reason:
            outcome = f"skip {reason}"
        except Exception as error:  # Whatever it is, the case has failed.
            outcome = f"fail {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        print(f"end {outcome}", flush=True)


def outcomes(engine: str, kind: str) -> Iterator[tuple[str, str]]:
    """(name, "pass" | "skip …" | "fail …") of every case, begun anew behind one that ends the process."""
    done = 0
    while True:
        command = [sys.executable, __file__, "--child", engine, kind, str(done)]
        environment = os.environ | {"ALLOW_RELEASED_ONNX_OPSET_ONLY": "0"}
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment)
        assert child.stdout is not None
        name = ""
        for line in child.stdout:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "begin":
                name = rest
            elif word == "end" and name:
                done += 1
                yield name, rest
                name = ""
        child.wait()
        if not name:
            return
        done += 1
        yield name, f"fail it ended the process with status {child.returncode}"


def main() -> None:
    """Run the suites and print one row a kind, and the failing cases where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--markdown", help="write the table to this file too")
    parser.add_argument("--failures", action="store_true", help="list the cases that fail")
    parser.add_argument("--child", nargs=3, metavar=("ENGINE", "KIND", "SKIPPED"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        run_child(args.child[0], args.child[1], int(args.child[2]))
        return
    engines = args.engines.split(",")
    rows = [f"| kind | cases | {' | '.join(engines)} |", "|---" * (len(engines) + 2) + "|"]
    for kind in args.kinds.split(","):
        cells, count = [], 0
        for engine in engines:
            results = {}
            for name, value in outcomes(engine, kind):
                results[name] = value
                if args.failures and value != "pass":
                    print(f"{engine} {kind} {name}: {value}", flush=True)
            count = sum(not value.startswith("skip") for value in results.values())
            passed = sum(value == "pass" for value in results.values())
            cells.append(f"{passed} ({100 * passed / max(count, 1):.1f} %)")
        rows.append(f"| {kind} | {count} | {' | '.join(cells)} |")
        print(rows[-1], flush=True)
    table = "\n".join(rows)
    print(table)
    if args.markdown:
        with open(args.markdown, "w", encoding="utf-8") as file:
            file.write(table + "\n")


if __name__ == "__main__":
    main()
