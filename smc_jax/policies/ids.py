"""Information-Directed Sampling: least expected regret squared per bit about the best entry."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from smc_jax.algebra.batching import mapped
from smc_jax.algebra.extremes import mean_of_largest
from smc_jax.beliefs.base import Belief
from smc_jax.checks import at_least, one_of
from smc_jax.policies import ensemble, information
from smc_jax.policies.base import Best, Policy, unless_broken
from smc_jax.policies.ensemble_policy import ColumnView, Rule
from smc_jax.policies.rewards import Offered, averaged, expected_gain, expected_reward
from smc_jax.policies.screened import on_ensemble
from smc_jax.types import Choice, Offer

SCOPES = ("matrix", "covariance")
GAINS = ("gaussian", "histogram", "variance")
SELECTIONS = ("deterministic", "two_action")


class Moments(NamedTuple):
    """What is left to know of an entry once theta is known."""

    mean: Array  # [S, D, C]
    variance: Array | tuple  # [S, D, C]; nothing where the gain is that of the means


class Told(NamedTuple):
    """What draws say of answers that depend on values, on average."""

    chance: Array  # [D, C]  P(answer)
    collected: Array  # [D, C]  the value of an answer, zero where none comes


class Scores(NamedTuple):
    """Summary over the draws; for one column without the last axis."""

    mean: Array  # [D, C]  mean over draws of the entry's mean
    gain: Array  # [D, C]  its gain if that is gaussian, else an upper bound
    given_theta: Moments | tuple  # nothing where the gain is gaussian
    favourite: Best | tuple  # [S, C]  each draw's best of the column; nothing if gaussian
    told: Told | None = None  # where draws say that answers depend on values


class Champions(NamedTuple):
    """The two entries of each column that can be the choice over all of them."""

    directed: Best  # of minus the information ratio
    greedy: Best  # of the reward

    @classmethod
    def of_column(cls, reward: Array, gain: Array, available: Array, optimum: Array) -> "Champions":
        """The champions of rewards and gains [D] of one column, with regret measured from R*."""
        ratio = information.information_ratio(optimum - reward, gain)
        ratio = jnp.where(jnp.isnan(gain), jnp.nan, ratio)
        return cls(Best.of_column(-ratio, available), Best.of_column(reward, available))

    def choice(self, optimum: Array) -> Choice:
        """The choice that `information.deterministic_choice` makes of all entries.

        An entry whose reward is above R* is without regret, and picked; so is the best one where
        nothing at a loss teaches anything.
        """
        directed, greedy = self
        sure = (greedy.score.max() >= optimum) | jnp.isneginf(directed.score.max())
        choice = jax.tree.map(
            lambda one, other: jnp.where(sure, one, other), greedy.choice(), directed.choice()
        )
        return unless_broken(choice, directed.score + greedy.score + optimum)


class Gain(NamedTuple):
    """How the information of an entry is measured: what theta is, and what is learned of it."""

    scope: str
    kind: str
    bins: int
    chunk: int

    def known(self, prediction: ensemble.Prediction) -> Array:
        """Mean of an entry once theta is known.

        `matrix`: theta = (W, sigma, X). `covariance`: theta = (W, sigma).
        """
        return prediction.sample if self.scope == "matrix" else prediction.mean

    def left(self, noise: Array, prediction: ensemble.Prediction) -> Array:
        """Variance of an entry once theta is known: of a known matrix, the noise [S, 1] alone."""
        return noise**2 if self.scope == "matrix" else noise**2 + prediction.variance

    def scores(self, column: ColumnView) -> Scores:
        """The scores of one column, with the gain itself if it is gaussian, else a bound on it."""
        prediction, noise = column.prediction, column.noise[:, None]
        left = self.left(noise, prediction)
        conditional = jnp.exp(jnp.log(left).mean(0))  # geometric mean over the draws
        mean, told = prediction.mean.mean(0), None
        if column.answers is not None:
            normal = prediction.mean, prediction.variance + noise**2
            each = column.answers.chance(*normal), column.answers.collected(*normal)
            told = Told(*(averaged(column, x) for x in each))
        if self.kind == "gaussian":
            total = (prediction.variance + noise**2).mean(0) + prediction.mean.var(0)
            gain = information.gaussian_gain(total, conditional)
            return Scores(mean, gain, (), (), told)
        known = self.known(prediction)
        between = known.var(0)
        if self.kind == "variance":  # that of the means given A* is a part of it
            bound, moments = between, Moments(known, ())
        else:  # the gaussian gain of the mixture of the draws
            bound = information.gaussian_gain(left.mean(0) + between, conditional)
            moments = Moments(known, jnp.broadcast_to(left, known.shape))
        best_of_column = jax.vmap(Best.of_column, in_axes=(0, None))
        reward = expected_reward(column, known, column.answers, left)
        favourite = best_of_column(reward, column.open)
        return Scores(mean, bound, moments, favourite, told)

    def best_entries(self, scores: Scores) -> Array:
        """Each draw's best open entry [S], numbered row by row within the offer."""
        assert isinstance(scores.favourite, Best)
        choice = jax.vmap(Best.choice)(scores.favourite)
        return choice.row * scores.mean.shape[1] + choice.column

    def at(self, scores: Scores, best: Array, index: Array | slice) -> Array:
        """Information gains of some entries, numbered row by row within the offer."""

        def of(moment: Array) -> Array:
            return moment.reshape(len(moment), -1)[:, index]

        assert isinstance(scores.given_theta, Moments)
        mean, variance = scores.given_theta
        if self.kind == "variance":
            return information.variance_gain(of(mean), best)
        assert not isinstance(variance, tuple)
        scale = jnp.sqrt(of(variance))
        return information.histogram_gain(of(mean), scale, best, bins=self.bins, chunk=self.chunk)

    def everywhere(self, scores: Scores) -> Array:
        """Information gain [D, C] of every entry."""
        if self.kind == "gaussian":
            return scores.gain
        best = self.best_entries(scores)
        return self.at(scores, best, slice(None)).reshape(scores.gain.shape)

    def pruned_choice(self, scores: Scores, regret: Array, offer: Offer) -> Array:
        """The entry of the least ratio; gains are found only where they can be it."""
        best = self.best_entries(scores)
        entropy = information.entropy_of_best(best)
        bound = jnp.where((offer.factor > 0) & (entropy > 0), scores.gain, 0.0)
        if self.kind == "histogram":
            bound = jnp.minimum(bound, entropy)
        bound = expected_gain(offer, bound).ravel()
        unit = bound.max() if self.kind == "variance" else 1.0  # that of the data, or nats

        def gains(index: Array) -> Array:
            found = self.at(scores, best, index)
            return found if offer.chance is None else offer.chance.ravel()[index] * found

        return information.pruned_choice(
            regret,
            bound,
            offer.open.ravel(),
            gains,
            rounding=1e-5 * unit,
        ).choice


