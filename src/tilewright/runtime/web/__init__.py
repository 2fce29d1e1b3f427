"""Models for the web: the files of a folder for WebAssembly or WebGPU, and runs of them in wasmtime and engines."""
