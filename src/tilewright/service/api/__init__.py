"""The service's own API: one file a resource, declared once for dispatch, checks and the OpenAPI document."""
