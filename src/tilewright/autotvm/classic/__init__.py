"""The classic interface: measuring, tuners, callbacks, logs."""
