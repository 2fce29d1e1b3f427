"""AutoTVM: search spaces, cost models, explorers, measurement and records. The public names, imported on first use."""
