"""How each operator is computed on each kind of target: one folder a target, one file a template."""
