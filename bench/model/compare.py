"""The model's two bars of speed, in numpy and scipy: python3 compare.py

ideal: M/M/1/B by the closed form, numpy over 200 loads. disable-enable: the same chain as the model's two stages, as
a sparse generator solved by scipy, load by load. M/D/1/B: the same subtraction-free recursion, numpy inner products.
Prints median, least and most of the repeats in milliseconds, and a figure to compare the answers by.
"""

import statistics
import time

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import spsolve
from scipy.stats import poisson

LOADS = 1.5e3 * np.arange(1, 201)
SERVICE_S, FIRST_S, PLACES = 5.25e-6 + 64 / 748e6, 0.5e-6 + 3.73e-6, 1024


def ideal():
    x = np.log(LOADS * SERVICE_S)
    idle = np.expm1(x) / np.expm1((PLACES + 1) * x)
    return float(np.sum((1 - idle) / SERVICE_S))


def disable_enable(load):
    """States: 0 idle; n in 1..B first stage; B + n service stage."""
    n = np.arange(1, PLACES + 1)
    rows, cols, rates = [np.array([0])], [np.array([1])], [np.array([load])]

    def jumps(source, target, rate):
        rows.append(source), cols.append(target), rates.append(np.full(len(source), rate))

    jumps(n[:-1], n[1:], load)
    jumps(PLACES + n[:-1], PLACES + n[1:], load)
    jumps(n, PLACES + n, 1 / FIRST_S)
    jumps(PLACES + n[1:], PLACES + n[:-1], 1 / SERVICE_S)
    jumps(np.array([PLACES + 1]), np.array([0]), 1 / SERVICE_S)
    row, col, rate = map(np.concatenate, (rows, cols, rates))
    order = 2 * PLACES + 1
    out = np.bincount(row, rate, order)
    # pi Q = 0, the first balance replaced by the sum of probabilities (with pi_0 = 1 instead, overload is singular).
    kept = col != 0
    states = np.arange(order)
    row, col, rate = row[kept], col[kept], rate[kept]
    system = coo_matrix(
        (
            np.concatenate((rate, -out[1:], np.ones(order))),
            (np.concatenate((col, states[1:], np.zeros(order, int))), np.concatenate((row, states[1:], states))),
        )
    )
    right = np.zeros(order)
    right[0] = 1.0
    pi = spsolve(system.tocsc(), right)
    return pi[PLACES + 1 :].sum() / pi.sum() / SERVICE_S


def m_d_1_b(load, places):
    """Loss of M/D/1/B: a_0 x_(j+1) = abar_j x_0 + sum_i x_i abar_(j-i+1); abar is cut below 1e-300."""
    reach = 400
    above = poisson.sf(np.arange(reach), load)
    none = np.exp(-load)
    x = np.zeros(places)
    x[0] = 1.0
    reversed_above = above[1:][::-1].copy()
    for j in range(places - 1):
        first = max(1, j - reach + 2)
        width = j - first + 1
        tail = x[first : j + 1] @ reversed_above[len(reversed_above) - width :] if width > 0 else 0.0
        x[j + 1] = (x[0] * (above[j] if j < reach else 0.0) + tail) / none
        if x[j + 1] > 1e250:
            x *= 1e-250
    x /= x.sum()
    throughput = 1 / (1 + x[0] / load)
    return 1 - throughput / load  # loses a loss below 1e-16; the model does not


def timed(name, repeats, work):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        answer = work()
        times.append(1e3 * (time.perf_counter() - start))
    print(f"{name}: median {statistics.median(times):.3f} ms, {min(times):.3f} to {max(times):.3f} ({repeats}x), answer {float(answer)!r}", flush=True)


timed("ideal, 200 loads, numpy closed form", 50, ideal)
timed("disable-enable, 200 loads, scipy spsolve", 5, lambda: sum(disable_enable(load) for load in LOADS))
for load in (0.9, 1.0, 1.5):
    timed(f"M/D/1/B, B = 1e6, rho = {load}, numpy", 3, lambda: m_d_1_b(load, 1_000_000))
