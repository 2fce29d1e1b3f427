"""The messages of the Open Inference Protocol over gRPC, made from a table of their field numbers and types.

The numbers are those of the protocol's published definition (KServe's open inference protocol, with the extensions for
repositories, statistics, configurations and shared memory); a client has the same ones.
"""

from __future__ import annotations

import functools
from typing import Any

from tilewright.serving.models.packages import package

PACKAGE = "inference"
SERVICE = f"{PACKAGE}.GRPCInferenceService"

#: message: fields as `number name type`; `*` many, `?` one of a choice, `{` a map from texts. Names are looked up here.
_TABLE = """
ServerLiveRequest:
ServerLiveResponse: 1 live bool
ServerReadyRequest:
ServerReadyResponse: 1 ready bool
ModelReadyRequest: 1 name string, 2 version string
ModelReadyResponse: 1 ready bool
ServerMetadataRequest:
ServerMetadataResponse: 1 name string, 2 version string, 3 extensions *string
ModelMetadataRequest: 1 name string, 2 version string
TensorMetadata: 1 name string, 2 datatype string, 3 shape *int64
ModelMetadataResponse: 1 name string, 2 versions *string, 3 platform string, 4 inputs *TensorMetadata,
  5 outputs *TensorMetadata
InferParameter: 1 bool_param ?bool, 2 int64_param ?int64, 3 string_param ?string, 4 double_param ?double,
  5 uint64_param ?uint64
InferTensorContents: 1 bool_contents *bool, 2 int_contents *int32, 3 int64_contents *int64, 4 uint_contents *uint32,
  5 uint64_contents *uint64, 6 fp32_contents *float, 7 fp64_contents *double, 8 bytes_contents *bytes
InferInputTensor: 1 name string, 2 datatype string, 3 shape *int64, 4 parameters {InferParameter,
  5 contents InferTensorContents
InferRequestedOutputTensor: 1 name string, 2 parameters {InferParameter
InferOutputTensor: 1 name string, 2 datatype string, 3 shape *int64, 4 parameters {InferParameter,
  5 contents InferTensorContents
ModelInferRequest: 1 model_name string, 2 model_version string, 3 id string, 4 parameters {InferParameter,
  5 inputs *InferInputTensor, 6 outputs *InferRequestedOutputTensor, 7 raw_input_contents *bytes
ModelInferResponse: 1 model_name string, 2 model_version string, 3 id string, 4 parameters {InferParameter,
  5 outputs *InferOutputTensor, 6 raw_output_contents *bytes
ModelStreamInferResponse: 1 error_message string, 2 infer_response ModelInferResponse
ModelConfigRequest: 1 name string, 2 version string
ConfigTensor: 1 name string, 2 data_type int32, 4 dims *int64
ConfigOutput: 1 name string, 2 data_type int32, 3 dims *int64
ModelConfig: 1 name string, 2 platform string, 4 max_batch_size int32, 5 input *ConfigTensor, 6 output *ConfigOutput,
  17 backend string
ModelConfigResponse: 1 config ModelConfig
ModelStatisticsRequest: 1 name string, 2 version string
StatisticDuration: 1 count uint64, 2 ns uint64
InferStatistics: 1 success StatisticDuration, 2 fail StatisticDuration, 3 queue StatisticDuration,
  4 compute_input StatisticDuration, 5 compute_infer StatisticDuration, 6 compute_output StatisticDuration,
  7 cache_hit StatisticDuration, 8 cache_miss StatisticDuration
InferBatchStatistics: 1 batch_size uint64, 2 compute_input StatisticDuration, 3 compute_infer StatisticDuration,
  4 compute_output StatisticDuration
ModelStatistics: 1 name string, 2 version string, 3 last_inference uint64, 4 inference_count uint64,
  5 execution_count uint64, 6 inference_stats InferStatistics, 7 batch_stats *InferBatchStatistics
ModelStatisticsResponse: 1 model_stats *ModelStatistics
ModelRepositoryParameter: 1 bool_param ?bool, 2 int64_param ?int64, 3 string_param ?string, 4 bytes_param ?bytes
RepositoryIndexRequest: 1 repository_name string, 2 ready bool
ModelIndex: 1 name string, 2 version string, 3 state string, 4 reason string
RepositoryIndexResponse: 1 models *ModelIndex
RepositoryModelLoadRequest: 1 repository_name string, 2 model_name string, 3 parameters {ModelRepositoryParameter
RepositoryModelLoadResponse:
RepositoryModelUnloadRequest: 1 repository_name string, 2 model_name string, 3 parameters {ModelRepositoryParameter
RepositoryModelUnloadResponse:
SystemSharedMemoryStatusRequest: 1 name string
RegionStatus: 1 name string, 2 key string, 3 offset uint64, 4 byte_size uint64
SystemSharedMemoryStatusResponse: 1 regions {RegionStatus
SystemSharedMemoryRegisterRequest: 1 name string, 2 key string, 3 offset uint64, 4 byte_size uint64
SystemSharedMemoryRegisterResponse:
SystemSharedMemoryUnregisterRequest: 1 name string
SystemSharedMemoryUnregisterResponse:
"""


@functools.cache
def messages() -> dict[str, Any]:
    """Classes of all messages by name, in a pool of their own: a client's may be in the same process."""
    descriptor_pb2 = package("google.protobuf.descriptor_pb2")
    file = descriptor_pb2.FileDescriptorProto(name="tilewright/serving.proto", package=PACKAGE, syntax="proto3")
    for line in _TABLE.replace(",\n ", ",").strip().splitlines():
        name, _, fields = line.partition(":")
        message = file.message_type.add(name=name)
        for text in filter(None, (field.strip() for field in fields.split(","))):
            _add_field(message, *text.split())
    pool = package("google.protobuf.descriptor_pool").DescriptorPool()
    pool.Add(file)
    make = package("google.protobuf.message_factory").GetMessageClass
    return {one.name: make(pool.FindMessageTypeByName(f"{PACKAGE}.{one.name}")) for one in file.message_type}


def _add_field(message: Any, number: str, name: str, kind: str) -> None:
    """Add a field of the table to the descriptor of a message."""
    mark = kind[0] if kind[0] in "*?{" else ""
    kind = kind.removeprefix(mark)
    field = message.field.add(name=name, number=int(number), label=3 if mark in ("*", "{") and mark else 1)
    if mark == "{":
        entry = message.nested_type.add(name=f"{name.title()}Entry")
        entry.options.map_entry = True
        _add_field(entry, "1", "key", "string")
        _add_field(entry, "2", "value", kind)
        kind = f"{message.name}.{entry.name}"
    elif mark == "?":
        if not message.oneof_decl:
            message.oneof_decl.add(name="parameter_choice")
        field.oneof_index = 0
    scalar = getattr(type(field), f"TYPE_{kind.upper()}", None)
    if scalar is None:
        field.type, field.type_name = type(field).TYPE_MESSAGE, f".{PACKAGE}.{kind}"
    else:
        field.type = scalar
