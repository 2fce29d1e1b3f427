"""The networks of `relay.testing`, each a `get_workload` that gives a module and random parameters."""
