"""Functions of a server's own process that its program offers by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tilewright.errors import InputError, RpcError
from tilewright.rpc import connect
from tilewright.rpc.server import Server, Settings


def _double(array):
    array *= 2
    return array.sum(axis=0)


def _fail(text):
    raise ValueError(text)


OFFERED = {
    "add": lambda x, y: x + y,
    "adder": lambda x: lambda y: x + y,
    "apply": lambda function, x: function(x),
    "double": _double,
    "fail": _fail,
    "object": object,
}


@pytest.fixture
def remote(tmp_path: Path):
    with Server(Settings(tmp_path / "state", functions=OFFERED.get)) as server, connect(*server.address) as session:
        yield session


def test_numbers_text_bytes_and_functions_go_both_ways(remote) -> None:
    add = remote.function("add")
    assert add(2, 0.5) == 2.5 and add("über", "all") == "überall" and add(b"\x00", bytearray(b"1")) == b"\x001"
    assert add(np.int64(2**62), 1) == 2**62 + 1
    adder = remote.function("adder")(40)
    assert adder(2) == 42 and remote.function("apply")(adder, 1) == 41


def test_arrays_stay_there_and_are_written_back(remote) -> None:
    array = remote.array(np.arange(6, dtype="float32").reshape(2, 3))
    sums = remote.function("double")(array)
    np.testing.assert_array_equal(array.numpy(), np.arange(6).reshape(2, 3) * 2)
    np.testing.assert_array_equal(sums.numpy(), [6, 10, 14])
    np.testing.assert_array_equal(remote.function("add")(sums, sums).numpy(), [12, 20, 28])


def test_errors_are_told_and_the_session_goes_on(remote) -> None:
    with pytest.raises(RpcError, match="ValueError: no"):
        remote.function("fail")("no")
    with pytest.raises(RpcError, match=r"offers no function 'os\.system'"):
        remote.function("os.system")
    with pytest.raises(InputError, match="not object"):
        remote.function("object")()
    with pytest.raises(InputError, match="not dict"):
        remote.function("add")({}, 1)
    with pytest.raises(InputError, match="this session has no function number 99"):
        remote.ask("invoke", function=99, args=[])
    with pytest.raises(InputError, match="array 7 is not on the device"):
        remote.ask("invoke", function=remote.function("add").number, args=[{"array": 7}, 1])
    assert remote.function("add")(1, 1) == 2


def test_a_server_offers_none_unless_it_is_told_to(tmp_path: Path) -> None:
    none = pytest.raises(RpcError, match="registers no functions")
    with Server(Settings(tmp_path / "state")) as server, connect(*server.address) as session, none:
        session.function("add")
