"""`tvm.autotvm`, of which there is what programs that tune nothing use."""

from tilewright.compat.tables.table import Table, leads_to

_CONTEXTS = "tilewright.compat.classic.tuning_contexts"
_TUNING = "schedules are not tuned: kernels are chosen by a cost model as they are compiled"
_REFUSED = (
    *("GLOBAL_SCOPE", "LocalBuilder", "LocalRunner", "MeasureInput", "MeasureResult", "RPCRunner"),
    *("apply_history_best", "callback", "measure", "measure_option", "record"),
    *("register_topi_compute", "register_topi_schedule", "template", "tuner"),
)

TABLES = (
    Table(
        "tvm.autotvm",
        "The tuner of schedules: contexts in which no records are used.",
        names=leads_to(_CONTEXTS, "FallbackContext", "get_config"),
        refused=dict.fromkeys(_REFUSED, _TUNING),
    ),
    Table("tvm.autotvm.tophub", "Records tuned before, of which none are used.", names=leads_to(_CONTEXTS, "context")),
    Table(
        "tvm.autotvm.task",
        "Tasks to tune.",
        refused=dict.fromkeys(("create", "extract_from_program", "extract_from_multiple_program"), _TUNING),
    ),
    Table(
        "tvm.autotvm.task.space",
        "Configurations.",
        names=leads_to(_CONTEXTS, "FallbackConfigEntity", "OtherOptionEntity", "SplitEntity"),
        refused={"ConfigSpace": _TUNING},
    ),
)
