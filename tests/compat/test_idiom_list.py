"""The tests of the idioms of the classic documentation: sixty programs and more, each compared with NumPy."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent

#: The programs of each idiom: a file (below this folder, without "test_" and ".py") and its tests.
IDIOMS = {
    "operators defined as tensor expressions": {
        "te/programs": "vector_add_of_any_length operations_of_several_outputs math_by_name "
        "integer_math_rounds_as_it_says",
        "tir/expressions": "equality_in_conditions tensors_and_numbers_by_topi",
        "more_programs": "a_value_to_pad_with_that_is_known_at_run_time",
        "idiom_programs": "gradients_of_tensor_expressions arrays_go_to_and_from_other_libraries",
    },
    "schedules": {
        "te/programs": "matmul_in_tiles_with_a_write_cache rfactor_of_a_sum cumulative_sum_by_a_scan "
        "several_schedules_make_one_module a_reducer_of_two_expressions_and_the_loops_of_a_scan",
        "gallery_idioms": "factored_reduction_across_threads_of_any_lengths",
        "topi/programs": "softmax_with_the_schedule_of_its_target",
    },
    "tensorize and intrinsics": {
        "te/programs": "a_tensorized_row_product an_intrinsic_declared_and_called_in_the_classic_way",
        "idiom_programs": "a_micro_kernel_in_c_is_tensorized",
        "gallery_idioms": "rules_say_what_becomes_of_intrinsics",
        "more_programs": "an_intrinsic_of_llvm_and_its_overload",
    },
    "hybrid script": {"idiom_programs": "hybrid_script_as_a_stage hybrid_script_runs_as_python"},
    "the builder of loops, and extern stages": {
        "idiom_programs": "loops_are_written_with_the_builder",
        "tir/expressions": "equality_in_the_ir_builder",
        "more_programs": "pragmas_that_are_primitives_and_pointers_as_parameters",
        "te/programs": "an_extern_stage_calls_a_python_function an_extern_stage_written_with_the_builder "
        "an_extern_stage_of_vectors",
        "gallery_idioms": "products_by_the_registered_functions_of_libraries",
    },
    "operators of topi": {
        "topi/programs": "convolutions_of_both_layouts depthwise_and_transposed_convolution_pooling_and_dense "
        "slices_by_tensors",
        "topi/operators": "array_operators_against_numpy",
    },
    "relay.build and the graph executor": {
        "programs": "build_and_run_with_the_graph_executor the_oldest_way_to_pass_a_compiled_model_on "
        "every_optimization_level_gives_the_same batch_norm_with_and_without_shift_and_scale",
        "relay/arrays": "sums_of_segments running_sums_and_products",
    },
    "executors of expressions, gradients": {
        "programs": "executors_evaluate_functions_and_expressions control_flow_and_closures_in_the_interpreter",
        "idiom_programs": "a_step_of_gradient_descent a_model_in_half_precision",
    },
    "the virtual machine": {
        "programs": "the_virtual_machine_runs_control_flow",
        "relay/programs": "the_virtual_machine_by_hand",
        "idiom_programs": "a_program_of_text_with_a_loop batches_of_any_size",
    },
    "the debug executor": {
        "idiom_programs": "the_debug_executor_writes_what_a_model_gave the_debug_executor_tells_of_every_node"
    },
    "passes of the program's own": {
        "programs": "passes_of_the_program_s_own passes_compose_and_compare "
        "legalization_by_a_rule_of_the_program_s_own",
        "ir/pass_context": "added_passes_change_the_code",
        "idiom_programs": "a_pass_instrument_sees_every_pass",
    },
    "patterns": {"idiom_programs": "a_pattern_is_rewritten_by_a_callback a_pattern_with_attributes_is_partitioned"},
    "external code generators, operators of the program's own": {
        "programs": "an_external_code_generator_by_patterns",
        "relay/own_operators": "an_operator_with_a_compute a_gradient_of_its_own",
    },
    "quantization": {"programs": "a_model_in_integers", "idiom_programs": "quantized_weights_stay_near_the_floats"},
    "files: libraries, graphs, parameters": {
        "programs": "export_and_load parameters_as_bytes",
        "runtime/libraries": "functions_are_written_and_read",
        "gallery_idioms": "objects_linked_into_a_library_are_loaded_again",
        "idiom_programs": "three_files_are_deployed a_graph_by_hand_over_functions_of_a_library",
    },
    "importers": {
        "programs": "onnx_models_are_imported weights_of_onnx_models_are_parameters_unless_frozen",
    },
    "helpers of tests": {"programs": "gradients_are_checked_numerically"},
    "autotvm": {
        "autotvm/programs": "the_tutorials_matrix_product_is_tuned_and_built "
        "tasks_of_a_network_are_tuned_and_the_network_built_with_the_best",
    },
    "devices from afar": {
        "rpc/programs": "a_library_runs_where_the_session_is a_network_runs_where_the_session_is "
        "a_program_of_the_virtual_machine_runs_where_the_session_is a_tracker_gives_devices_out",
    },
}


@pytest.mark.parametrize("idiom", IDIOMS)
def test_every_program_of_the_list_is_there_and_is_compared(idiom: str) -> None:
    for name, tests in IDIOMS[idiom].items():
        path = FOLDER / f"{name}.py"
        path = path.with_name(f"test_{path.name}")
        text = path.read_text()
        found = {one.name: ast.get_source_segment(text, one) or "" for one in ast.parse(text).body
                 if isinstance(one, ast.FunctionDef)}  # fmt: skip
        for test in tests.split():
            assert f"test_{test}" in found, f"{path.name} has no test_{test}"
            program = found[f"test_{test}"] + "".join(found[helper] for helper in found if helper.startswith("_"))
            assert "np." in program or "numpy" in program, f"{test} is not compared with NumPy"


def test_there_are_sixty_programs() -> None:
    listed = [(name, test) for files in IDIOMS.values() for name, tests in files.items() for test in tests.split()]
    assert len(set(listed)) == len(listed) >= 60
