"""Passes as values: contexts, levels, names, instruments, decorators."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.relay.helpers import module, op_names
from tilewright import relay
from tilewright.errors import InputError, UnsupportedError
from tilewright.relay.transform.manager.instrument import (
    DumpPasses,
    PassInstrument,
    PassTiming,
    PrintPasses,
    pass_instrument,
)
from tilewright.relay.transform.manager.pass_info import PassInfo
from tilewright.relay.transform.manager.pass_manager import (
    PassContext,
    Sequential,
    config_options,
    function_pass,
    module_pass,
    register_config_option,
    snake_case,
)
from tilewright.relay.transform.passes import create


def _module() -> relay.IRModule:
    x = relay.var("x", shape=(2, 3))
    return module(relay.multiply(relay.add(x, 0.0), relay.sqrt(relay.const(4.0))))


def _seen(context: PassContext, *names: str) -> list[str]:
    """The passes that run in `context` when a sequence of them is called."""
    timing = PassTiming()
    context.instruments = (timing,)
    with context:
        Sequential([create(name) for name in names])(_module())
        return [name for _, name, _ in timing.rows[1:]]


def test_a_sequence_is_its_passes_one_after_the_other() -> None:
    after = Sequential([create("InferType"), create("FoldConstant"), create("SimplifyExpr")])(_module())
    assert op_names(after) == ["multiply"]


def test_the_level_decides_what_runs_required_and_disabled_override_it() -> None:
    names = ("InferType", "FoldConstant", "EliminateCommonSubexpr")
    assert _seen(PassContext(), *names) == list(names)
    assert _seen(PassContext(opt_level=2), *names) == ["InferType", "FoldConstant"]
    assert _seen(PassContext(opt_level=0, required_pass=["FoldConstant"]), *names) == ["InferType", "FoldConstant"]
    assert _seen(PassContext(disabled_pass=["infer_type", "FoldConstant"]), *names) == ["EliminateCommonSubexpr"]
    both = PassContext(required_pass=["FoldConstant"], disabled_pass=["FoldConstant"])
    assert "FoldConstant" not in _seen(both, *names)


def test_contexts_nest_and_the_innermost_counts() -> None:
    assert PassContext.current().opt_level == 3
    register_config_option("limit", "a number")
    assert config_options()["limit"] == "a number"
    with PassContext(opt_level=1, config={"limit": 7}):
        with PassContext(opt_level=2):
            assert PassContext.current().opt_level == 2
        assert PassContext.current().opt_level == 1
        assert PassContext.current().config["limit"] == 7
    assert PassContext.current().opt_level == 3


def test_config_options_that_no_pass_reads_are_refused() -> None:
    register_config_option("one.max_depth", "a number")
    with pytest.raises(
        InputError, match=r"no pass reads the config option 'one.maxdepth'; did you mean 'one.max_depth'"
    ):
        PassContext(config={"one.maxdepth": 1})


def test_other_instruments_in_an_open_context() -> None:
    told = []

    class Told(PassInstrument):
        def __init__(self, name: str) -> None:
            self.name = name

        def enter_pass_ctx(self) -> None:
            told.append(f"enter {self.name}")

        def exit_pass_ctx(self) -> None:
            told.append(f"exit {self.name}")

    with PassContext(instruments=[Told("a")]) as context:
        context.override_instruments([Told("b"), Told("c")])
        assert [one.name for one in PassContext.current().instruments] == ["b", "c"]
    assert told == ["enter a", "exit a", "enter b", "enter c", "exit b", "exit c"]


def test_names_in_both_spellings() -> None:
    assert snake_case("CombineParallelConv2D") == "combine_parallel_conv2d"
    assert snake_case("ToANormalForm") == "to_a_normal_form"
    assert snake_case("fold_scale_axis") == "fold_scale_axis"
    with pytest.raises(InputError, match=r"write disabled_pass=\['FoldConstant'\]"):
        PassContext(disabled_pass="FoldConstant")


def test_instruments_see_every_pass_and_may_skip_one() -> None:
    class NoFolding(PassInstrument):
        def should_run(self, mod: relay.IRModule, info: PassInfo) -> bool:
            return info.name != "FoldConstant"

    timing = PassTiming()
    with PassContext(instruments=[NoFolding(), timing]):
        after = Sequential([create("InferType"), create("FoldConstant")], name="pipeline")(_module())
        assert [(depth, name) for depth, name, _ in timing.rows] == [(0, "pipeline"), (1, "InferType")]
        assert "pipeline" in timing.render() and "ms" in timing.render()
        assert "sqrt" in op_names(after)


def test_a_class_that_only_has_some_methods_can_watch() -> None:
    log: list[str] = []

    @pass_instrument
    class Log:
        def run_before_pass(self, mod: relay.IRModule, info: PassInfo) -> None:
            log.append(info.name)

    with PassContext(instruments=[Log()]):
        create("InferType")(_module())
    assert log == ["InferType"]


def test_modules_are_printed_and_dumped(tmp_path: Path) -> None:
    stream = io.StringIO()
    show = PrintPasses(before=True, pattern="Fold.*", stream=stream)
    with PassContext(instruments=[show, DumpPasses(tmp_path / "out")]):
        Sequential([create("InferType"), create("FoldConstant")])(_module())
    text = stream.getvalue()
    assert text.index("# before FoldConstant") < text.index("sqrt") < text.index("# after FoldConstant")
    assert "InferType" not in text
    assert [p.name for p in sorted((tmp_path / "out").iterdir())][:2] == ["000_InferType.txt", "001_FoldConstant.txt"]
    assert "sqrt" not in (tmp_path / "out" / "001_FoldConstant.txt").read_text()


def test_functions_and_classes_become_passes() -> None:
    @module_pass(opt_level=1, name="only_main")
    def only_main(mod: relay.IRModule, context: PassContext) -> relay.IRModule:
        return relay.IRModule({mod.global_var("main"): mod["main"]})

    @function_pass(opt_level=1)
    class Replace:
        def __init__(self, body: relay.Expr) -> None:
            self.body = body

        def transform_function(self, func: relay.Function, mod: relay.IRModule, context: PassContext) -> relay.Function:
            return relay.Function([], self.body)

    mod = only_main(_module())
    assert only_main.info == PassInfo(1, "only_main")
    assert Replace(relay.const(1.0)).info.name == "Replace"
    assert repr(Replace(relay.const(1.0))(mod)["main"].body) == "1f"


def test_fused_functions_are_closed_to_function_passes() -> None:
    touched: list[relay.Function] = []

    @function_pass
    def look(func: relay.Function, mod: relay.IRModule, context: PassContext) -> relay.Function:
        touched.append(func)
        return func

    primitive = relay.Function([], relay.const(1.0), attrs={"Primitive": 1})
    mod = _module().with_function("kernel", primitive)
    look(mod)
    assert touched == [mod["main"]]


def test_what_is_no_pass_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no graph pass 'FoldConstants'; did you mean 'FoldConstant'"):
        create("FoldConstants")
    with pytest.raises(InputError, match="made of passes, not of 7"):
        Sequential([7])  # type: ignore[list-item]
    with pytest.raises(InputError, match="Wrong has no method transform_module"):
        module_pass(type("Wrong", (), {}))
    with pytest.raises(UnsupportedError, match="broken returned a NoneType, not a module"):
        module_pass(lambda mod, context: None, name="broken")(_module())  # type: ignore[arg-type, return-value]
