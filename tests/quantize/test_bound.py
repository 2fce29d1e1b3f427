"""Upper confidence bounds of losses: against the binomial distribution, published quantiles, and drawn samples."""

import math

import numpy as np
import pytest

from tilewright.quantize.bound import ratio_bound, share_bound
from tilewright.quantize.loss import Loss


def chance_of_no_more(hits, count, share):
    return sum(math.comb(count, k) * share**k * (1 - share) ** (count - k) for k in range(hits + 1))


@pytest.mark.parametrize(("hits", "count"), [(0, 1), (0, 25), (1, 25), (7, 25), (24, 25), (3, 400)])
def test_the_bound_of_a_share_is_where_as_few_hits_have_a_chance_of_a_twentieth(hits, count):
    assert chance_of_no_more(hits, count, share_bound(hits, count)) == pytest.approx(0.05, rel=1e-6)


def test_the_bound_of_a_share_of_nothing_and_of_all():
    assert share_bound(0, 598) <= 0.005 < share_bound(0, 597)
    assert share_bound(4, 4) == 1.0
    assert share_bound(0, 0) == 1.0


@pytest.mark.parametrize(("count", "quantile"), [(2, 6.314), (3, 2.920), (11, 1.812), (31, 1.697), (1001, 1.646)])
def test_the_bound_of_a_mean_has_students_quantile(count, quantile):
    values = np.random.default_rng(count).random(count)
    spread = values.std(ddof=1) / math.sqrt(count)
    assert ratio_bound(values, np.ones(count)) == pytest.approx(values.mean() + quantile * spread, rel=1e-3)


def test_the_bound_of_a_ratio_holds_on_nineteen_of_twenty_draws():
    rng = np.random.default_rng(4)
    norms = rng.gamma(4.0, size=(2000, 32))
    errors = norms * rng.gamma(3.0, size=norms.shape)  # a ratio of 3
    held = np.mean([ratio_bound(*pair) >= 3.0 for pair in zip(errors, norms)])
    assert 0.91 < held < 0.97
    assert 0.3 < np.mean(errors.sum(1) / norms.sum(1) >= 3.0) < 0.6  # the mean itself holds on half


def test_one_sample_has_no_bound():
    assert ratio_bound([1.0], [2.0]) == math.inf
    assert ratio_bound([0.0, 0.0], [0.0, 0.0]) == 0.0


def lossy(errors, answers=0):
    """A loss of a sample an error, of which `answers` differ."""
    loss, rng = Loss(), np.random.default_rng(0)
    for number, error in enumerate(errors):
        exact = np.array([[0.0, 1.0, 0.5]])
        turned = exact[:, [1, 0, 2]] if number < answers else exact
        loss.add([exact], [turned + error * rng.choice([-1, 1], 3)], label=1)
    return loss


def test_a_budget_holds_where_the_bound_does():
    loss = lossy([0.01, 0.03] * 8)
    assert loss.relative < loss.bound("relative")
    between = (loss.relative + loss.bound("relative")) / 2
    assert not loss.holds("relative", between)
    assert loss.holds("relative", loss.bound("relative"))


def test_answers_and_accuracy_are_bound_by_their_number():
    loss = lossy([0.0] * 40, answers=2)
    assert loss.bound("argmax") == share_bound(2, 40)
    assert loss.bound("accuracy") == pytest.approx(share_bound(2, 40))
    assert loss.holds("argmax", 0.16)
    assert not loss.holds("argmax", 0.06)  # 2 of 40 are 0.05


def test_samples_that_are_too_few_to_show_it_may_lose_nothing():
    assert lossy([0.0] * 40).holds("argmax", 0.01)
    assert not lossy([0.0] * 40, answers=1).holds("argmax", 0.05)
    assert lossy([0.01]).holds("relative", 0.02)
    assert not lossy([0.03]).holds("relative", 0.02)


def test_answers_of_one_sample_count_less_than_samples():
    loss = Loss()
    for number in range(10):
        exact = np.tile([0.0, 1.0], (100, 1))
        loss.add([exact], [exact[:, ::-1] if number == 0 else exact])
    assert loss.argmax == 0.1
    assert loss.bound("argmax") > 1.5 * share_bound(100, 1000)
