"""Templates that users write: knobs, configurations, contexts that choose, tasks."""
