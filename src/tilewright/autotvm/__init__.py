"""AutoTVM: an optimizer that learns, from search spaces to tuned networks. The public names, imported on first use.

from tilewright import autotvm
result = autotvm.tune(mod, "cpu", autotvm.TuneOptions(seconds=120), records="model.jsonl")
"""

from __future__ import annotations

import importlib
from typing import Any

#: public name -> the module that has it, relative to this one.
_PUBLIC = {
    **dict.fromkeys(("TuneOptions", "TuneResult", "Watcher", "tune", "tuned_records"), "network.tune"),
    **dict.fromkeys(("Database",), ".records.database"),
    **dict.fromkeys(("Entry", "TaskKey"), ".records.entry"),
    **dict.fromkeys(("RecordFile", "merge_records", "read_records", "write_records"), ".records.file"),
    **dict.fromkeys(("Measurer",), "measure.measurer"),
    **dict.fromkeys(("Fleet", "FleetMeasurer"), "measure.fleet"),
    **dict.fromkeys(("Cluster", "ClusterMeasurer"), "measure.cluster"),
    **dict.fromkeys(("OnCluster", "OnFleet"), "network.site"),
    **dict.fromkeys(("MeasureOptions",), "measure.options"),
    **dict.fromkeys(("extract_from_program",), "task.extract"),
    **dict.fromkeys(("TASK_TABLE", "create", "template"), "template.template"),
    **dict.fromkeys(("ApplyConfig", "FallbackContext", "get_config"), "template.dispatch"),
    **dict.fromkeys(("ConfigEntity", "ConfigSpace", "FallbackConfigEntity"), "template.space"),
    **dict.fromkeys(("GATuner", "GridSearchTuner", "RandomTuner", "XGBTuner"), "classic.tuner"),
    **dict.fromkeys(("ApplyHistoryBest", "apply_history_best", "pick_best"), "classic.record"),
    **dict.fromkeys(("log_to_file", "progress_bar"), "classic.callback"),
    **dict.fromkeys(
        ("Builder", "LocalBuilder", "LocalRunner", "MeasureInput", "MeasureResult", "Runner", "measure_option"),
        "classic.measure",
    ),
}

__all__ = [*_PUBLIC]


def __getattr__(name: str) -> Any:
    if name not in _PUBLIC:
        raise AttributeError(f"module 'tilewright.autotvm' has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_PUBLIC[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
