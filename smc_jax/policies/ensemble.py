"""S parameter draws, each with the latent posteriors of all columns and one sample of them.

The draws are conditioned on every pick, which touches one column of each.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from smc_jax.algebra.batching import mapped
from smc_jax.model import gaussian
from smc_jax.model.answers import Answering
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.types import Outcome


class Ensemble(NamedTuple):
    """S equally likely worlds."""

    parameters: Parameters  # leading axis S
    column: gaussian.Column  # leading axes [S, N]
    # By how likely each draw made who answered in a column since the refit; None where answers do
    # not depend on values.
    log_weights: Array | None = None  # [S, N]


class Prediction(NamedTuple):
    """What each draw says of some entries, without noise."""

    mean: Array  # [S, ...]  b_d + w_d' m_n
    variance: Array  # [S, ...]  w_d' C_n w_d
    sample: Array  # [S, ...]  b_d + w_d' x_n


def start(key: Array, parameters: Parameters, observations: Observations) -> Ensemble:
    """Latent posteriors and samples for parameter draws with a leading axis S."""

    def one(draw: tuple[Array, Parameters]) -> gaussian.Column:
        key, parameters = draw
        columns, sample = gaussian.sample_columns(key, parameters, observations)
        return gaussian.Column.of(*columns, sample)

    # One draw after another: the columns of all of them at once would not fit in a CPU's cache.
    keys = jax.random.split(key, parameters.sigma.shape[0])
    column = mapped(one, (keys, parameters), on_cpu=1)
    if parameters.answers is None:
        return Ensemble(parameters, column)
    return Ensemble(parameters, column, jnp.zeros_like(column.block[..., 0, 0]))


def at_columns(ensemble: Ensemble, columns: Array) -> Ensemble:
    """The ensemble of the matrix of some columns [C] alone."""
    block = jnp.take(ensemble.column.block, columns, axis=1, mode="clip")
    parameters = jax.vmap(lambda one: one.at_columns(columns))(ensemble.parameters)
    weights = ensemble.log_weights
    if weights is not None:
        weights = jnp.take(weights, columns, axis=1, mode="clip")
    return Ensemble(parameters, gaussian.Column(block), weights)


def _answering_at(parameters: Parameters, row: Array, n: Array) -> Answering:
    """What one draw says of the answer of one entry."""
    return jax.tree.map(lambda x: jnp.take(x, row, mode="clip"), parameters.answers.answering_of(n))


def _unless_known(
    parameters: Parameters, row: Array, n: Array, known: gaussian.Column, other: gaussian.Column
) -> gaussian.Column:
    """The second column, or the first where the draw has a value of the entry as data already."""
    if parameters.answers is None:
        return other
    is_known = _answering_at(parameters, row, n).refused > 0
    return jax.tree.map(lambda a, b: jnp.where(is_known, a, b), known, other)


def _weighed(ensemble: Ensemble, outcome: Outcome) -> Ensemble:
    """The ensemble whose draws of a column weigh what they made of its answer, or of none.

    It is a heuristic: a refusal weighs by what a draw expects of the value, an answer by the value
    itself, and neither by how likely the draw made that value. What the outcome says of the row,
    which other columns share, and of the value waits for the refit.
    """
    if ensemble.log_weights is None:
        return ensemble
    row, n = outcome.row, outcome.column

    def one(parameters: Parameters, column: gaussian.Column) -> Array:
        loading = parameters.factors()[row]
        mean = parameters.expected_at(row, n) + loading @ column.mean
        variance = loading @ column.covariance @ loading + parameters.noise_at(n) ** 2
        return _answering_at(parameters, row, n).log_chance(mean, variance, outcome)

    column = gaussian.Column(jnp.take(ensemble.column.block, n, axis=1, mode="clip"))
    moved = jax.vmap(one)(ensemble.parameters, column)
    return ensemble._replace(log_weights=ensemble.log_weights.at[:, n].add(moved))


def condition(key: Array, ensemble: Ensemble, outcome: Outcome) -> tuple[Ensemble, Prediction]:
    """Absorbs one more entry in every draw, and predicts its column [S, D] anew.

    It costs O(S K (K + D)): column `outcome.column` alone changes, in place where that is possible.
    Where answers depend on values its draws are weighted by whether an answer came.
    """
    n = outcome.column  # an index inside, answered or not
    keys = jax.random.split(key, ensemble.parameters.sigma.shape[0])

    def one(key: Array, parameters: Parameters, column: gaussian.Column) -> gaussian.Column:
        loading, variance = parameters.factors()[outcome.row], parameters.noise_at(n) ** 2
        centred = outcome.value - parameters.expected_at(outcome.row, n)
        moved = gaussian.absorb(key, column, loading, centred, variance, outcome.weight)
        if parameters.answers is None:
            return moved
        before = _answering_at(parameters, outcome.row, n).values
        change = outcome.weight * (outcome.value - before)
        corrected = _correct(column, loading, change, variance)
        return _unless_known(parameters, outcome.row, n, corrected, moved)

    weighed = _weighed(ensemble, outcome)
    return _with_column(weighed, n, lambda *draws: jax.vmap(one)(keys, *draws))


def _correct(
    column: gaussian.Column, loading: Array, change: Array, variance: Array
) -> gaussian.Column:
    """The column once a value that it took for seen turns out to be that much higher.

    m += C w change / s2, and so does the sample; C stays.
    """
    moved = column.covariance @ loading * change / variance
    return gaussian.Column(column.block.at[:, -2:].add(moved[:, None]))


def expect(ensemble: Ensemble, row: Array, n: Array) -> tuple[Ensemble, Prediction]:
    """The ensemble once one entry is pending, and its column [S, D] predicted anew.

    Covariances are as if the entry were known; means and samples stay. A draw that has a value of
    the entry as data stays as it is.
    """

    def one(parameters: Parameters, column: gaussian.Column) -> gaussian.Column:
        moved = gaussian.expect(column, parameters.factors()[row], parameters.noise_at(n) ** 2)
        return _unless_known(parameters, row, n, column, moved)

    return _with_column(ensemble, n, jax.vmap(one))


def expect_all(ensemble: Ensemble, observations: Observations, pending: Array) -> Ensemble:
    """The ensemble once all pending entries [D, N] are; the observations do not have them."""
    counted = observations.counting(pending)

    def one(draw: Ensemble) -> gaussian.Column:
        covariance = gaussian.latent_posterior(draw.parameters, counted).covariance
        return gaussian.Column.of(draw.column.mean, covariance, draw.column.sample)

    return ensemble._replace(column=mapped(one, ensemble, on_cpu=1))


def _with_column(
    ensemble: Ensemble,
    n: Array,
    moved: Callable[[Parameters, gaussian.Column], gaussian.Column],
) -> tuple[Ensemble, Prediction]:
    """The ensemble with column n of all draws moved, and the column [S, D] predicted anew."""
    parameters, block = ensemble.parameters, ensemble.column.block
    before = gaussian.Column(jnp.take(block, n, axis=1, mode="clip"))
    after = moved(parameters, before)
    block = lax.dynamic_update_index_in_dim(block, after.block, n, 1)
    # Predicted from `after`: to read it back from the block would cost a copy of all columns.
    moved_on = ensemble._replace(column=gaussian.Column(block))
    return moved_on, _predict_column(parameters, after, n)


def noise(ensemble: Ensemble) -> Array:
    """Standard deviation [S, N] of the noise in each column."""
    columns = ensemble.column.block.shape[1]
    return jax.vmap(lambda p: jnp.broadcast_to(p.noise(), (columns,)))(ensemble.parameters)


def answering(ensemble: Ensemble) -> Answering | None:
    """What the draws say of answers, [S, N, D] each; None where they do not depend on values."""
    answers = ensemble.parameters.answers
    if answers is None:
        return None
    return jax.vmap(lambda one: Answering(*(x.T for x in one.answering())))(answers)


def answering_of(ensemble: Ensemble, n: Array) -> Answering | None:
    """The same for column n, [S, D] each."""
    answers = ensemble.parameters.answers
    return None if answers is None else jax.vmap(lambda one: one.answering_of(n))(answers)


def predict(ensemble: Ensemble) -> Prediction:
    """The predictions [S, D, N] for all entries."""
    return jax.vmap(predict_one)(ensemble)


def predict_one(draw: Ensemble) -> Prediction:
    """The predictions [D, N] of one draw."""
    parameters, column = draw.parameters, draw.column
    columns = gaussian.Columns(column.mean, column.covariance)
    sample = parameters.expected() + parameters.factors() @ column.sample.T
    return Prediction(*gaussian.entry_moments(parameters, columns), sample)


def predict_column(ensemble: Ensemble, n: Array) -> Prediction:
    """The predictions [S, D] for column n."""
    block = jnp.take(ensemble.column.block, n, axis=1, mode="clip")
    return _predict_column(ensemble.parameters, gaussian.Column(block), n)


def _predict_column(parameters: Parameters, column: gaussian.Column, n: Array) -> Prediction:
    """The predictions [S, D] for column n."""
    w, b = parameters.factors(), jax.vmap(lambda own: own.expected_of(n))(parameters)
    foreseen = gaussian.Column(jnp.einsum("sdk,skl->sdl", w, column.block))
    variance = (foreseen.covariance * w).sum(-1)
    return Prediction(b + foreseen.mean, variance, b + foreseen.sample)
