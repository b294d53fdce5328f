"""The posterior of the model with signed loadings by Gibbs sampling."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from smc_jax.beliefs.base import Belief, Diagnostics, earlier_or, several_of, stored_belief
from smc_jax.beliefs.feature_weights import Weights, check_features
from smc_jax.beliefs.features_alone import sample_rows_alone
from smc_jax.beliefs.history import heeding_history
from smc_jax.beliefs.prediction_weight import sample_prediction_weight
from smc_jax.beliefs.signed_conditionals import (
    NONE,
    Prior,
    State,
    sample_features,
    sample_intercept_scale,
    sample_noise,
    sample_process,
    sample_rows,
    sample_shared,
    shift_loadings,
)
from smc_jax.beliefs.starts import Start
from smc_jax.checks import at_least
from smc_jax.looks import Seen
from smc_jax.model import gaussian
from smc_jax.model.answers import Answers, sample_answers
from smc_jax.model.features import Features
from smc_jax.model.gamma_process import Model
from smc_jax.model.parameters import Parameters


class Chains(NamedTuple):
    """Where C chains stand, and the draws they stored at the last refit."""

    states: State  # leading axis C
    draws: Parameters  # leading axis S
    refits: Array  # [] int


def sweep(key: Array, state: State, data: Seen, prior: Prior, features: Features = NONE) -> State:
    """X, then W and b, what rows share, the weights, the scales and the noise, each given all.

    Before all, who answers and the values that were refused, which are data to the rest of the
    sweep; and what a prediction from elsewhere weighs, with X left out.
    """
    keys = jax.random.split(key, 8)
    if state.parameters.answers is not None:
        given, own = state.parameters, jax.random.fold_in(key, len(keys) + 1)
        mean = given.expected() + given.factors() @ state.latents.T
        answers = sample_answers(own, given.answers, mean, given.noise(), data)
        state, data = (
            state._replace(parameters=given._replace(answers=answers)),
            answers.filled(data),
        )
    if features.entries is not None:
        own = jax.random.fold_in(key, len(keys))
        weighed = sample_prediction_weight(own, state.parameters, data)
        state, data = state._replace(parameters=weighed), gaussian.beyond_prediction(weighed, data)
    bare = state.parameters._replace(prediction=None)
    state = state._replace(latents=gaussian.sample_columns(keys[0], bare, data)[1])
    if prior.residual:
        state = sample_rows(keys[1], state, data, prior, features)
    else:
        assert features.rows is not None
        state = sample_rows_alone(keys[1], state, data, prior, features.rows)
    if prior.common > 0.0 and prior.residual:
        state = sample_shared(keys[2], state, prior, features)
    if prior.common > 0.0 or prior.offsets:
        state = shift_loadings(keys[3], state, data, prior)
    state = sample_features(keys[6], state, prior, features)
    if prior.learned_scale:
        state = sample_intercept_scale(keys[7], state, prior, features)
    state = sample_process(keys[4], state, prior, features)
    return sample_noise(keys[5], state, data, prior)


def begin(
    key: Array,
    data: Seen,
    model: Model,
    start: Start,
    prior: Prior,
    features: Features,
) -> State:
    """The first state of a chain: parameters where they start, latents and weights at zero."""
    parameters = model.constrain(start(key, data))
    shared = parameters.loadings.mean(0) if prior.common > 0.0 else jnp.zeros(model.rank)
    latents = jnp.zeros((data.columns, model.rank + prior.offsets))
    moved = model.rank + prior.intercepts, model.rank + prior.offsets
    known = zip((features.rows, features.columns), moved, strict=True)
    rows, columns = (x if x is None else Weights.none(x, number) for x, number in known)
    if columns is not None:
        parameters = parameters._replace(latent_means=latents)
    if features.entries is not None:
        prediction = jnp.asarray(features.entries, latents.dtype).T
        parameters = parameters._replace(
            prediction_weight=jnp.zeros((), latents.dtype), prediction=prediction
        )
    return State(parameters, shared, latents, rows, columns)


def _with_answers(states: State, data: Seen, chains: int) -> State:
    """The chains with who answers beside their parameters."""
    if not data.counts_refusals:
        raise ValueError(
            "learn_value_slope: needs data that count refusals, which a history does not;"
            " set it to False, or count them with Observations.with_refusals"
        )
    start = Answers.start(data)
    answers = jax.tree.map(lambda x: jnp.broadcast_to(x, (chains, *x.shape)), start)
    return states._replace(parameters=states.parameters._replace(answers=answers))


def signed_gibbs(
    model: Model,
    start: Start,
    features: Features = NONE,
    *,
    chains: int = 1,
    draws: int = 16,
    sweeps: int = 6,
    first_sweeps: int = 200,
    learn_value_slope: bool = False,
) -> Belief:
    """The posterior by chains that go on from refit to refit.

    Earlier `Chains` of a matrix of the same size may be given as the prior: they go on. What was
    learned of other columns is handed over as their `History`: factors change places and signs from
    one stored draw to the next, and no normal per row would hold what the draws say together.

    Args:
      model: the prior of the parameters, with signed loadings.
      start: where the parameters of each chain start.
      features: what is known of rows and columns beforehand.
      chains: C, how many chains go side by side.
      draws: S, the draws stored at each refit, a multiple of C.
      sweeps: Gibbs sweeps of a chain before each draw that it stores.
      first_sweeps: Gibbs sweeps of a chain before the first draw of the first refit.
      learn_value_slope: whether who answers is learned too, with a probability of an answer that
        depends on the value: what was refused is then not missing at random.
    """
    at_least("chains", chains, 1)
    at_least("sweeps", sweeps, 1)
    at_least("first_sweeps", first_sweeps, 0)
    several_of(draws, chains)
    if not model.signed:
        raise ValueError("model: its loadings must be signed for Gibbs sampling")
    settings = Prior.of(model)
    if not settings.residual and features.rows is None:
        raise ValueError("model.residual: False needs features of the rows")

    def init(key: Array, data: Seen, prior: Chains | None = None) -> Chains:
        check_features(features, data)
        keys = jax.random.split(key, chains)
        states = jax.vmap(lambda key: begin(key, data, model, start, settings, features))(keys)
        if learn_value_slope:
            states = _with_answers(states, data, chains)
        repeats = draws // chains
        stored = jax.tree.map(lambda x: jnp.concatenate([x] * repeats), states.parameters)
        begun = Chains(states, stored, jnp.zeros((), int))
        return earlier_or(begun, prior, "Gibbs")

    def refit(key: Array, state: Chains, data: Seen) -> Chains:
        first = jnp.where(state.refits == 0, first_sweeps, 0)

        def one(key: Array, state: State) -> tuple[State, Parameters]:
            def move(index: Array, state: State) -> State:
                return sweep(jax.random.fold_in(key, index), state, data, settings, features)

            def store(state: State, begin: Array) -> tuple[State, Parameters]:
                state = lax.fori_loop(begin, begin + sweeps, move, state)
                return state, state.parameters

            begins = first + sweeps * jnp.arange(draws // chains)
            return lax.scan(store, lax.fori_loop(0, first, move, state), begins)

        keys = jax.random.split(key, chains)
        states, stored = jax.vmap(one)(keys, state.states)
        stored = jax.tree.map(lambda x: x.reshape(draws, *x.shape[2:]), stored)
        return Chains(states, stored, state.refits + 1)

    def beside(table: ArrayLike | None, number: int) -> Belief:
        lengths = {"chains": chains, "draws": draws}
        lengths |= {"sweeps": sweeps, "first_sweeps": first_sweeps}
        known = features.beside(table, number)
        return signed_gibbs(model, start, known, learn_value_slope=learn_value_slope, **lengths)

    belief = stored_belief(init, refit, lambda state: Diagnostics.of_draws(state.draws))
    belief = belief._replace(beside=beside, learns_answers=learn_value_slope)
    return heeding_history(belief)
