"""`tvm.relay.testing` and its networks."""

from tilewright.compat.tables.table import Table, leads_to

_COMPAT = "tilewright.compat"
_NETWORKS = "tilewright.compat.networks"
_NAMES = (
    "dcgan",
    "densenet",
    "dqn",
    "inception_v3",
    "lstm",
    "mlp",
    "mobilenet",
    "resnet",
    "squeezenet",
    "synthetic",
    "vgg",
)

TABLES = (
    Table(
        "tvm.relay.testing",
        "Networks and helpers of test suites.",
        names={
            **leads_to(
                f"{_COMPAT}.relay.testing",
                "TempOpAttr",
                "check_grad",
                "_np_randn_from_type",
                "count_ops",
                "rand",
                "run_infer_type",
                "run_as_python",
                "run_opt_pass",
            ),
            **leads_to(f"{_NETWORKS}.workload", "create_workload"),
            **leads_to(f"{_COMPAT}.relay.prelude", "add_nat_definitions", "count", "make_nat_expr", "make_nat_value"),
            **leads_to(f"{_COMPAT}.testing.targets", "enabled_targets"),
            **leads_to(f"{_COMPAT}.relay.prelude", "Prelude"),
            **leads_to(f"{_COMPAT}.driver.top_level", "ctx_list"),
        },
        refused={"to_python": "programs are not written as Python; run_as_python runs one by NumPy references"},
    ),
    Table(
        "tvm.relay.testing.temp_op_attr",
        "Operators with other properties for a while.",
        names=leads_to(f"{_COMPAT}.relay.testing", "TempOpAttr"),
    ),
    Table("tvm.relay.testing.layers", "Layers.", open=(f"{_NETWORKS}.layers",)),
    Table(
        "tvm.relay.testing.init",
        "Random parameters.",
        names=leads_to(f"{_NETWORKS}.workload", "Xavier", "create_workload"),
    ),
    *[
        Table(
            f"tvm.relay.testing.{name}",
            f"The network {name}.",
            names=leads_to(f"{_NETWORKS}.{name}", "get_net", "get_workload"),
        )
        for name in _NAMES
    ],
)
