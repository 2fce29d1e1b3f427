"""The parameter hub: against the same optimizers on one rank, tenants beside each other, TLS, and every error."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.errors import InputError, RpcError
from tilewright.rpc.frames import Channel
from tilewright.rpc.identity import Bundle, make_authority, make_bundle
from tilewright.training import SGD, Adafactor, AdamW, ClippedByNorm
from tilewright.training.hub.client import HubSession
from tilewright.training.hub.kernel import decoded, encoded
from tilewright.training.hub.layout import Layout
from tilewright.training.hub.server import Hub, HubSettings
from tilewright.training.hub.shared import Shared, taken
from tilewright.training.rules.clip import ClippedByValue
from tilewright.training.rules.optimizer import Optimizer
from tilewright.training.rules.schedule import Linear

SHAPES: dict[str, tuple[int, ...]] = {"w": (30, 7), "b": (5,), "s": ()}
MOMENTUM = SGD(0.5, momentum=0.9)


def arrays(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: np.asarray(rng.standard_normal(shape), np.float32) for name, shape in SHAPES.items()}


def at_once(*works: Callable[[], Any]) -> list[Any]:
    """The results of functions that run at the same time, or what they raise."""
    found: list[Any] = [None] * len(works)

    def run(index: int) -> None:
        try:
            found[index] = works[index]()
        except Exception as error:
            found[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a worker hangs"
    return found


def joined(hub: Hub, tenant: str, rank: int, workers: int, **options: Any) -> HubSession:
    values, optimizer = options.pop("values", None) or arrays(0), options.pop("optimizer", MOMENTUM)
    return HubSession(*hub.address, tenant, rank, workers, values, optimizer, **options)


def trained(hub: Hub, tenant: str, rank: int, workers: int, steps: int, scale: float = 1.0, **options: Any) -> Any:
    """The parameters after `steps` with gradients that depend on worker and step."""
    with joined(hub, tenant, rank, workers, **options) as session:
        for step in range(steps):
            session.step({k: v * np.float32(scale) for k, v in arrays(10 * rank + step + 1).items()})
        return {name: value.copy() for name, value in session.parameters.items()}


def by_numpy(workers: int, steps: int, scale: float = 1.0) -> dict[str, np.ndarray]:
    """The same by the definition of SGD with momentum."""
    values, velocity = arrays(0), {name: np.zeros(shape) for name, shape in SHAPES.items()}
    for step in range(steps):
        for name in SHAPES:
            mean = sum(arrays(10 * rank + step + 1)[name] * scale for rank in range(workers)) / workers
            velocity[name] = 0.9 * velocity[name] + mean
            values[name] = values[name] - 0.5 * velocity[name]
    return values


@pytest.fixture(scope="module")
def hub() -> Any:
    with Hub(HubSettings(shards=2, timeout=20.0)) as made:
        yield made


def test_workers_get_the_parameters_of_one_rank_each_time_with_the_same_bits(hub: Hub) -> None:
    first, second, third = at_once(*[lambda rank=rank: trained(hub, "a", rank, 3, 4) for rank in range(3)])
    expected = by_numpy(3, 4)
    for name in SHAPES:
        np.testing.assert_allclose(first[name], expected[name], rtol=0, atol=1e-6)
        np.testing.assert_array_equal(first[name], second[name])
        np.testing.assert_array_equal(first[name], third[name])
    again = at_once(*[lambda rank=rank: trained(hub, "a", rank, 3, 4) for rank in range(3)])[0]
    assert all(np.array_equal(again[name], first[name]) for name in SHAPES)


def test_memory_that_is_shared_and_a_socket_lead_to_the_same_bits(hub: Hub) -> None:
    shared = at_once(*[lambda rank=rank: trained(hub, "shared", rank, 2, 3) for rank in range(2)])
    with Hub(HubSettings(shards=2, share=False)) as other:
        sockets = at_once(*[lambda rank=rank: trained(other, "sockets", rank, 2, 3) for rank in range(2)])
    with joined(hub, "one", 0, 2) as session:  # one of them does not map it
        assert session._shares and not session.parameters["w"].flags.writeable
        with joined(hub, "one", 1, 2, share=False) as far:
            assert not far._shares
            for step in range(3):
                at_once(
                    lambda step=step: session.step(arrays(step + 1)), lambda step=step: far.step(arrays(10 + step + 1))
                )
            mixed = [{k: v.copy() for k, v in one.parameters.items()} for one in (session, far)]
    for found in (shared[1], *sockets, *mixed):
        assert all(np.array_equal(found[name], shared[0][name]) for name in SHAPES)


def test_a_worker_writes_to_no_memory_but_that_of_a_hub(tmp_path: Path) -> None:
    layout = Layout.of(SHAPES, 2)
    memory = Shared(layout, 2)
    found = taken(memory.offer, layout, 2)
    assert found is not None
    found[1] = 3
    assert (memory.gradients[0] == 3).all() and not memory.gradients[1].any()
    with pytest.raises(OSError):
        os.ftruncate(memory.offer["file"], 0)
    assert taken(memory.offer | {"token": "00"}, layout, 2) is None
    assert taken(memory.offer, layout, 3) is None
    assert taken(memory.offer | {"process": 1 << 30}, layout, 2) is None
    with open(tmp_path / "file", "w+b") as file:
        file.truncate(os.fstat(memory.offer["file"]).st_size)
        assert taken(memory.offer | {"file": file.fileno(), "token": "00" * 16}, layout, 2) is None
    for offer in (None, {}, {"process": "x", "file": 0, "token": ""}):
        assert taken(offer, layout, 2) is None


def test_tenants_with_the_same_keys_train_apart(hub: Hub) -> None:
    works = [lambda r=r, t=t: trained(hub, f"tenant{t}", r, 2, 6, 1.0 + t) for t in range(2) for r in range(2)]
    found = at_once(*works)
    for tenant in range(2):
        expected = by_numpy(2, 6, 1.0 + tenant)
        for name in SHAPES:
            np.testing.assert_allclose(found[2 * tenant][name], expected[name], rtol=1e-5, atol=1e-5)


def test_a_tenant_whose_worker_is_silent_holds_no_other_up(hub: Hub) -> None:
    pair = at_once(*[lambda rank=rank: joined(hub, "slow", rank, 2) for rank in range(2)])
    waiting = threading.Thread(target=lambda: at_once(lambda: pair[0].step(arrays(1))))
    waiting.start()
    found = at_once(lambda: trained(hub, "fast", 0, 1, 5))[0]
    np.testing.assert_allclose(found["w"], by_numpy(1, 5)["w"], atol=1e-5)
    assert waiting.is_alive()
    pair[1].step(arrays(1))
    waiting.join(30)
    assert not waiting.is_alive()
    for session in pair:
        session.close()


def test_several_chunks_and_another_optimizer(hub: Hub) -> None:
    values = {"large": np.linspace(-1, 1, 600_000, dtype=np.float32), "small": np.ones(3, np.float32)}
    layout = Layout.of({"large": (600_000,), "small": (3,)}, 2)
    assert layout.chunks == 3 and [*layout.of_shard(0)] == [0, 2]
    optimizer = AdamW(Linear(0.1, 0.0, 10), weight_decay=0.0)
    with joined(hub, "large", 0, 1, values=values, optimizer=optimizer) as session:
        session.step({"large": np.sign(values["large"]), "small": np.zeros(3, np.float32)})
        expected = values["large"] - 0.1 * np.sign(values["large"])
        np.testing.assert_allclose(session.parameters["large"], expected, atol=1e-6)
        np.testing.assert_array_equal(session.parameters["small"], values["small"])


def test_wrong_keys_and_shapes_are_named(hub: Hub) -> None:
    with joined(hub, "keys", 0, 2) as session:
        others = {
            "there is no key 'v' in the training 'keys'": {"v": np.zeros(3, "f")},
            r"the key 'b' has the shape \[6\] here, and \[5\]": arrays(0) | {"b": np.zeros(6, "f")},
            "the key 's' of the training 'keys' is missing": {k: v for k, v in arrays(0).items() if k != "s"},
            "in another order": dict(reversed(arrays(0).items())),
        }
        for text, values in others.items():
            with pytest.raises(InputError, match=text):
                joined(hub, "keys", 1, 2, values=values)
        with pytest.raises(InputError, match="there is no key 'v' in this training"):
            session.step({"v": np.zeros(3, "f")})
    with pytest.raises(InputError, match="without keys"):
        HubSession(*hub.address, "none", 0, 1, {}, MOMENTUM)


def test_late_and_other_workers_are_refused(hub: Hub) -> None:
    with joined(hub, "late", 0, 1) as session:
        session.step(arrays(1))
        with pytest.raises(InputError, match=r"worker 0 comes too late: 'late' has 1 of its 1 workers.*at step 1"):
            joined(hub, "late", 0, 1)
        with pytest.raises(InputError, match="has 1 workers and"):
            joined(hub, "late", 1, 2)
        with pytest.raises(InputError, match="all must state the same"):
            joined(hub, "late", 0, 1, optimizer=SGD(0.1))
    with pytest.raises(InputError, match="has the workers 0 to 1; there is no 2"):
        joined(hub, "few", 2, 2)


def test_a_worker_that_leaves_ends_the_step_of_the_others_with_one_message(hub: Hub) -> None:
    pair = at_once(*[lambda rank=rank: joined(hub, "left", rank, 2) for rank in range(2)])

    def leave() -> None:
        pair[1].close()

    fault, _ = at_once(lambda: pair[0].step(arrays(1)), leave)
    assert isinstance(fault, RpcError) and "worker 1 of 'left' has left in step 0; begin again" in str(fault)
    assert np.isfinite(at_once(*[lambda r=r: trained(hub, "left", r, 2, 1) for r in range(2)])[0]["w"]).all()


def test_a_worker_that_is_silent_ends_the_step_after_a_while() -> None:
    with Hub(HubSettings(shards=1, timeout=0.5)) as hub:
        pair = at_once(*[lambda rank=rank: joined(hub, "silent", rank, 2) for rank in range(2)])
        with pytest.raises(RpcError, match=r"worker 1 of 'silent' was silent for 0.5 s in step 0"):
            pair[0].step(arrays(1))
        with pytest.raises(RpcError, match=r"worker 0 of 'absent' did not come within 0.5 s"):
            joined(hub, "absent", 1, 2)


def test_memory_is_bounded_and_frames_are_checked() -> None:
    with Hub(HubSettings(shards=1, memory_bytes=1 << 20)) as hub:
        with pytest.raises(InputError, match="needs 5 MiB, which the hub does not have left"):
            joined(hub, "large", 0, 1, values={"w": np.zeros(200_000, "f")})
        with joined(hub, "small", 0, 1) as session:
            channel: Channel = session._channels[0]
            for fields, data, text in (
                ({"chunk": 9, "step": 0}, b"", "chunk 9 is not of shard 0"),
                ({"chunk": 0, "step": 0}, b"abc", "bytes; 3 came"),
                ({"chunk": 0, "step": 5}, bytes(session._gradients[0].nbytes), "is at step 0"),
                ({"chunk": 0}, b"", "needs 'step'"),
            ):
                channel.send({"verb": "push", "id": 1, **fields}, data)
                assert text in channel.receive(10)[0]["error"]["text"]
            session.step(arrays(1))


def test_optimizers_go_over_the_wire_as_numbers_and_no_others() -> None:
    optimizers: list[Optimizer] = [AdamW(Linear(0.1, 0.0, 5)), ClippedByValue(SGD(0.1, nesterov=True), 2.0)]
    for optimizer in optimizers:
        assert decoded(encoded(optimizer)) == optimizer
    for other in (Adafactor(), ClippedByNorm(SGD(0.1), 1.0)):
        with pytest.raises(InputError, match=f"a hub has no {type(other).__name__}"):
            encoded(other)
    for stated in (
        {"kind": "system"},
        {"kind": "Linear", "start": 1, "end": 0, "steps": 3},
        {"kind": "SGD", "rate": 1},
        3,
    ):
        with pytest.raises(InputError):
            decoded(stated)


def test_over_tls_a_training_is_its_users(tmp_path: Path) -> None:
    pytest.importorskip("cryptography")
    fleet = tmp_path / "fleet"
    make_authority(fleet)
    anna, bert = (make_bundle(fleet, "user", name) for name in ("anna", "bert"))
    with Hub(HubSettings(shards=2, bundle=Bundle(make_bundle(fleet, "device", "hub")))) as hub:
        found = at_once(*[lambda r=r: trained(hub, "t", r, 2, 2, bundle=anna) for r in range(2)])
        assert not [one for one in found if isinstance(one, Exception)], found
        np.testing.assert_allclose(found[1]["w"], by_numpy(2, 2)["w"], atol=1e-6)
        wanted = pytest.raises(InputError, match="'mine' is the training of another user")
        with joined(hub, "mine", 0, 2, bundle=anna), wanted:
            joined(hub, "mine", 1, 2, bundle=bert)
        with pytest.raises(RpcError):
            joined(hub, "plain", 0, 1)
