"""Configurations: what follows from the nine figures, JSON there and back, one error a rule."""

from __future__ import annotations

import pytest

from tilewright.errors import UserError
from tilewright.vta import Config, Isa


def test_the_default_is_the_classic_configuration() -> None:
    config = Config()
    assert config.name == "1x16_i8w8a32_15_15_18_17"
    depths = config.log_uop_depth, config.log_inp_depth, config.log_wgt_depth, config.log_acc_depth
    assert [1 << depth for depth in depths] == [8192, 2048, 1024, 2048]
    assert [config.element_bytes(m) for m in ("uop", "inp", "wgt", "acc", "out")] == [4, 16, 256, 64, 16]
    assert (config.batch, config.block, config.macs_per_cycle) == (1, 16, 256)


def test_json_there_and_back() -> None:
    config = Config(log_batch=2, log_block=5, log_wgt_buff_size=20)
    assert Config.from_json(config.to_json()) == config
    assert Config.from_json('{"LOG_BLOCK": 5}') == Config(log_block=5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "is not JSON"),
        ("[]", "not a JSON object"),
        ('{"LOG_BLOK": 4}', "'LOG_BLOK', which is none of LOG_INP_WIDTH"),
        ('{"LOG_BLOCK": "4"}', "LOG_BLOCK is '4': .*integer from 0 to 7"),
        ('{"LOG_BLOCK": true}', "LOG_BLOCK is True"),
        ('{"LOG_BATCH": -1}', "LOG_BATCH is -1"),
        ('{"LOG_INP_WIDTH": 2}', "inputs have 8 or 16 bits"),
        ('{"LOG_WGT_WIDTH": 5}', "weights have 8 or 16 bits"),
        ('{"LOG_ACC_WIDTH": 4}', "accumulators have 32 bits"),
        ('{"LOG_UOP_BUFF_SIZE": 1}', "a micro-op of 4 bytes"),
        ('{"LOG_INP_BUFF_SIZE": 31}', "at most 2\\^30 bytes"),
        ('{"LOG_WGT_BUFF_SIZE": 7}', "128 bytes, and one element has 256; use at least 8"),
    ],
)
def test_bad_configurations_are_refused(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        Config.from_json(text)


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ({"log_uop_buff_size": 16}, "iter_in of GEMM would be bits 51–64"),
        ({"log_acc_buff_size": 18}, "wgt_factor_in of GEMM would be bits 120–129"),
        ({"log_inp_buff_size": 22, "log_acc_buff_size": 9, "log_wgt_buff_size": 10}, "INP has 262144 elements"),
    ],
)
def test_what_cannot_be_encoded_is_refused(figures: dict[str, int], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Isa(Config(**figures))


def test_the_limits_of_the_encoding_are_the_published_ones() -> None:
    """With the logarithms of the depths: the words of GEMM and ALU, the micro-op, and addresses of 16 bits."""
    encodable = 0
    for uop in (14, 15, 16):
        for inp in range(9, 21):
            for wgt in range(12, 22):
                for acc in range(11, 21):
                    config = Config(
                        log_uop_buff_size=uop, log_inp_buff_size=inp, log_wgt_buff_size=wgt, log_acc_buff_size=acc
                    )
                    u, i, w, a = config.log_uop_depth, config.log_inp_depth, config.log_wgt_depth, config.log_acc_depth
                    fits = 2 * (a + i + w) <= 64 and 4 * a + 20 <= 64 and a + max(a, i) + w <= 32 and u <= 13
                    try:
                        Isa(config)
                    except UserError:
                        assert not fits
                    else:
                        assert fits
                        encodable += 1
    assert 0 < encodable < 3 * 12 * 10 * 10
