"""Functions, bindings and scopes: normal forms, inlining, closures as data, continuations, partial evaluation."""
