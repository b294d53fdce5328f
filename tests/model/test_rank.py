"""Counts of factors against eigenvalues in float64, and what a rotation changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smc_jax.model.parameters import Parameters
from smc_jax.model.rank import eigenvalues_above, expected_ranks, ranks_of_draws


@pytest.mark.usefixtures("x64")
def test_eigenvalues_are_counted_without_being_computed():
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 20):
        factors = rng.normal(size=(size, size + 1))
        matrix = factors @ factors.T - 2.0 * np.eye(size)
        values = np.linalg.eigvalsh(matrix)
        for bound in (*values - 0.01, *values + 0.01, -50.0, 500.0):
            assert eigenvalues_above(jnp.asarray(matrix), bound) == (values > bound).sum()


def test_a_pivot_of_zero_counts_with_the_one_that_follows():
    for matrix, bound in (([[0.0, 1.0], [1.0, 0.0]], 0.0), ([[1.0, 2.0], [2.0, 1.0]], 1.0)):
        assert eigenvalues_above(jnp.asarray(matrix), bound) == 1


def test_a_rotation_changes_the_columns_that_count_and_no_direction():
    rng = np.random.default_rng(1)
    w = rng.normal(size=(20, 4)) * np.asarray([3.0, 0.5, 0.4, 0.01])
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    plain, turned = (
        expected_ranks(jnp.asarray(x), jnp.zeros((20, 4)), jnp.asarray(0.1)) for x in (w, w @ turn)
    )
    assert plain.signal == turned.signal == 3
    assert plain.effective == 1
    assert turned.effective > 1


def test_ranks_of_draws_are_means_over_the_draws():
    rng = np.random.default_rng(2)
    w = rng.normal(size=(5, 30, 3)) * rng.uniform(0.02, 0.6, (5, 1, 3))
    sigma = np.linspace(0.9, 1.1, 5)
    made = [Parameters.plain(jnp.asarray(x), jnp.asarray(s)) for x, s in zip(w, sigma, strict=True)]
    found = ranks_of_draws(jax.tree.map(lambda *x: jnp.stack(x), *made))
    above = [np.linalg.eigvalsh(x @ x.T) > s**2 for x, s in zip(w, sigma, strict=True)]
    assert 0 < found.signal < 3
    assert found.signal == pytest.approx(np.sum(above) / 5)
    norms = (w**2).sum(1)
    columns = (norms >= 0.05 * norms.max(1, keepdims=True)).sum() / 5
    assert found.effective == pytest.approx(columns)
