"""Models for the web: the description within a module, the files of a folder, and the same module in wasmtime."""
