"""Agreement of the layers of `keras.layers` with Keras: each class with several settings, by behaviour.

    KERAS_BACKEND=tensorflow python -m bench.frontends.keras_layers [--compile | --gradients] [--only WORD]

Layers are counted as agreeing where all their cases agree within 1e-4; on the backend "tensorflow", whose results the
importer follows where Keras' backends differ, more of them do than on "torch", and text is compared.

With `--gradients` it is those of the sum of the results for the inputs, where TensorFlow, which must be installed, has
some.
"""

from __future__ import annotations

import argparse
import collections
import os
import tempfile
import traceback
from pathlib import Path
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

import tilewright as tw
from tests.frontend.keras.cases import (
    CASES,
    INTEGER_CASES,
    TEXT_CASES,
    Case,
    archive_of,
    build_model,
    label_of,
    random_inputs,
)
from tilewright import relay
from tilewright.errors import UnsupportedError
from tilewright.frontend.keras import from_keras
from tilewright.frontend.keras.format import KerasFrontend
from tilewright.relay import interpret
from tilewright.relay.ir.module import IRModule

#: Names in keras.layers that are no layers of their own.
NO_LAYERS = ("Layer", "InputSpec", "Wrapper")


def outcome(case: Case, dtype: str, compiled: bool) -> str:
    """ "agrees", or in a few words what happened instead."""
    try:
        model = build_model(keras, case, dtype)
    except Exception as error:
        return f"keras: {type(error).__name__}: {str(error)[:150]}"
    inputs = random_inputs(model)
    try:
        given = [keras.ops.convert_to_tensor(one) if one.dtype == object else one for one in inputs]
        wanted = model(given if len(given) > 1 else given[0], training=False)
    except Exception as error:
        return f"keras: {type(error).__name__}: {str(error)[:150]}"
    wanted = [np.asarray(keras.ops.convert_to_numpy(one)) for one in keras.tree.flatten(wanted)]
    with tempfile.TemporaryDirectory() as folder:
        path = archive_of(model, Path(folder))
        try:
            shapes = {one.name: array.shape for one, array in zip(model.inputs, inputs)}
            mod, specs = from_keras(path, shapes)
            feed = {spec.name: array for spec, array in zip(specs, inputs)}
            found: Any = tw.compile(mod).run(feed) if compiled else interpret(mod, feed)
        except UnsupportedError as error:
            return f"refused: {str(error)[-200:]}"
        except Exception as error:
            traceback.print_exc(limit=-4)
            return f"error: {type(error).__name__}: {str(error)[:250]}"
    found = found if isinstance(found, list | tuple) else [found]
    return compare(wanted, [np.asarray(one) for one in found])


def gradients(case: Case, dtype: str, compiled: bool) -> str:
    """As `outcome`, of the gradients; "none" where TensorFlow has none for any input."""
    import tensorflow as tf

    try:
        model = build_model(keras, case, dtype)
        inputs = random_inputs(model)
        given = [tf.constant(one) for one in inputs]
        with tf.GradientTape() as tape:
            tape.watch([one for one in given if one.dtype.is_floating])
            results = keras.tree.flatten(model(given if len(given) > 1 else given[0], training=False))
            total = [tf.reduce_sum(one) for one in results if one.dtype.is_floating]
        wanted = tape.gradient(tf.add_n(total), given) if total else [None] * len(given)
    except Exception as error:
        return f"keras: {type(error).__name__}: {str(error)[:150]}"
    if all(one is None for one in wanted):
        return "none"
    with tempfile.TemporaryDirectory() as folder:
        try:
            shapes = {one.name: array.shape for one, array in zip(model.inputs, inputs)}
            mod, specs = from_keras(archive_of(model, Path(folder)), shapes)
            backward = IRModule.from_expr(relay.transform.gradient(mod["main"]))
            feed = {spec.name: array for spec, array in zip(specs, inputs)}
            found: Any = tw.compile(backward).run(feed) if compiled else interpret(backward, feed)
        except UnsupportedError as error:
            return f"refused: {str(error)[-200:]}"
        except Exception as error:
            traceback.print_exc(limit=-4)
            return f"error: {type(error).__name__}: {str(error)[:250]}"
    ours = keras.tree.flatten(found)[len(results) :]
    pairs = [(np.asarray(left), np.asarray(right)) for left, right in zip(wanted, ours) if left is not None]
    return compare([left for left, _ in pairs], [right for _, right in pairs])


