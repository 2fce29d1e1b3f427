"""Measurements of the compile service: workers that are killed, uploads that no client would send, devices of Neo."""
