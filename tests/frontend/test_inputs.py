"""Symbolic dimensions of a model's inputs, for every format: what is declared, completed by what is given."""

from __future__ import annotations

import pytest

from tilewright.errors import ShapeError
from tilewright.frontend.inputs import Declared, resolve_inputs
from tilewright.relay.ir.type import OBJECT
from tilewright.support.dtype import DType

F32 = DType("float32")
IMAGE = Declared("image", ("batch", 3, "?", "?"), F32)
MASK = Declared("mask", ("batch", 1), F32)


def test_fixed_extents_stay_and_open_ones_are_one_size_a_name() -> None:
    image, mask = resolve_inputs([IMAGE, MASK], None)
    assert image.shape[1] == 3 and image.dtype == "float32"
    assert image.shape[0] is mask.shape[0] and image.shape[2] is not image.shape[3]
    assert [str(extent) for extent in image.shape] == ["batch", "3", "image_2", "image_3"]


def test_a_given_extent_fixes_the_others_of_its_name() -> None:
    image, mask = resolve_inputs([IMAGE, MASK], {"image": (2, 3, "H", 8)})
    assert mask.shape == (2, 1)
    assert image.shape[:2] == (2, 3) and str(image.shape[2]) == "H" and image.shape[3] == 8


def test_sizes_are_kept_by_name() -> None:
    sizes: dict[str, object] = {}
    (mask,) = resolve_inputs([MASK], None, sizes)
    assert sizes == {"batch": mask.shape[0]}


def test_what_is_no_tensor_keeps_its_type() -> None:
    (spec,) = resolve_inputs([Declared("rows", None, None, OBJECT)], None)
    assert spec.type is OBJECT and not spec.is_tensor and spec.shape == ()


def test_labels_name_open_extents_as_their_sizes_are_named() -> None:
    assert IMAGE.labels == ("batch", 3, "image_2", "image_3")
    assert Declared("x", None, F32).labels is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"picture": (1,)}, r"no input named 'picture'; its inputs are: 'image' \[batch, 3, \?, \?\], 'mask'"),
        ({"image": (1, 3, 8)}, r"has 3 dimensions, but the model declares 4"),
        ({"image": (1, 4, 8, 8)}, r"extent 4 at axis 1, which the model fixes to 3"),
        ({"image": (1, 3, -8, 8)}, r"negative extent"),
        ({"image": (1, 3, 8, 8), "mask": (2, 1)}, r"'batch' to 2, but input 'image' sets the same dimension to 1"),
    ],
)
def test_a_wrong_shape_is_named(given: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        resolve_inputs([IMAGE, MASK], given)


def test_all_inputs_of_unknown_rank_are_named_at_once() -> None:
    with pytest.raises(ShapeError, match=r"'a'(.|\n)*'b'(.|\n)*--input-shapes"):
        resolve_inputs([Declared("a", None, F32), Declared("b", None, F32)], None)