def _with_chance(offered: Any, scores: Scores) -> Any:
    """The offer, or one column of it, with the chances that the draws say."""
    return offered if scores.told is None else offered._replace(chance=scores.told.chance)


def scored_reward(offered: Offered, scores: Scores) -> Array:
    """The expected reward [D, C] of what was scored."""
    if scores.told is None:
        return expected_reward(offered, scores.mean)
    return offered.factor * scores.told.collected


def optimum_rule(gain: Gain, best_of: int) -> Any:
    """R* []: the mean over draws of the average of the best entries of each."""

    def optimum(key: Array, members: ensemble.Ensemble, offer: Offer, part: float) -> Array:
        del key
        # Of an offer of some columns, their share of the picks to come.
        number = best_of if part == 1.0 else max(round(part * best_of), 1)

        def one(draw: ensemble.Ensemble) -> Array:
            prediction, given = ensemble.predict_one(draw), draw.parameters
            answers = None if given.answers is None else given.answers.answering()
            known = gain.known(prediction)
            reward = expected_reward(offer, known, answers, gain.left(given.noise(), prediction))
            return mean_of_largest(jnp.where(offer.open, reward, -jnp.inf), number)

        return mapped(one, members, on_cpu=1).mean()  # one after another: each is a matrix

    return optimum


