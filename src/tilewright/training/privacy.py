"""The privacy that a training by `private_step` has spent: epsilon for a delta, by Rényi differential privacy.

    spent(noise=1.1, rate=256 / 60_000, steps=14_062, delta=1e-5)    # 2.6

It holds where each step draws every sample with the probability `rate`, independently of the others (Poisson sampling).
Mironov, Talwar and Zhang, Rényi Differential Privacy of the Sampled Gaussian Mechanism (2019), section 3.3; Balle,
Barthe, Gaboardi, Hsu and Sato, Hypothesis Testing Interpretations and Renyi Differential Privacy (AISTATS 2020),
theorem 21.
"""

from __future__ import annotations

import math

from tilewright.errors import InputError

#: Orders of which the best counts; with little noise small ones are, with much the large ones.
ORDERS = (*range(2, 65), *range(72, 257, 8), 320, 384, 512, 1024)


def spent(noise: float, rate: float, steps: int, delta: float) -> float:
    """Epsilon of (epsilon, delta)-differential privacy after `steps`; infinite without noise."""
    if not (noise >= 0 and 0 < rate <= 1 and steps >= 0 and 0 < delta < 1):
        raise InputError(f"no training has noise {noise}, rate {rate}, {steps} steps and delta {delta}")
    if noise == 0:
        return math.inf if steps else 0.0
    found = (
        steps * divergence(order, noise, rate)
        + math.log((order - 1) / order)
        - (math.log(delta) + math.log(order)) / (order - 1)
        for order in ORDERS
    )
    return max(min(found), 0.0)


def divergence(order: int, noise: float, rate: float) -> float:
    """The Rényi divergence of a whole order between the results of one step with and without a sample."""
    if rate == 1.0:
        return order / (2 * noise**2)
    terms = [
        math.lgamma(order + 1) - math.lgamma(k + 1) - math.lgamma(order - k + 1)
        + k * math.log(rate) + (order - k) * math.log1p(-rate) + (k * k - k) / (2 * noise**2)
        for k in range(order + 1)
    ]  # fmt: skip
    largest = max(terms)
    return (largest + math.log(math.fsum(math.exp(term - largest) for term in terms))) / (order - 1)
