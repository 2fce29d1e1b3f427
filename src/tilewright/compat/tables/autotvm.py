"""`tvm.autotvm`, of which there is what programs that tune nothing use."""

from tilewright.compat.tables.table import Table, leads_to

_CLASSIC = "tilewright.compat.classic"
_TUNING = "schedules are not tuned: kernels are chosen by a cost model as they are compiled"

TABLES = (
    Table(
        "tvm.autotvm",
        "The tuner of schedules: contexts in which no records are used.",
        names=leads_to(f"{_CLASSIC}.tuning_contexts", "FallbackContext"),
        absent=dict.fromkeys(
            (
                *("GLOBAL_SCOPE", "LocalBuilder", "LocalRunner", "MeasureInput", "MeasureResult", "RPCRunner"),
                *("apply_history_best", "callback", "get_config", "measure", "measure_option", "record", "task"),
                *("register_topi_compute", "register_topi_schedule", "template", "tuner"),
            ),
            _TUNING,
        ),
    ),
    Table(
        "tvm.autotvm.tophub",
        "Records tuned before, of which none are used.",
        names=leads_to(f"{_CLASSIC}.tuning_contexts", "context"),
    ),
)
