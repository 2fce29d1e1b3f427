"""The user's data: how samples are cut out of arrays, and one message for each way data can be bad."""

import numpy as np
import pytest

from tilewright.errors import InputError
from tilewright.quantize.data import Input, read_labels, read_samples, split
from tilewright.support.dtype import DType

X = Input("x", (1, 3), DType("float32"))
FREE = Input("x", (None, 3), DType("float32"))
IDS = Input("ids", (4,), DType("int64"))


def test_samples_lead_or_stand_along_the_batch():
    array = np.arange(12, dtype=np.float64).reshape(4, 3)
    for one in (X, FREE):
        found = read_samples({"x": array}, [one])
        assert [sample["x"].tolist() for sample in found] == [[row.tolist()] for row in array]
        assert found[0]["x"].dtype == np.float32
    assert len(read_samples({"x": array.reshape(2, 2, 3)}, [FREE])) == 2
    assert len(read_samples({"x": array}, [Input("x", (2, 3), DType("float32"))])) == 2


def test_files_and_folders(tmp_path):
    for number in range(3):
        np.savez(tmp_path / f"{number}.npz", ids=np.full((2, 4), number), x=np.full((2, 3), number))
    found = read_samples(tmp_path, [X, IDS])
    assert [int(sample["ids"][0]) for sample in found] == [0, 0, 1, 1, 2, 2]
    assert len(read_samples(str(tmp_path / "1.npz"), [X])) == 2


def test_parts_are_disjoint_and_the_same_each_time():
    found = split(100)
    assert [len(part) for part in (found.calibration, found.search, found.held_out)] == [50, 25, 25]
    assert sorted(found.calibration + found.search + found.held_out) == list(range(100))
    assert found == split(100)
    for count in range(1, 9):
        parts = split(count)
        assert parts.calibration
        assert parts.search
        assert parts.held_out
        if count >= 3:
            assert len({*parts.calibration, *parts.search, *parts.held_out}) == count


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (None, "no data to calibrate on; pass --data"),
        ([], "no samples"),
        ({"x": np.zeros((0, 3))}, "no samples"),
        ("/nowhere/at/all.npz", "there is no such file"),
        ({"y": np.zeros((2, 3))}, r"no array for the input x: float32\[1, 3\]; it has: y"),
        ({"x": np.zeros((2, 5))}, r"a sample of x has shape \[1, 5\]; the input is x: float32\[1, 3\]"),
        ({"x": np.zeros(3)}, r"x has shape \[3\]; the model's input is x"),
        ({"x": np.array([[1, np.nan, 2]])}, "x holds NaN or infinity"),
        ([{"x": np.array([[1, np.inf, 2]])}], "sample 0: x holds NaN or infinity"),
    ],
)
def test_bad_data_has_one_message(data, message):
    with pytest.raises(InputError, match=message):
        read_samples(data, [X])


def test_bad_files_have_one_message(tmp_path):
    (tmp_path / "text.npz").write_text("no archive")
    np.save(tmp_path / "one.npy", np.zeros(3))
    for name, message in (("text.npz", "cannot be read as .npz"), ("one.npy", "is one array"), ("", "no .npz files")):
        folder = tmp_path / "empty" if not name else tmp_path
        folder.mkdir(exist_ok=True)
        with pytest.raises(InputError, match=message):
            read_samples(folder / name, [X])


def test_samples_that_differ_are_refused():
    with pytest.raises(InputError, match=r"samples of x differ in shape: \[1, 3\] of the first, \[2, 3\] of number 1"):
        read_samples([{"x": np.zeros((1, 3))}, {"x": np.zeros((2, 3))}], [FREE])
    with pytest.raises(InputError, match=r"different numbers of samples \(x 2, ids 3\)"):
        read_samples({"x": np.zeros((2, 3)), "ids": np.zeros((3, 4), np.int64)}, [X, IDS])
    with pytest.raises(InputError, match="ids is float64, but the input is ids: int64"):
        read_samples({"ids": np.zeros((3, 4))}, [IDS])


def test_labels_are_one_a_sample(tmp_path):
    np.save(tmp_path / "l.npy", np.arange(3))
    assert read_labels(None, 3) is None
    assert read_labels(tmp_path / "l.npy", 3).tolist() == [0, 1, 2]
    for wrong in (np.arange(4), np.zeros(3), np.zeros((3, 1), int)):
        with pytest.raises(InputError, match="one whole number for each of 3 samples"):
            read_labels(wrong, 3)
    with pytest.raises(InputError, match=r"is no .npy file"):
        read_labels(tmp_path / "none.npy", 3)
