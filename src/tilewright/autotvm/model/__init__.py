"""Cost models: what a configuration will take, learned from what others took."""
