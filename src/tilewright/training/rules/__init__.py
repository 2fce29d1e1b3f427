"""Rules by which parameters follow their gradients: optimizers, rates over time, and modifiers of an optimizer."""
