"""Random ONNX graphs against onnxruntime and ONNX's own evaluator: `python -m bench.fuzz.graphs`.

`draft.py` grows a graph node by node; the families (`elementwise.py`, `reductions.py`, `shaping.py`, `indexing.py`,
`convolutions.py`, `networks.py`, `quantized.py`, `control.py`, `text.py`,
`learning.py`) say how each operator may be called, and
`operators.py` lists them. `references.py` evaluates a graph beside us, `judge.py` says whether we are right,
`settle.py` which node is not, and `causes.py` why references differ. `worker.py` is the process that one graph after
the other runs in, and `minimize.py` deletes from a failing graph what it does not need to fail.

`mutations.py` damages model files, which `seeds.py` makes, and saved artifacts: `python -m bench.fuzz.mutations`.
"""
