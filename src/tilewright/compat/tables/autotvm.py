"""`tvm.autotvm`: the tuner, and templates of users."""

from tilewright.compat.tables.table import Table, leads_to

_CLASSIC = "tilewright.autotvm.classic"
_TEMPLATE = "tilewright.autotvm.template"
_CONTEXTS = "tilewright.compat.autotvm.tuning_contexts"
_RPC = leads_to("tilewright.compat.autotvm.rpc_runner", "RPCRunner")
_REMOTE = leads_to("tilewright.compat.autotvm.rpc_runner", "request_remote")
_OWN = "operators have templates of their own; write one on te by @autotvm.template"

_MEASURE = _RPC | leads_to(
    f"{_CLASSIC}.measure",
    *("Builder", "BuildResult", "LocalBuilder", "LocalRunner", "MeasureErrorNo", "MeasureInput", "MeasureResult"),
    *("Runner", "create_measure_batch", "measure_option"),
)
_RECORD = leads_to(
    f"{_CLASSIC}.record",
    *("ApplyHistoryBest", "decode", "encode", "load_from_buffer", "load_from_file", "measure_str_key", "pick_best"),
    *("MeasureInput", "MeasureResult"),
)
_SPACE = leads_to(
    f"{_TEMPLATE}.space", "ConfigEntity", "ConfigSpace", "FallbackConfigEntity", "VirtualAxis"
) | leads_to(f"{_TEMPLATE}.entities", "AnnotateEntity", "OtherOptionEntity", "ReorderEntity", "SplitEntity")
_DISPATCH = {
    **leads_to(f"{_CLASSIC}.graph_tuner", ApplyGraphBest="apply_graph_best"),
    **leads_to(f"{_TEMPLATE}.dispatch", "ApplyConfig", "DispatchContext", "FallbackContext"),
    **leads_to(f"{_CLASSIC}.record", "ApplyHistoryBest"),
}
_TASK = {
    **leads_to(f"{_TEMPLATE}.template", "TASK_TABLE", "args_to_workload", "serialize_args", "template"),
    **leads_to(_CONTEXTS, "create"),
    **leads_to(f"{_TEMPLATE}.template", Task="TemplateTask"),
    **leads_to(f"{_TEMPLATE}.dispatch", "get_config"),
    **leads_to(f"{_CLASSIC}.extract", "extract_from_multiple_program", "extract_from_program"),
    **leads_to(f"{_TEMPLATE}.count_flops", "compute_flop"),
}
_TUNER = leads_to(f"{_CLASSIC}.tuner", "GATuner", "GridSearchTuner", "RandomTuner", "Tuner", "XGBTuner")
_MODEL = leads_to(f"{_CLASSIC}.cost_model", "XGBoostCostModel")
_CALLBACK = leads_to(f"{_CLASSIC}.callback", "Monitor", "log_to_file", "progress_bar")
_GRAPH = leads_to(f"{_CLASSIC}.graph_tuner", "DPTuner", "PBQPTuner")
_TOPI = ("register_topi_compute", "register_topi_schedule")

TABLES = (
    Table(
        "tvm.autotvm",
        "The tuner of schedules.",
        names={
            **_MEASURE,
            **_DISPATCH,
            **leads_to(f"{_TEMPLATE}.template", "template"),
            **leads_to(f"{_TEMPLATE}.dispatch", "get_config"),
            **leads_to(f"{_CLASSIC}.record", "apply_history_best"),
            **leads_to(f"{_CLASSIC}.graph_tuner", "apply_graph_best"),
            **leads_to(f"{_TEMPLATE}.space", "ConfigEntity"),
            **leads_to(_CONTEXTS, "GLOBAL_SCOPE"),
        },
        refused=dict.fromkeys(_TOPI, _OWN),
    ),
    Table("tvm.autotvm.tophub", "Records that came with the classic stack.", names=leads_to(_CONTEXTS, "context")),
    Table(
        "tvm.autotvm.task",
        "Tasks to tune.",
        names={**_TASK, **_SPACE, **_DISPATCH},
        refused=dict.fromkeys(_TOPI, _OWN),
    ),
    Table("tvm.autotvm.task.task", "Tasks to tune.", names=_TASK),
    Table("tvm.autotvm.task.space", "Configurations.", names=_SPACE),
    Table("tvm.autotvm.task.dispatcher", "Contexts that choose configurations.", names=_DISPATCH),
    Table(
        "tvm.autotvm.task.relay_integration",
        "Tasks of Relay programs.",
        names=leads_to(f"{_CLASSIC}.extract", "extract_from_multiple_program", "extract_from_program"),
    ),
    Table(
        "tvm.autotvm.measure",
        "Measuring.",
        names=_MEASURE | _REMOTE,
    ),
    Table("tvm.autotvm.measure.measure", "Measuring.", names=_MEASURE),
    Table("tvm.autotvm.measure.measure_methods", "Measuring.", names=_MEASURE | _REMOTE),
    Table(
        "tvm.autotvm.measure.executor",
        "What runs the work of a LocalRunner.",
        names=leads_to(f"{_CLASSIC}.executor", "ExecutionError", "Executor", "Future", "FutureError", "TimeoutError"),
    ),
    Table("tvm.autotvm.graph_tuner", "Layouts of whole networks.", names=_GRAPH),
    Table("tvm.autotvm.record", "Logs.", names=_RECORD),
    Table(
        "tvm.autotvm.feature",
        "What cost models see of loops.",
        names=leads_to(
            f"{_CLASSIC}.feature",
            *("flatten_itervar_feature", "get_buffer_curve_sample_flatten", "get_flatten_name", "get_itervar_feature"),
            "get_itervar_feature_flatten",
        ),
    ),
    Table(
        "tvm.autotvm.database",
        "Measurements in memory.",
        names=leads_to(f"{_CLASSIC}.database", "DummyDatabase"),
        refused={"RedisDatabase": "keep measurements in a log by callback.log_to_file"},
    ),
    Table("tvm.autotvm.tuner", "Tuners.", names=_TUNER | _CALLBACK),
    Table("tvm.autotvm.tuner.tuner", "Tuners.", names=_TUNER),
    Table("tvm.autotvm.tuner.ga_tuner", "Tuners.", names=_TUNER),
    Table("tvm.autotvm.tuner.index_based_tuner", "Tuners.", names=_TUNER),
    Table("tvm.autotvm.tuner.xgboost_tuner", "Tuners.", names=_TUNER),
    Table("tvm.autotvm.tuner.xgboost_cost_model", "What XGBTuner learns by.", names=_MODEL),
    Table("tvm.autotvm.tuner.callback", "What is called after every batch.", names=_CALLBACK),
    Table("tvm.autotvm.callback", "What is called after every batch.", names=_CALLBACK),
)
