"""The protocol over gRPC: messages by their field numbers, and the service."""
