"""The namespaces below `tvm.relay`, but for `tvm.relay.testing`."""

from tilewright.compat.tables.relay import (
    ADT,
    COMPOSED,
    EXPR,
    IMAGE,
    NN,
    REFUSED_TYPES,
    TUPLE_VALUED,
    TYPE_WALKERS,
    TYPES,
    VISION,
)
from tilewright.compat.tables.table import Table, leads_to

_COMPAT = "tilewright.compat"
_BUILD = {
    **leads_to(f"{_COMPAT}.relay.executor", "build", "optimize"),
    **leads_to(f"{_COMPAT}.relay.evaluation", "create_executor"),
    **leads_to(f"{_COMPAT}.relay.expr", "bind_params_by_name"),
}
_VM = {
    **leads_to(f"{_COMPAT}.relay.vm_executable", "Executable", compile="vm_compile"),
    **leads_to(f"{_COMPAT}.relay.virtual_machine", "VirtualMachine"),
    **leads_to(f"{_COMPAT}.relay.extras", "VMCompiler"),
}
_REGISTRY = {
    **leads_to(f"{_COMPAT}.ir.layout_rules", "register_alter_op_layout", "register_convert_op_layout"),
    **leads_to(f"{_COMPAT}.ir.passes", "register_mixed_precision_conversion"),
    **leads_to("tilewright.relay.ir.registry", "Op", "OpPattern", "get"),
    **leads_to(
        f"{_COMPAT}.relay.own_operators",
        "register",
        "register_compute",
        "register_gradient",
        "register_pattern",
        "register_stateful",
    ),
}

_OPTIONS = f"{_COMPAT}.relay.backend_options"
QUANTIZED = leads_to(
    f"{_COMPAT}.relay.quantized_operators",
    *(
        "abs",
        "add",
        "avg_pool2d",
        "concatenate",
        "conv2d",
        "erf",
        "exp",
        "hardswish",
        "leaky_relu",
        "log",
        "mul",
        "rsqrt",
    ),
    *("sigmoid", "softmax", "sqrt", "subtract", "tanh"),
)

