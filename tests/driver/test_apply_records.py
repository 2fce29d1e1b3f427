"""Records in the compiler: they override the cost model, the same file gives the same code, others are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tests.autotvm.tasks import conv_module
from tests.onnx_models import convolution, saved
from tilewright.autotvm.task.extract import extract_from_program
from tilewright.errors import ArtifactError
from tilewright.frontend.formats.import_model import import_model
from tilewright.records.database import Database, processor_of
from tilewright.records.entry import VERDICT, Entry
from tilewright.records.file import write_records
from tilewright.target import Target


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE_DIR", str(tmp_path / "cache"))


def record(position: int = -1) -> Entry:
    (task,) = extract_from_program(conv_module())
    point = range(len(task.points))[position]
    return Entry(task.key, task.processor, task.points.plain(point), 1e-5, accepted=True)


def choice(model: object) -> dict[str, int]:
    (kernel,) = [k for k in model.manifest.kernels if k.choice and k.choice["config"]]  # type: ignore[attr-defined]
    return dict(kernel.choice["config"])


def test_a_record_overrides_the_choice_of_the_cost_model(tmp_path: Path) -> None:
    entry = record()
    write_records(tmp_path / "r.jsonl", [entry])
    plain, tuned = tw.compile(conv_module()), tw.compile(conv_module(), records=tmp_path / "r.jsonl")
    assert choice(tuned) == entry.config != choice(plain)
    x = np.random.default_rng(0).standard_normal((1, 32, 14, 14), np.float32)
    np.testing.assert_allclose(tuned(x), plain(x), rtol=1e-5, atol=1e-5)


def test_the_same_records_give_the_same_code_bit_for_bit(tmp_path: Path) -> None:
    write_records(tmp_path / "r.jsonl", [record()])
    first, second = (tw.compile(conv_module(), records=tmp_path / "r.jsonl", cache=False) for _ in range(2))
    assert first.object_code == second.object_code


def test_records_are_part_of_the_caches_key(tmp_path: Path) -> None:
    path = saved(convolution(), tmp_path / "model.onnx")
    plain = tw.compile(str(path))
    (task, *_) = extract_from_program(import_model(str(path), None))
    entry = Entry(task.key, task.processor, task.points.plain(len(task.points) - 1), 1e-5, accepted=True)
    tuned = tw.compile(str(path), records=Database([entry]))
    assert tuned.object_code != plain.object_code
    assert tw.compile(str(path)).object_code == plain.object_code
    assert tw.compile(str(path), records=Database([entry])).object_code == tuned.object_code


def test_a_verdict_for_the_compilers_own_choice_keeps_it() -> None:
    entry = record()
    database = Database([entry, replace(entry, kind=VERDICT, config=None)])
    assert choice(tw.compile(conv_module(), records=database)) == choice(tw.compile(conv_module()))


@pytest.mark.parametrize("config", [{"tile_rows": 12345}, {"no_such_knob": 1}])
def test_a_configuration_that_is_no_longer_in_the_space_counts_for_nothing(config: dict[str, int]) -> None:
    database = Database([replace(record(), config=config)])
    assert choice(tw.compile(conv_module(), records=database)) == choice(tw.compile(conv_module()))


def test_records_of_an_older_template_count_for_nothing() -> None:
    entry = record()
    database = Database([replace(entry, task=replace(entry.task, version=0))])
    assert choice(tw.compile(conv_module(), records=database)) == choice(tw.compile(conv_module()))


def test_records_of_other_processors_are_refused_with_both_names() -> None:
    foreign = processor_of(Target("llvm -mtriple=aarch64-linux-gnu -mcpu=neoverse-n1"))
    with pytest.raises(ArtifactError, match=r"(?s)no records of this processor.*neoverse-n1.*Tune on this processor"):
        tw.compile(conv_module(), records=Database([replace(record(), processor=foreign)], "arm.jsonl"))