def as_bytes(text: Any) -> bytes:
    """Text as UTF-8: TensorFlow returns bytes, the importer `str`."""
    return text if isinstance(text, bytes) else str(text).encode()


def compare(wanted: list[np.ndarray], found: list[np.ndarray]) -> str:
    """ "agrees" where shapes, types and numbers do."""
    if len(wanted) != len(found):
        return f"{len(found)} results, not {len(wanted)}"
    for ours, theirs in zip(found, wanted):
        if ours.shape != theirs.shape:
            return f"shape {ours.shape}, not {theirs.shape}"
        if ours.dtype != theirs.dtype:
            return f"type {ours.dtype}, not {theirs.dtype}"
        if ours.dtype == object:
            if [as_bytes(one) for one in ours.flat] != [as_bytes(one) for one in theirs.flat]:
                return f"{ours} is other text than {theirs}"
            continue
        apart = np.max(np.abs(ours.astype("float64") - theirs.astype("float64")), initial=0.0)
        if not np.allclose(ours, theirs, rtol=1e-4, atol=1e-4, equal_nan=True):
            return f"differs by {apart:.3g}"
    return "agrees"


def classes(case: Case) -> list[str]:
    """The classes that a case is of, by their own names: of a recurrent layer its cells too, and the input's."""
    found = {"InputLayer"}

    def enter(value: Any) -> None:
        if isinstance(value, dict):
            for one in value.values():
                enter(one)
        elif isinstance(value, list):
            for one in value:
                enter(one)
        elif isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], dict):
            found.add(getattr(keras.layers, value[0]).__name__)
            enter(value[1])

    enter((case[0], case[1]))
    return sorted(found)


def main() -> None:
    """Print a line a case that does not agree, then the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--gradients", action="store_true")
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    results: dict[str, list[str]] = collections.defaultdict(list)
    for cases, dtype in ((CASES, "float32"), (INTEGER_CASES, "int64"), (TEXT_CASES, "string")):
        for case in cases:
            if args.only and args.only not in case[0]:
                continue
            verdict = (gradients if args.gradients else outcome)(case, dtype, args.compile)
            for name in classes(case):
                results[name].append(verdict)
            if verdict not in ("agrees", "none"):
                print(f"{label_of(case)}: {verdict}", flush=True)
    kinds = {
        name: kind for name in dir(keras.layers) if isinstance(kind := getattr(keras.layers, name), type)
        and name not in NO_LAYERS
    }  # fmt: skip
    unique = {kind.__name__: name for name, kind in kinds.items()}
    counted = collections.Counter(
        "agrees" if name == "InputLayer" or all(one == "agrees" for one in verdicts) else "other"
        for name, verdicts in results.items()
    )
    if args.gradients:
        with_some = {name: [one for one in verdicts if one != "none"] for name, verdicts in results.items()}
        some = {name: verdicts for name, verdicts in with_some.items() if verdicts and name != "InputLayer"}
        good = [name for name, verdicts in some.items() if all(one == "agrees" for one in verdicts)]
        print(f"{len(some)} layers have gradients; those of {len(good)} agree; not:", *sorted(set(some) - set(good)))
        return
    untested = sorted(set(unique) - set(results))
    print(f"{len(unique)} layers in keras.layers; {counted['agrees']} agree in {len(results['InputLayer'])} cases")
    print("without a case:", ", ".join(untested))
    print("without a converter:", ", ".join(sorted(set(unique) - set(KerasFrontend().operators()["layers"]))))


if __name__ == "__main__":
    main()
