"""The tuner `tvm.auto_scheduler` by its classic names: sketches and their search (`autotvm/sketch`) behind them."""
