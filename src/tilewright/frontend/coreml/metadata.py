"""What a Core ML file says for people: its description, and the classes of a classifier."""

from __future__ import annotations

import os

from tilewright.frontend.coreml.load import load_model
from tilewright.frontend.metadata import Metadata


def read_metadata(model: str | os.PathLike[str] | bytes) -> Metadata:
    """The metadata of a package or specification. Raises `ModelError` where it is damaged."""
    spec = load_model(model).spec
    said = spec.description.metadata
    about = {
        "description": said.shortDescription, "version": said.versionString, "author": said.author,
        "license": said.license, **said.userDefined,
    }  # fmt: skip
    classifier = spec.neuralNetworkClassifier
    names = list(classifier.stringClassLabels.vector) if spec.has("neuralNetworkClassifier") else []
    output = classifier.labelProbabilityLayerName or (
        spec.description.output[0].name if spec.description.output else ""
    )
    return Metadata({output: names} if names else {}, {}, {key: text for key, text in about.items() if text})