def champion_rule(gain: Gain, best_of: int) -> Rule:
    """The least ratio of the gaussian gain: two entries of each column can be the choice."""

    def summarise(column: ColumnView) -> Champions:
        scores = gain.scores(column)
        gained = expected_gain(_with_chance(column, scores), scores.gain)
        gained = jnp.where(column.factor > 0, gained, 0.0)  # a hidden value says nothing
        reward = scored_reward(column, scores)
        return Champions.of_column(reward, gained, column.open, column.shared)

    def choose(key: Array, summary: Champions, optimum: Array, offer: Offer) -> Choice:
        del key, offer
        return summary.choice(optimum)

    optimum = optimum_rule(gain, best_of)
    rule = Rule(summarise, choose, optimum)
    if gain.scope != "matrix":  # what is left once theta is known rises with the variance: no hope
        return rule
    return rule._replace(hope=lambda summary: summary.directed.score)


def score_rule(gain: Gain, best_of: int, *, selection: str, conditioned: bool) -> Rule:
    """Any gain and selection, from the scores of all entries."""

    def choose(key: Array, scores: Scores, optimum: Array, offer: Offer) -> Choice:
        reward = scored_reward(offer, scores)
        told = _with_chance(offer, scores)
        attainable = jnp.where(offer.open, reward, -jnp.inf).max()
        # An entry may beat the average of the best ones: it is then without regret, and picked.
        regret = (jnp.maximum(optimum, attainable) - reward).ravel()
        gained = scores.gain
        if gain.kind != "gaussian" and conditioned and selection == "deterministic":
            number = gain.pruned_choice(scores, regret, told)
        else:
            gained = gain.everywhere(scores) if conditioned else gained
            gained = expected_gain(told, gained)
            gained = jnp.where(offer.factor > 0, gained, 0.0)
            arrays = (regret, gained.ravel(), offer.open.ravel())
            if selection == "two_action":
                number = information.two_action_choice(key, *arrays)
            else:
                number = information.deterministic_choice(*arrays)
        choice = Choice(*jnp.divmod(number, offer.open.shape[1]))
        return unless_broken(choice, regret + gained.ravel())

    def freeze(scores: Scores, offer: Offer) -> Scores:
        del offer
        return scores._replace(gain=gain.everywhere(scores))

    optimum = optimum_rule(gain, best_of)
    return Rule(gain.scores, choose, optimum, freeze, conditioned, every_entry=True)


def ids(
    belief: Belief,
    *,
    draws: int = 16,
    scope: str = "matrix",
    gain: str = "gaussian",
    selection: str = "deterministic",
    conditioned: bool = True,
    best_of: int = 1,
    bins: int = 32,
    chunk: int = 1024,
    kept: int | None = None,
) -> Policy:
    """IDS over S parameter draws.

    Args:
      belief: where the draws come from.
      draws: S, the number of parameter draws, taken anew at each refit.
      scope: what theta is: `matrix` (W, sigma, X), or `covariance` (W, sigma) as in the paper.
      gain: what is learned: `gaussian`, `histogram` (Alg. 3) or `variance`.
      selection: `deterministic` (the paper) or `two_action` (Russo & Van Roy).
      conditioned: whether draws are conditioned on every pick; if not, the ratio is frozen for the
        batch (the paper).
      best_of: how many entries R* averages. R*, which the regret of an entry is measured from, is
        the mean over draws of the average of each draw's best open entries, found at the refit, or
        at the choice where the offer names its columns. One
        is for a best action that can be taken again and again; where each entry is taken once, the
        picks to come share out the best ones, and the more of these are averaged, the less is
        explored. An entry whose mean is above R* is without regret, and picked.
      bins: the bins of the histogram gain.
      chunk: entries whose histograms are held at once.
      kept: how many columns have their latent posteriors kept between two refits, where there are
        too many for all; None keeps all. It needs the gaussian gain and the scope `matrix`. Where
        there are more than 512 columns R* is found from 512 of them, so that `best_of` should be at
        least N / 512; else choices are the same. Pending entries are closed, and what they will
        teach is not left out. See `policies/screened.py`.
    """
    one_of("scope", scope, SCOPES)
    one_of("gain", gain, GAINS)
    one_of("selection", selection, SELECTIONS)
    at_least("best_of", best_of, 1)
    at_least("bins", bins, 2)
    at_least("chunk", chunk, 1)
    measure = Gain(scope, gain, bins, chunk)
    if gain == "gaussian" and selection == "deterministic" and conditioned:
        rule = champion_rule(measure, best_of)
    else:
        rule = score_rule(measure, best_of, selection=selection, conditioned=conditioned)
    return on_ensemble(belief, rule, draws=draws, kept=kept)
