"""Metadata of a Core ML file: its description, and the classes of a classifier."""

from __future__ import annotations

import os

from tilewright.frontend.coreml.load import MlModel, load_model, value_array
from tilewright.frontend.interface import Metadata
from tilewright.frontend.messages import Record


def read_metadata(model: str | os.PathLike[str] | bytes) -> Metadata:
    """The metadata of a package or specification. Raises `ModelError` where it is damaged."""
    loaded = load_model(model)
    spec = loaded.spec
    stated = spec.description.metadata
    about = {
        "description": stated.shortDescription, "version": stated.versionString, "author": stated.author,
        "license": stated.license, **stated.userDefined,
    }  # fmt: skip
    labels = _network_labels(spec) if spec.has("neuralNetworkClassifier") else _program_labels(loaded)
    return Metadata(labels, {}, {key: text for key, text in about.items() if text})


def _network_labels(spec: Record) -> dict[str, list[str]]:
    """The classes of a neural network's classifier, by the name of its probabilities."""
    classifier = spec.neuralNetworkClassifier
    names = list(classifier.stringClassLabels.vector)
    first = spec.description.output[0].name if spec.description.output else ""
    return {classifier.labelProbabilityLayerName or first: names} if names else {}


def _program_labels(model: MlModel) -> dict[str, list[str]]:
    """The classes of each `classify` of an ML program's functions, by the name of its probabilities."""
    found: dict[str, list[str]] = {}
    for function in model.spec.mlProgram.functions.values():
        for block in function.block_specializations.values():
            constants = {op.outputs[0].name: op for op in block.operations if op.type == "const" and op.outputs}
            for operation in block.operations:
                bound = operation.inputs["classes"].arguments if "classes" in operation.inputs else []
                if operation.type != "classify" or len(operation.outputs) != 2 or len(bound) != 1:
                    continue
                constant = constants.get(bound[0].name)
                value = constant.attributes.get("val") if constant is not None else bound[0].value
                classes = value_array(value, model, f"classes of {operation.outputs[1].name!r}") if value else []
                found[operation.outputs[1].name] = [str(name) for name in classes]
    return found
