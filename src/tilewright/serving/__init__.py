"""The model server: compiled models behind the Open Inference Protocol, over HTTP and gRPC (docs/serving.md)."""
