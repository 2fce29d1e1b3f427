"""The networks of `relay.testing`, each a `get_workload` that returns a module and random parameters."""
