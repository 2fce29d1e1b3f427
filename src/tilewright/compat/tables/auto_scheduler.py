"""`tvm.auto_scheduler`: sketches and their search."""

from tilewright.compat.tables.table import Table, leads_to

_OWN = "tilewright.compat.auto_scheduler"

_WORKLOAD = leads_to(
    f"{_OWN}.workload",
    *("WORKLOAD_FUNC_REGISTRY", "deserialize_workload_registry_entry", "make_workload_key", "register_workload"),
    *("register_workload_tensors", "serialize_workload_registry_entry", "workload_key_to_tensors"),
)
_UTILS = leads_to(
    f"{_OWN}.workload",
    *("calc_workload_dis_factor", "call_func_with_timeout", "decode_workload_key", "get_const_tuple", "get_func_name"),
)
_DAG = leads_to(f"{_OWN}.dag", "ComputeDAG", "LayoutRewriteOption", "get_shape_from_rewritten_layout")
_STATE = leads_to(f"{_OWN}.state", "Iterator", "Stage", "State", "StateObject")
_MEASURE = leads_to(
    f"{_OWN}.measure",
    *("BuildResult", "LocalBuilder", "LocalRPCMeasureContext", "LocalRunner", "MeasureCallback", "MeasureErrorNo"),
    *("MeasureInput", "MeasureResult", "ProgramBuilder", "ProgramRunner", "PythonBasedMeasureCallback", "RPCRunner"),
    "TuningOptions",
)
_RECOVER = leads_to(f"{_OWN}.task", "recover_measure_input")
_RECORD = leads_to(
    f"{_OWN}.record",
    *("RecordReader", "RecordToFile", "distill_record_file", "dump_record_to_string", "load_best_record"),
    *("load_record_from_string", "load_records", "save_records"),
)
_MODEL = leads_to(f"{_OWN}.cost_model", "CostModel", "PythonBasedModel", "RandomModel", "XGBModel")
_POLICY = leads_to(
    f"{_OWN}.policy",
    *("EmptyPolicy", "PreloadCustomSketchRule", "PreloadMeasuredStates", "SearchPolicy", "SketchPolicy"),
)
_TASK = leads_to(
    f"{_OWN}.task",
    *("HardwareParams", "SearchTask", "TASK_INPUT_BUFFER_TABLE", "auto_schedule", "create_task"),
    *("get_task_input_buffer", "register_task_input_buffer"),
)
_DISPATCH = leads_to(f"{_OWN}.network", "ApplyHistoryBest", "ApplyHistoryBestOrSample")
_NETWORK = leads_to(f"{_OWN}.network", "TaskScheduler", "extract_tasks")

TABLES = (
    Table(
        "tvm.auto_scheduler",
        "Schedules without templates.",
        names={
            **_WORKLOAD,
            **_DAG,
            **_MEASURE,
            **_RECOVER,
            **_RECORD,
            **_MODEL,
            **_POLICY,
            **_TASK,
            **_DISPATCH,
            **_NETWORK,
        },
    ),
    Table("tvm.auto_scheduler.workload_registry", "Workloads by name.", names=_WORKLOAD),
    Table("tvm.auto_scheduler.utils", "Helpers.", names=_UTILS),
    Table("tvm.auto_scheduler.compute_dag", "Computations.", names=_DAG),
    Table("tvm.auto_scheduler.loop_state", "Schedules in the making.", names=_STATE),
    Table("tvm.auto_scheduler.measure", "Measuring.", names=_MEASURE | _RECOVER),
    Table("tvm.auto_scheduler.measure_record", "Logs.", names=_RECORD),
    Table("tvm.auto_scheduler.cost_model", "Cost models.", names=_MODEL),
    Table("tvm.auto_scheduler.cost_model.cost_model", "Cost models.", names=_MODEL),
    Table("tvm.auto_scheduler.cost_model.xgb_model", "Cost models.", names=_MODEL),
    Table("tvm.auto_scheduler.search_policy", "Searches.", names=_POLICY),
    Table("tvm.auto_scheduler.search_task", "Tasks.", names=_TASK),
    Table("tvm.auto_scheduler.auto_schedule", "Tasks.", names=_TASK),
    Table("tvm.auto_scheduler.task_scheduler", "Tasks in turns.", names=_NETWORK),
    Table("tvm.auto_scheduler.relay_integration", "Tasks of networks.", names=_NETWORK),
    Table("tvm.auto_scheduler.dispatcher", "Contexts that choose.", names=_DISPATCH),
    Table(
        "tvm.auto_scheduler.feature",
        "What cost models see.",
        names=leads_to(f"{_OWN}.feature", "get_per_store_feature_names", "get_per_store_features_from_states"),
    ),
    Table(
        "tvm.auto_scheduler._ffi_api",
        "What programs ask of the search's inside.",
        names=leads_to(
            f"{_OWN}.inside",
            *("SearchPolicyUtilsHasCacheReadStage", "SearchPolicyUtilsHasCacheWriteStage"),
            *("SearchPolicyUtilsGetConsumers", "SearchPolicyUtilsIsElementwiseMatch"),
            *(
                "SearchPolicyUtilsHasCrossThreadReduction",
                "SearchPolicyUtilsHasRfactorStage",
                "SearchPolicyUtilsIsTiled",
            ),
        )
        | leads_to(
            f"{_OWN}.task", SerializeSearchTask="serialize_search_task", DeserializeSearchTask="deserialize_search_task"
        ),
    ),
    Table(
        "tvm.testing.auto_scheduler",
        "Workloads to try searches with.",
        names=leads_to(
            f"{_OWN}.testing",
            *("conv2d_nchw_bn_relu_auto_scheduler_test", "double_matmul_auto_scheduler_test", "get_tiled_matmul"),
            *("invalid_compute_definition", "matmul_auto_scheduler_test", "max_pool2d_auto_scheduler_test"),
            *("min_nm_auto_scheduler_test", "parallel_matmul_auto_scheduler_test", "softmax_abcd_auto_scheduler_test"),
            *("softmax_nm_auto_scheduler_test", "zero_rank_compute_auto_scheduler_test"),
            "zero_rank_reduce_auto_scheduler_test",
        ),
        refused={"conv2d_winograd_nhwc_auto_scheduler_test": "relay.nn.conv2d is computed by Winograd where it pays"},
    ),
)
