"""From a matrix to a fit, suggestions and predictions: compiled programs for one kind of campaign.

The model is fitted anew from the observations alone, so that a log reproduces what was suggested.
Everything that is asked of some columns costs what these columns cost.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.special import ndtr
from jax.scipy.stats import norm

from smc_jax import presets
from smc_jax.beliefs.base import Belief, parameter_draws
from smc_jax.beliefs.held import held, held_draws
from smc_jax.beliefs.history import History
from smc_jax.campaign.highest import largest, optimum_of
from smc_jax.campaign.worth import Settled, Terms
from smc_jax.model import gaussian
from smc_jax.model.features import Features
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations
from smc_jax.policies import ensemble
from smc_jax.policies.base import Mixture, Policy, Setting, predictor
from smc_jax.policies.ensemble_policy import ensemble_policy
from smc_jax.policies.ids import Gain, champion_rule
from smc_jax.policies.information import gaussian_gain
from smc_jax.policies.registry import POLICIES, make_policy
from smc_jax.predictions import Predicted, summary
from smc_jax.recommender import choose_several
from smc_jax.types import Choice, Offer

RULES = ("ids", "thompson", "greedy", "ucb", "random")
NONE = Features()
LEVELS = (0.05, 0.95)  # quantiles of a prediction
DRAWS = presets.CAMPAIGN_DRAWS  # of the parameters: a fit is these, and so is every prediction


class Asked(NamedTuple):
    """Choices [n], and what is known of each when it is asked."""

    choice: Choice  # row, and position among the columns that were offered; -1 where none is left
    predicted: Predicted  # [n]  the next measurement; quantiles at LEVELS
    probability: Array  # [n]  to be one of the `wanted` best entries on offer
    gain: Array  # [n]  bits, once the entries before it and the pending ones are known
    hopeful: Array  # [n] bool: its expected value is one of the `wanted` highest
    best_mean: Array  # []  the highest expected value on offer
    optimum: Array  # []  expected average of the `wanted` best entries on offer
    # [n]  What asks of the chosen entries are worth. Where it is there, what is said of the best
    # above is said of the worth of asks, not of the values of entries.
    worth: Array | None = None
    zero: Array | None = None  # []  the value that is worth nothing


class Survey(NamedTuple):
    """What is left to find."""

    mean: Array  # [D, N]
    sd: Array  # [D, N]  without the noise of a measurement
    chance: Array  # []  that an entry left, once moved, is better than the best value so far
    improvement: Array  # [D, N]  expected excess of a moved entry over the best value so far
    noise: Array  # []  standard deviation of a measurement


class Engine(NamedTuple):
    """Compiled programs; `columns` [C] are those that are offered, by number.

    `ask`, `predict` and `survey` forecast from the same parameter draws where they are given the
    same forecast key: an entry then has one mean and one deviation, to within rounding.
    """

    rule: str  # one of RULES
    fit: Callable[..., Parameters]  # (key, data, features=none, history=None) -> DRAWS draws
    # (choice key, forecast key, fit, data, columns, open [D, C], pending [D, C], wanted, best_of,
    # number, terms=None)
    ask: Callable[..., Asked]
    predict: Callable[[Array, Any, Observations, Array, Array], Predicted]  # rows, columns [M]
    # (forecast key, fit, data, open [D, N], best, offset [D, N], factor [D, N])
    survey: Callable[..., Survey]


class Focused(NamedTuple):
    """A fit, and the columns that a question is about."""

    fit: Any
    columns: Array  # [C]


def _focused(belief: Belief) -> Belief:
    """The belief about some columns of the matrix alone, at a fit that is handed over."""

    def draw(key: Array, state: Focused) -> Parameters:
        return belief.draw(key, state.fit).at_columns(state.columns)

    def stored(state: Focused) -> Parameters:
        assert belief.store is not None
        return jax.vmap(lambda one: one.at_columns(state.columns))(belief.store(state.fit))

    return held(belief)._replace(
        draw=draw,
        diagnose=lambda state: belief.diagnose(state.fit),
        point=False,
        store=None if belief.store is None else stored,
    )


def _forecast_draws(key: Array, belief: Belief, state: Any) -> tuple[Parameters, Array]:
    """The parameter draws [DRAWS] behind a forecast, and a key for samples of their columns."""
    parameter_key, sample_key = jax.random.split(key)
    return parameter_draws(parameter_key, belief, state, DRAWS), sample_key


def _describe(
    key: Array,
    belief: Belief,
    state: Focused,
    data: Observations,
    is_open: Array,
    pending: Array,
    wanted: Array,
    choice: Choice,
    settled: Settled | None = None,
) -> Asked:
    """What is known of chosen entries of a matrix of the columns in question."""
    worth = (lambda values: values) if settled is None else settled.worth
    parameters, sample_key = _forecast_draws(key, belief, state)
    members = ensemble.start(sample_key, parameters, data)
    row, column = (jnp.maximum(index, 0) for index in choice)

    def highest(values: Array) -> tuple[Array, Array]:
        """Which of the entries are among the `wanted` highest values, and their average."""
        found = largest(values, row.size)
        counted = jnp.arange(found.size) < wanted
        last = jnp.where(counted, found, jnp.inf).min()
        return values[row, column] >= last, jnp.where(counted, found, 0.0).sum() / wanted

    def one(total: Array, draw: ensemble.Ensemble) -> tuple[Array, tuple[Mixture, Array, Array]]:
        w, b, latent = draw.parameters.factors(), draw.parameters.expected(), draw.column
        mean, sample = (b + w @ x.T for x in (latent.mean, latent.sample))
        # The mirror image of a sample around the mean is as likely as the sample itself.
        mirrored = 2.0 * mean - sample
        samples = (jnp.where(is_open, worth(x), -jnp.inf) for x in (sample, mirrored))
        is_best, average_best = map(jnp.stack, zip(*map(highest, samples), strict=True))
        variance = jnp.einsum("nk,nkl,nl->n", w[row], latent.covariance[column], w[row])
        noise = jnp.broadcast_to(draw.parameters.noise(), (data.columns,))[column]
        own = Mixture(mean[row, column], jnp.maximum(variance, 0.0), noise)
        return total + mean, (own, is_best, average_best)

    # The means are summed up draw by draw: side by side they would be a matrix each.
    nothing = jnp.zeros(is_open.shape, members.column.block.dtype)
    total, (mixture, is_best, average_best) = lax.scan(one, nothing, members)
    average = jnp.where(is_open, worth(total / DRAWS), -jnp.inf)
    return Asked(
        choice=choice,
        predicted=summary(mixture, jnp.asarray(LEVELS), noise=True),
        probability=is_best.mean((0, 1)),
        gain=_gains(members, data, pending, row, column),
        hopeful=highest(average)[0],
        best_mean=average.max(),
        optimum=average_best.mean(),
        worth=None if settled is None else average[row, column],
        zero=None if settled is None else settled.zero,
    )


def _average(key: Array, belief: Belief, state: Focused, data: Observations) -> Array:
    """The expected values of all entries of the columns in question."""
    parameters, sample_key = _forecast_draws(key, belief, state)
    members = ensemble.start(sample_key, parameters, data)

    def one(total: Array, draw: ensemble.Ensemble) -> tuple[Array, None]:
        w, b = draw.parameters.factors(), draw.parameters.expected()
        return total + b + w @ draw.column.mean.T, None

    nothing = jnp.zeros((data.rows, data.columns), members.column.block.dtype)
    return lax.scan(one, nothing, members)[0] / DRAWS


def _gains(
    members: ensemble.Ensemble, data: Observations, pending: Array, row: Array, column: Array
) -> Array:
    """Bits that each entry tells once the pending entries, and the entries before it, are known."""
    if column.size < data.columns:  # nothing else than the columns of the entries matters
        members, data = ensemble.at_columns(members, column), data.at_columns(column)
        pending = jnp.take(pending, column, axis=1, mode="clip")
        column = (column[:, None] == column).argmax(1)  # entries of one column share the first
    members = lax.cond(
        pending.any(),
        lambda members: ensemble.expect_all(members, data, pending),
        lambda members: members,
        members,
    )

    def one(members: ensemble.Ensemble, entry: tuple[Array, Array]) -> tuple[Any, Array]:
        row, n = entry
        w = members.parameters.factors()[:, row]
        b = jax.vmap(lambda parameters: parameters.expected_at(row, n))(members.parameters)
        block = jnp.take(members.column.block, n, axis=1, mode="clip")
        foreseen = gaussian.Column((w[:, :, None] * block).sum(1))  # of this row alone
        mean, variance = b + foreseen.mean, (foreseen.covariance * w).sum(-1)
        noise = jax.vmap(lambda parameters: parameters.noise_at(n))(members.parameters) ** 2
        total = (variance + noise).mean(0) + mean.var(0)
        gained = gaussian_gain(total, jnp.exp(jnp.log(noise).mean(0)))
        return ensemble.expect(members, row, n)[0], gained / jnp.log(2.0)

    return lax.scan(one, members, (row, column))[1]


def _survey(
    belief: Belief,
    key: Array,
    fit: Any,
    data: Observations,
    is_open: Array,
    best: Array,
    offset: Array,
    factor: Array,
) -> Survey:
    """Moments of all entries, summed up draw by draw.

    Chance and improvement are those of offset + factor * entry; see `calibration.Calibrator.line`.
    """
    draws, sample_key = _forecast_draws(key, belief, fit)
    keys = jax.random.split(sample_key, DRAWS)

    def one(before: Any, numbered: tuple[Array, Array, Parameters]) -> tuple[Any, tuple]:
        (average, square, improvement), (number, key, parameters) = before, numbered
        columns, latents = gaussian.sample_columns(key, parameters, data)
        mean, variance = gaussian.entry_moments(parameters, columns)
        sample = parameters.expected() + parameters.factors() @ latents.T
        beaten = (is_open & (offset + factor * sample > best)).any()
        deviation = jnp.maximum(factor * jnp.sqrt(jnp.maximum(variance, 0.0)), 1e-6)
        z = (offset + factor * mean - best) / deviation
        excess = deviation * (z * ndtr(z) + norm.pdf(z))
        # Deviations from the mean so far (Welford 1962): a sum of squares would lose them.
        away = mean - average
        square = square + variance + away**2 * (number - 1.0) / number
        after = (average + away / number, square, improvement + excess)
        return after, (beaten, jnp.mean(parameters.noise() ** 2))

    nothing = jnp.zeros((data.rows, data.columns))
    numbers = jnp.arange(1.0, DRAWS + 1.0)
    steps = (numbers, keys, draws)
    found, (beaten, variance) = lax.scan(one, (nothing, nothing, nothing), steps)
    mean, square, improvement = found
    sd = jnp.sqrt(jnp.maximum(square, 0.0) / DRAWS)
    noise = jnp.sqrt(variance.mean())
    return Survey(mean, sd, beaten.mean(), improvement / DRAWS, noise)


def _policy(rule: str, belief: Belief, best_of: int) -> Policy:
    """The policy of a rule; IDS as the registry has it, with R* found in fewer passes."""
    if rule == "ids":
        default = POLICIES["ids"].settings
        gain = Gain(*(default[name] for name in ("scope", "gain", "bins", "chunk")))
        own = champion_rule(gain, best_of)._replace(share=optimum_of(best_of))
        return ensemble_policy(belief, own, draws=default["draws"])
    settings = {"noisy": False} if rule == "thompson" else {}
    return make_policy(rule, Setting(belief, entry_noise=False), **settings)


@functools.lru_cache(maxsize=16)
def engine(*, rank: int, fixed_noise: float | None, rule: str) -> Engine:
    """The programs of campaigns with these settings.

    Args:
      rank: K, the bound on the rank.
      fixed_noise: the known variance of a measurement in the model's units; None is learned.
      rule: one of RULES.
    """
    preset = presets.campaign(rank=rank, fixed_noise=fixed_noise)
    belief = held_draws()
    focused = _focused(belief)

    def fit(
        key: Array,
        data: Observations,
        features: Features = NONE,
        history: Observations | None = None,
    ) -> Parameters:
        init_key, refit_key, draw_key = jax.random.split(key, 3)
        fitted_model = preset._replace(features=features).belief()
        past = None if history is None else History.of(history)
        begun = fitted_model.init(init_key, data, past)
        state = fitted_model.refit(refit_key, begun, data)
        return parameter_draws(draw_key, fitted_model, state, DRAWS)

    def ask(
        key: Array,
        forecast_key: Array,
        fit: Parameters,
        data: Observations,
        columns: Array,
        is_open: Array,
        pending: Array,
        wanted: Array,
        best_of: int,
        number: int,
        terms: Terms | None = None,
    ) -> Asked:
        refit_key, choose_key = jax.random.split(key)
        policy = _policy(rule, focused, best_of)
        data, state = data.at_columns(columns), Focused(fit, columns)
        # Named columns are summarised once, when the pending entries are known; others twice.
        offer = Offer(jnp.arange(columns.size), is_open, jnp.ones(is_open.shape))
        seen, own, settled = data, state, None
        if terms is not None:  # to the policy the zero of values is what is worth nothing
            settled = terms.settled(_average(forecast_key, focused, state, data), is_open)
            offer = settled.offer(offer)
            seen = data.relative_to(settled.zero)
            own = Focused(fit._replace(intercepts=fit.intercepts - settled.zero), columns)
        begun = policy.init(refit_key, seen, offer, own)
        fitted = policy.refit(refit_key, begun, seen, offer)
        choice = choose_several(choose_key, policy, fitted, seen, offer, pending, number)
        known = (data, is_open, pending, wanted, choice, settled)
        return _describe(forecast_key, focused, state, *known)

    mixture = predictor(belief)

    def predict(
        key: Array, fit: Parameters, data: Observations, rows: Array, columns: Array
    ) -> Predicted:
        parameter_key, _ = jax.random.split(key)  # as `_forecast_draws` has it
        found = mixture(parameter_key, fit, data, rows, columns, DRAWS)
        return summary(found, jnp.asarray(LEVELS), noise=True)

    return Engine(
        rule=rule,
        fit=jax.jit(fit),
        ask=jax.jit(ask, static_argnums=(8, 9)),
        predict=jax.jit(predict),
        survey=jax.jit(functools.partial(_survey, belief)),
    )