TABLES = (
    Table("tvm.relay.data_dep_optimization", "Layers changed by the values of their weights."),
    Table(
        "tvm.relay.data_dep_optimization.bsr_dense",
        "Sparse weights.",
        names=leads_to(f"{_COMPAT}.relay.sparse_models", convert="bsr_dense"),
    ),
    Table(
        "tvm.relay.data_dep_optimization.simplify_fc_transpose",
        "Weights stored as layers read them.",
        names=leads_to(f"{_COMPAT}.relay.sparse_models", convert="simplify_fc_transpose"),
    ),
    Table(
        "tvm.relay.data_dep_optimization.bsr_conv2d",
        "Sparse weights.",
        refused={"convert": "convolutions of models stay dense; topi.nn.sparse_conv2d computes one"},
    ),
    Table(
        "tvm.relay.expr", "Expressions.", names={**EXPR, **leads_to(f"{_COMPAT}.relay.expr", "bind", "const", "var")}
    ),
    Table("tvm.relay.ty", "Types.", names={**TYPES, "TypeData": ADT["TypeData"]}, refused=REFUSED_TYPES),
    Table("tvm.relay.adt", "Data types and match.", names=ADT),
    Table("tvm.relay.function", "Functions.", names=leads_to("tilewright.relay.ir.expr", "Function")),
    Table(
        "tvm.relay.expr_functor",
        "Walkers to derive from.",
        names=leads_to(f"{_COMPAT}.relay.functor", "ExprFunctor", "ExprMutator", "ExprVisitor"),
    ),
    Table(
        "tvm.relay.scope_builder",
        "Programs written line by line.",
        names=leads_to("tilewright.relay.ir.scope_builder", "ScopeBuilder"),
    ),
    Table(
        "tvm.relay.prelude",
        "Lists, options, trees and their functions.",
        names={
            **leads_to(f"{_COMPAT}.relay.prelude", "Prelude"),
            **leads_to(f"{_COMPAT}.relay.tensor_arrays", "StaticTensorArrayOps"),
        },
        refused={"TensorArrayOps": "Prelude(mod).get_global_var(name, dtype) adds the functions of a data type"},
    ),
    Table("tvm.relay.build_module", "Compiling and running.", names=_BUILD),
    Table(
        "tvm.relay.param_dict",
        "Parameters as bytes.",
        names=leads_to(f"{_COMPAT}.runtime.params", "save_param_dict", "load_param_dict"),
    ),
    Table("tvm.relay.vm", "The virtual machine.", names=_VM),
    Table(
        "tvm.relay.quantize",
        "Post-training quantization.",
        names=leads_to(f"{_COMPAT}.relay.quantization", "quantize", "qconfig"),
    ),
    Table("tvm.relay.backend", "Executors.", names=leads_to(_OPTIONS, "Executor", "Runtime")),
    Table("tvm.relay.backend.executor", "Executors.", names=leads_to(_OPTIONS, "Executor")),
    Table("tvm.relay.backend.runtime", "Runtimes.", names=leads_to(_OPTIONS, "Runtime")),
    Table(
        "tvm.relay.backend.utils", "Names of modules in C.", names=leads_to(f"{_COMPAT}.ir.names", "mangle_module_name")
    ),
    Table(
        "tvm.relay.backend.name_transforms",
        "Names in C.",
        names=leads_to(
            f"{_COMPAT}.ir.names",
            *("prefix_generated_name", "prefix_name", "to_c_constant_style", "to_c_function_style"),
            "to_c_variable_style",
        ),
    ),
    Table(
        "tvm.relay.frontend.common",
        "What importers of other packages use.",
        names=leads_to(f"{_COMPAT}.relay.expression_facts", "infer_shape", "infer_type", "infer_value"),
    ),
    Table(
        "tvm.relay.transform.fake_quantization_to_integer",
        "Graphs of rounded floats as graphs of integers.",
        refused={
            "register_fake_quantization_to_integer": "rules come with the operators; see FakeQuantizationToInteger",
        },
    ),
    Table("tvm.relay.transform.recast", "Operators in other types.", names=leads_to(f"{_COMPAT}.ir.passes", "recast")),
    Table(
        "tvm.relay.backend.te_compiler",
        "The compiler of fused functions.",
        names=leads_to(f"{_COMPAT}.relay.extras", TECompiler="TECompiler", get="te_compiler"),
    ),
    Table("tvm.relay.loops", "Loops.", names=leads_to(f"{_COMPAT}.relay.extras", "while_loop")),
    Table("tvm.relay.base", "Positions in texts.", names=leads_to(f"{_COMPAT}.tir.makers", "SourceName", "Span")),
    Table("tvm.relay.backend.vm", "The virtual machine.", names=_VM),
    Table(
        "tvm.relay.backend.interpreter",
        "Values of the interpreter.",
        names={
            **leads_to(f"{_COMPAT}.relay.interpreter_values", "ConstructorValue", "TensorValue", "TupleValue", "Value"),
            **leads_to("tilewright.relay.ir.values", "RefValue", "Closure"),
        },
    ),
    Table(
        "tvm.relay.op",
        "Operators.",
        names={**TUPLE_VALUED, **COMPOSED, **_REGISTRY, **leads_to(f"{_COMPAT}.relay.expr", "const")},
        open=("tilewright.relay.op",),
    ),
    Table("tvm.relay.annotation", "Marks on values.", open=("tilewright.relay.op.annotation",)),
    Table("tvm.relay.op.annotation", "Marks on values.", open=("tilewright.relay.op.annotation",)),
    *[
        Table(
            f"tvm.relay.op.{name}",
            "Operators of one kind.",
            names={**TUPLE_VALUED, **COMPOSED},
            open=("tilewright.relay.op",),
        )
        for name in ("algorithm", "reduce", "tensor", "transform")
    ],
    Table("tvm.relay.op.op", "The table of operators.", names=_REGISTRY),
    Table(
        "tvm.relay.nn",
        "Operators of neural networks.",
        names=NN,
        open=("tilewright.relay.op.nn",),
    ),
    Table(
        "tvm.relay.op.nn",
        "Operators of neural networks.",
        names=NN,
        open=("tilewright.relay.op.nn",),
    ),
    Table("tvm.relay.image", "Operators of images.", names=IMAGE, open=("tilewright.relay.op.image",)),
    Table("tvm.relay.dataflow_pattern", "Patterns of graphs.", open=("tilewright.relay.dataflow_pattern",)),
    Table("tvm.relay.op.contrib", "External code generators."),
    Table(
        "tvm.relay.op.contrib.register",
        "Their tables of patterns.",
        names=leads_to(f"{_COMPAT}.relay.patterns", "get_pattern_table", "register_pattern_table"),
    ),
    Table("tvm.relay.random", "Random numbers.", open=("tilewright.relay.op.random",)),
    Table("tvm.relay.op.random", "Random numbers.", open=("tilewright.relay.op.random",)),
    Table("tvm.relay.op.dyn", "Operators whose shapes are values.", open=("tilewright.relay.op.dyn",)),
    Table("tvm.relay.vision", "Operators of detection.", names=VISION, open=("tilewright.relay.op.vision",)),
    Table("tvm.relay.op.vision", "Operators of detection.", names=VISION, open=("tilewright.relay.op.vision",)),
    Table("tvm.relay.qnn", "Quantized networks."),
    Table(
        "tvm.relay.qnn.op",
        "Quantized operators.",
        names=QUANTIZED,
        open=("tilewright.relay.op.qnn",),
    ),
    Table("tvm.relay.qnn.op.qnn", "Quantized operators.", names=QUANTIZED, open=("tilewright.relay.op.qnn",)),
    Table(
        "tvm.relay.qnn.op.legalizations",
        "Functions of tables.",
        names=leads_to(f"{_COMPAT}.relay.quantized_operators", "hardswish_func"),
    ),
    Table(
        "tvm.relay.qnn.transform",
        "Passes over quantized operators.",
        names=leads_to(f"{_COMPAT}.ir.passes", CanonicalizeOps="spell_out", Legalize="legalize"),
    ),
    Table("tvm.relay.op.image", "Operators of images.", names=IMAGE, open=("tilewright.relay.op.image",)),
    Table(
        "tvm.relay.transform",
        "Graph passes.",
        names={
            **leads_to(f"{_COMPAT}.ir.passes", "AnnotateSpans", "LazyGradientInit", "function_pass", "module_pass"),
            **leads_to(f"{_COMPAT}.ir.passes", "PrintIR", "Sequential", ModulePass="ClassicPass", Pass="ClassicPass"),
            **leads_to("tilewright.relay.transform.manager.pass_info", "PassInfo"),
            **leads_to(f"{_COMPAT}.ir.pass_config", "PassContext"),
            **leads_to("tilewright.relay.transform.manager.pass_manager", FunctionPass="Pass"),
            **leads_to(f"{_COMPAT}.relay.gradients", "gradient"),
            **leads_to("tilewright.relay.transform.layout.convert_layout", "LayoutConfig"),
            **leads_to("tilewright.relay.transform.functional.un_cps", "un_cps"),
            **leads_to(f"{_COMPAT}.relay.testing", "to_cps"),
            **leads_to(f"{_COMPAT}.ir.passes", "recast"),
        },
        open=(f"{_COMPAT}.ir.pass_constructors",),
    ),
    Table(
        "tvm.relay.transform.infer_layout_utils",
        "What layout rules of operators give.",
        refused={"InferCorrectLayoutOutput": "layout rules come with the operators; own layouts: ConvertLayout"},
    ),
    Table(
        "tvm.relay.transform.mixed_precision",
        "Which operators run in 16 bits.",
        names=leads_to(f"{_COMPAT}.ir.passes", "register_mixed_precision_conversion"),
    ),
    Table("tvm.relay.type_functor", "Walkers of types.", names=TYPE_WALKERS),
    Table(
        "tvm.relay.analysis",
        "Questions about expressions.",
        names={
            **leads_to("tilewright.relay.ir.visitor", "all_vars", "bound_vars", "free_vars"),
            **leads_to(
                f"{_COMPAT}.ir.structure",
                "structural_hash",
                alpha_equal="structural_equal",
                assert_alpha_equal="assert_structural_equal",
            ),
            **leads_to(f"{_COMPAT}.driver.top_level", "assert_graph_equal", "graph_equal"),
            **leads_to("tilewright.relay.ir.well_formed", "well_formed"),
            **leads_to(f"{_COMPAT}.relay.features", "Feature", "detect_feature"),
            **leads_to(f"{_COMPAT}.ir.kinds", "check_kind"),
            **leads_to(f"{_COMPAT}.relay.extras", "CallGraph"),
            **leads_to(
                f"{_COMPAT}.relay.graph_facts",
                *("extract_fused_functions", "extract_intermdeiate_expr", "get_calibration_data"),
                "list_fake_quantized_op_freqs",
            ),
            **leads_to(
                f"{_COMPAT}.relay.analysis",
                "all_type_vars",
                "bound_type_vars",
                "count_layers",
                "check_basic_block_normal_form",
                "unmatched_cases",
                "free_type_vars",
                "get_total_mac_number",
                "list_op_freqs",
                "post_order_visit",
            ),
        },
    ),
    Table(
        "tvm.relay.analysis.get_calibration_data",
        "Values that flow through functions.",
        names=leads_to(f"{_COMPAT}.relay.graph_facts", "get_calibration_data"),
    ),
    Table(
        "tvm.relay.frontend",
        "Importers of model files.",
        names=leads_to(
            f"{_COMPAT}.relay.frontend", "from_onnx", "from_pytorch", "from_tflite", "from_tensorflow", "from_keras"
        )
        | leads_to(
            f"{_COMPAT}.relay.frontend_files",
            "from_caffe",
            "from_caffe2",
            "from_coreml",
            "from_darknet",
            "from_mxnet",
            "from_paddle",
        ),
    ),
)
