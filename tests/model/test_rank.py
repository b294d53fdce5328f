"""Counts of factors against eigenvalues in float64, and what a rotation changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from smc_jax.model.parameters import Parameters
from smc_jax.model.rank import (
    columns_above,
    directions_above,
    eigenvalues_above,
    expected_ranks,
    ranks_of_draws,
)


@pytest.mark.usefixtures("x64")
def test_eigenvalues_are_counted_without_being_computed():
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 20):
        factors = rng.normal(size=(size, size + 1))
        matrix = factors @ factors.T - 2.0 * np.eye(size)
        values = np.linalg.eigvalsh(matrix)
        for bound in (*values - 0.01, *values + 0.01, -50.0, 500.0):
            assert eigenvalues_above(jnp.asarray(matrix), bound) == (values > bound).sum()


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("rows", "number"), [(12, 3), (3, 12), (5, 5), (9, 1)])
def test_directions_of_factors_and_of_single_rows(rows, number):
    rng = np.random.default_rng(rows)
    factors, own = rng.normal(size=(rows, number)), rng.uniform(0.0, 2.0, rows)
    values = np.linalg.eigvalsh(factors @ factors.T + np.diag(own))
    for bound in values + 1e-3:
        found = directions_above(jnp.asarray(factors), jnp.asarray(own), jnp.asarray(bound))
        assert found == (values > bound).sum()


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


def test_the_rank_of_draws_is_that_of_their_mean_covariance():
    """Draws agree on two factors, and each has a third of its own, which averages out."""
    rng = np.random.default_rng(2)
    shared = 2.0 * rng.normal(size=(30, 2))
    own = [0.4 * rng.normal(size=(30, 1)) for _ in range(40)]
    made = [
        Parameters.plain(jnp.asarray(np.hstack([shared, x])), jnp.asarray(sigma))
        for x, sigma in zip(own, np.linspace(0.9, 1.1, 40), strict=True)
    ]
    draws = jax.tree.map(lambda *x: jnp.stack(x), *made)
    w = np.asarray(draws.loadings, np.float64)
    values = np.linalg.eigvalsh(np.einsum("sdk,sek->de", w, w) / 40)
    found = ranks_of_draws(draws)
    assert found.signal == (values > np.linspace(0.9, 1.1, 40).__pow__(2).mean()).sum() == 2
    assert all(np.linalg.eigvalsh(x.T @ x)[0] > 1.0 for x in w)  # each draw alone has three
    norms = (w**2).sum(1)
    np.testing.assert_allclose(
        found.effective, np.mean([columns_above(jnp.asarray(one)) for one in norms])
    )
