"""Forms of `--input NAME=VALUE`, and the arrays that come of them."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from tilewright.cli.values import Array, parse_inputs
from tilewright.errors import InputError
from tilewright.runtime.signature import TensorSpec
from tilewright.support.dtype import DType


def made(text: str, dtype: str = "float32", shape: tuple[int, ...] = (2, 3), seed: int = 0) -> Array:
    """The array of `x=TEXT` for an input of that type and shape."""
    given = parse_inputs((f"x={text}",))["x"]
    spec = TensorSpec("x", shape, DType(dtype))
    array = given.make(spec, shape if given.shape is None else given.shape, np.random.default_rng(seed))
    assert isinstance(array, np.ndarray)
    return array


@pytest.mark.parametrize(
    ("text", "dtype", "expected"),
    [
        ("16000", "int64", 16000),
        ("-1", "int8", -1),
        ("1.5e-3", "float32", np.float32(1.5e-3)),
        ("2", "float64", 2.0),
        ("true", "bool", True),
        ("0", "bool", False),
        ("3.0", "int32", 3),
        ("-inf", "float32", -np.inf),
    ],
)
@pytest.mark.parametrize("shape", [(), (2, 3)])
def test_one_value_everywhere(text: str, dtype: str, expected: float, shape: tuple[int, ...]) -> None:
    array = made(text, dtype, shape)
    assert array.shape == shape and array.dtype == dtype and (array == expected).all()


def test_listed_values_and_texts() -> None:
    np.testing.assert_array_equal(made("[[1,2],[3,4]]", "int64"), np.array([[1, 2], [3, 4]]))
    np.testing.assert_array_equal(made("[true,false]", "bool"), np.array([True, False]))
    assert made('["a=b","c"]', "string").tolist() == ["a=b", "c"]


@pytest.mark.parametrize(("text", "dtype"), [("0..255", "uint8"), ("uniform(0,255)", "int64"), ("3..3", "int32")])
def test_ranges_of_integers_hold_both_ends(text: str, dtype: str) -> None:
    array = made(text, dtype, (200, 200))
    low, high = (3, 3) if text == "3..3" else (0, 255)
    assert array.dtype == dtype and array.min() == low and array.max() == high


def test_ranges_of_floats_and_normal_numbers() -> None:
    array = made("uniform(-1,0.5)", shape=(100, 100))
    assert array.dtype == np.float32 and -1 <= array.min() < -0.9 and 0.4 < array.max() <= 0.5
    np.testing.assert_array_equal(array, made("-1..0.5", shape=(100, 100)))
    normal = made("normal(5,0.1)", "float16", (100, 100))
    assert normal.dtype == np.float16 and abs(normal.mean(dtype=float) - 5) < 0.01
    assert not np.array_equal(array, made("uniform(-1,0.5)", shape=(100, 100), seed=1))


@pytest.mark.parametrize("text", ["1[4,5]", "0..1[4,5]", "uniform(0,1) [4, 5]", "normal(0,1)[4,5]"])
def test_a_shape_behind_a_value(text: str) -> None:
    assert made(text).shape == (4, 5) and made("7[]").shape == ()


def test_files_and_archives(tmp_path: Path) -> None:
    x, y = np.float32([[1, 2]]), np.int64([3])
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "both.npz", x=x, y=y)
    np.savez(tmp_path / "one.npz", other=x)
    for name in ("x.npy", "both.npz", "one.npz"):
        np.testing.assert_array_equal(made(str(tmp_path / name)), x)
    assert set(parse_inputs((str(tmp_path / "both.npz"),))) == {"x", "y"}
    with pytest.raises(InputError, match="no array of that name"):
        parse_inputs((f"z={tmp_path / 'both.npz'}",))
    with pytest.raises(InputError, match="sets 'x' twice"):
        parse_inputs(("x=1", str(tmp_path / "both.npz")))
    with pytest.raises(InputError, match="cannot be read as"):
        parse_inputs((f"x={tmp_path / 'absent.npz'}",))


def test_bfloat16_comes_back_from_a_file_that_had_no_name_for_it(tmp_path: Path) -> None:
    stored = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "x.npy", stored.astype(np.float32))
    array = made(str(tmp_path / "x.npy"), "bfloat16")
    assert array.dtype == stored.dtype and (array == stored).all()


def test_names_may_hold_equal_signs() -> None:
    assert set(parse_inputs(("y=0=b=1", "z:0=[1,2]"))) == {"y=0=b", "z:0"}


@pytest.mark.parametrize("text", ["x", "=1", "x=", "x=nonsense", "x=5..", "x=uniform(1)", "x=[1,2", "x=[1,[2]]"])
def test_what_is_not_understood(text: str) -> None:
    with pytest.raises(InputError, match=r"NAME=FILE\.npy|is not a list of values"):
        parse_inputs((text,))


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("300", "uint8"), ("-1", "uint8"), ("1.5", "int64"), ("nan", "int32"), ("2", "bool"), ("0..256", "uint8"),
     ('["a"]', "float32"), ("0.5..2", "int64")],
)  # fmt: skip
def test_what_the_type_cannot_hold(text: str, dtype: str) -> None:
    with pytest.raises(InputError, match=rf"input x: {dtype}\[2, 3\] cannot hold"):
        made(text, dtype)


def test_an_empty_range_and_a_distribution_that_integers_do_not_have() -> None:
    with pytest.raises(InputError, match=r"the range 2\.\.1 is empty"):
        made("2..1")
    with pytest.raises(InputError, match="takes no normal distribution"):
        made("normal(0,1)", "int64")
