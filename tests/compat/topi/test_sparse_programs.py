"""Programs with sparse matrices: `tvm.contrib.sparse`, `tvm.topi.sparse`, the sparse products of `tvm.topi.nn`."""

import numpy as np
import pytest

import tilewright.compat

tilewright.compat.install()

import tvm  # noqa: E402
import tvm.contrib.sparse as tvmsp  # noqa: E402
from tvm import te, topi  # noqa: E402
from tvm.topi.sparse.utils import random_bsr_matrix  # noqa: E402


def _sparse(rows, columns, density=0.3):
    rng = np.random.default_rng(3)
    return (rng.random((rows, columns)) * (rng.random((rows, columns)) < density)).astype("float32")


def _run(arguments, values, out):
    s = te.create_schedule(out.op)
    f = tvm.build(s, [*arguments, out], "llvm")
    result = tvm.nd.empty([int(n) for n in topi.utils.get_const_tuple(out.shape)])
    f(*map(tvm.nd.array, values), result)
    return result.numpy()


def test_arrays_of_elements():
    full = _sparse(4, 9)
    a = tvmsp.array(full, tvm.cpu())
    assert a.stype == "csr" and a.shape == (4, 9) and a.indptr.shape == (5,)
    np.testing.assert_array_equal(a.numpy(), full)
    again = tvmsp.array((a.data, a.indices, a.indptr), shape=(4, 9))
    np.testing.assert_array_equal(again.numpy(), full)
    with pytest.raises(tvm.TVMError, match="'csr', not 'rsp'"):
        tvmsp.array(full, stype="rsp")


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("columns", [1, 3])
def test_products_by_rows(columns, biased):
    full = _sparse(5, 7)
    a = tvmsp.array(full, tvm.cpu())
    nonzeros = te.var("nonzeros")
    A = tvmsp.placeholder((5, 7), nonzeros=nonzeros, name="A")
    B, C = te.placeholder((7, columns), name="B"), te.placeholder((5,), name="C")
    b, c = np.random.default_rng(1).random((7, columns), np.float32), np.arange(5, dtype="float32")
    product = topi.sparse.csrmv if columns == 1 else topi.sparse.csrmm
    out = product(A, B, C if biased else None)
    more = ([C], [c]) if biased else ([], [])
    found = _run([A.data, A.indices, A.indptr, B, *more[0]], [a.data, a.indices, a.indptr, b, *more[1]], out)
    np.testing.assert_allclose(found, full @ b + (c[:, None] if biased else 0), rtol=1e-5)


@pytest.mark.parametrize("of_weight", [False, True])
def test_dense_of_which_one_is_sparse(of_weight):
    rng = np.random.default_rng(1)
    full, other = _sparse(6, 8), rng.random((4, 8), np.float32)
    S = tvmsp.placeholder((6, 8), nonzeros=int((full != 0).sum()), name="S")
    D, bias = te.placeholder((4, 8), name="D"), te.placeholder((6 if of_weight else 4,), name="bias")
    a, b = tvmsp.array(full), rng.random(6 if of_weight else 4).astype("float32")
    out = topi.sparse.dense(*((D, S) if of_weight else (S, D)), bias)
    found = _run([S.data, S.indices, S.indptr, D, bias], [a.data, a.indices, a.indptr, other, b], out)
    np.testing.assert_allclose(found, (other @ full.T if of_weight else full @ other.T) + b, rtol=1e-5)


@pytest.mark.parametrize("block", [None, (4, 1), (2, 3)])
@pytest.mark.parametrize("sparse_lhs", [False, True])
def test_dense_by_blocks(block, sparse_lhs):
    rows, columns = block or (1, 1)
    pytest.importorskip("scipy", reason="random_bsr_matrix makes matrices of scipy")
    weight = random_bsr_matrix(8, 12, rows, columns, density=0.5, dtype="float32")
    weight = weight.tocsr() if block is None else weight
    parts = [weight.data, weight.indices, weight.indptr]
    x = np.random.default_rng(2).random((5, 12), np.float32)
    tensors = [te.placeholder(part.shape, str(part.dtype), name) for part, name in zip(parts, "dip", strict=True)]
    X = te.placeholder((5, 12), name="X")
    out = topi.nn.sparse_dense(X, *tensors, sparse_lhs=sparse_lhs)
    with tvm.target.Target("llvm"):
        s = topi.x86.schedule_sparse_dense([out])
    result = tvm.nd.empty((8, 5) if sparse_lhs else (5, 8))
    tvm.build(s, [X, *tensors, out], "llvm")(*map(tvm.nd.array, [x, *parts]), result)
    full = np.asarray(weight.todense())
    np.testing.assert_allclose(result.numpy(), full @ x.T if sparse_lhs else x @ full.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("block", [(4, 1), (4, 2)])
def test_convolution_by_blocks(layout, block):
    pytest.importorskip("scipy", reason="random_bsr_matrix makes matrices of scipy")
    weight = random_bsr_matrix(8, 6, *block, density=0.5, dtype="float32")
    data = weight.data.reshape(-1, 4) if block[1] == 1 else weight.data
    parts = [data, weight.indices, weight.indptr]
    x = np.random.default_rng(2).random((2, 3, 5, 6), np.float32)
    given = x if layout == "NHWC" else x.transpose(0, 3, 1, 2).copy()
    tensors = [te.placeholder(part.shape, str(part.dtype), name) for part, name in zip(parts, "dip", strict=True)]
    X = te.placeholder(given.shape, name="X")
    found = _run([X, *tensors], [given, *parts], topi.nn.sparse_conv2d(X, *tensors, layout))
    found = found if layout == "NHWC" else found.transpose(0, 2, 3, 1)
    np.testing.assert_allclose(found, x @ np.asarray(weight.todense()).T, rtol=1e-4, atol=1e-5)


def test_model_made_sparse_by_its_parameters():
    from tvm import relay
    from tvm.contrib import graph_executor
    from tvm.relay.data_dep_optimization import bsr_dense, simplify_fc_transpose

    rng = np.random.default_rng(5)
    x, w, v = relay.var("x", shape=(3, 16)), relay.var("w", shape=(16, 32)), relay.var("v", shape=(8, 32))
    out = relay.nn.dense(relay.nn.relu(relay.nn.dense(x, relay.transpose(w, [1, 0]))), v)
    mod = tvm.IRModule.from_expr(relay.Function([x, w, v], out))
    values = {"w": rng.random((16, 32), np.float32), "v": np.zeros((8, 32), np.float32)}
    values["v"][2:4] = rng.random((2, 32), np.float32)
    func, params = simplify_fc_transpose.convert(mod["main"], {k: tvm.nd.array(a) for k, a in values.items()})
    assert sorted(params) == ["v", "w.T"] and "transpose" not in func.astext()
    func, params = bsr_dense.convert(func, params, (2, 4), 0.7)
    assert sorted(params) == ["v.data", "v.indices", "v.indptr", "w.T"] and "nn.sparse_dense" in func.astext()
    lib = relay.build(tvm.IRModule.from_expr(func), target="llvm", params=params)
    module = graph_executor.GraphModule(lib["default"](tvm.cpu()))
    data = rng.random((3, 16), np.float32)
    module.set_input("x", data)
    module.run()
    want = np.maximum(data @ values["w"], 0) @ values["v"].T
    np.testing.assert_allclose(module.get_output(0).numpy(), want, rtol=1e-4)
