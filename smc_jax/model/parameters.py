"""The parameters of the model, each with its prior and its map to the real line."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax import Array

# On this range products of two exponentials (w^2, sigma^2, gamma r) stay normal float32 numbers.
LOG_RANGE = 40.0
# What each column has of its own, columns first, in the fields of `Parameters` that have axes.
OF_COLUMNS = ("noise_scales", "latent_means", "prediction")


Known = Any  # an Array, or None in models without what it is about


class Parameters(NamedTuple):
    """One draw of the parameters, or their image on the real line.

    On the real line a field is None where the model holds it fixed.
    """

    loadings: Array  # [D, K]  W
    strengths: Array  # [K]  r
    gamma: Array  # []
    gamma0: Array  # []
    c0: Array  # []
    sigma: Array  # []  noise standard deviation
    intercepts: Array  # [D]  b, zeros where the model has none
    noise_scales: Array  # [N]  of each column's noise, in sigmas; [] one where it is the same
    latent_means: Array  # [N, K + M]  p, of the latents a priori; [] zero where they have none
    intercept_scale: Array  # []  the standard deviation of an intercept a priori
    offsets: Array  # [M]  what the rows load alike on the offsets of columns; M is 0 or 1
    # What a prediction from elsewhere adds to the entries; None where there is none.
    prediction_weight: Known = None  # []  a
    prediction: Known = None  # [N, D]
    # What features weigh, where weights are drawn with the other parameters; see `informed`.
    row_weights: Known = None  # [M, K]  B
    row_relevance: Known = None  # []  the variance of what row features weigh
    column_weights: Known = None  # [Q, K + M]  B_c
    column_relevance: Known = None  # []
    # Who answers, and what was refused, where answers depend on values: see `model.answers`.
    answers: Known = None

    def factors(self) -> Array:
        """All loadings [..., D, K + M]: W, and those that are alike in all rows."""
        size = *self.loadings.shape[:-1], self.offsets.shape[-1]
        alike = jnp.broadcast_to(self.offsets[..., None, :], size)
        return jnp.concatenate([self.loadings, alike], axis=-1)

    def expected(self) -> Array:
        """What entries are apart from their factors: b_d + a prediction_dn [D, N], or b [D, 1]."""
        b = self.intercepts[:, None]
        if self.prediction is None:
            return b
        return b + self.prediction_weight * self.prediction.T

    def expected_at(self, row: Array, column: Array) -> Array:
        """The same of some entries, by rows and columns of one shape."""
        b = self.intercepts[row]
        if self.prediction is None:
            return b
        return b + self.prediction_weight * self.prediction[column, row]

    def expected_of(self, column: Array) -> Array:
        """The same of one column [D]."""
        if self.prediction is None:
            return self.intercepts
        own = jnp.take(self.prediction, column, axis=0, mode="clip")
        return self.intercepts + self.prediction_weight * own

    def noise(self) -> Array:
        """Standard deviation of the noise in each column [N], or [] in all of them."""
        return self.sigma * self.noise_scales

    def noise_at(self, column: Array) -> Array:
        """Standard deviation [] of the noise in one column."""
        noise = self.noise()
        return jnp.take(noise, column, mode="clip") if noise.ndim else noise

    def at_columns(self, columns: Array) -> "Parameters":
        """The parameters of the matrix of some columns [C] alone."""
        return self.with_columns(lambda x: jnp.take(x, columns, axis=0, mode="clip"))

    def with_columns(self, change: Callable[[Array], Array]) -> "Parameters":
        """The same with what columns [N, ...] have of their own changed."""
        each = {name: getattr(self, name) for name in OF_COLUMNS}
        own = {name: x for name, x in each.items() if x is not None and jnp.ndim(x)}
        changed = {name: change(x) for name, x in own.items()}
        if self.answers is not None:
            changed["answers"] = self.answers.with_columns(change)
        return self._replace(**changed)

    def in_units(self, centre: Array, scale: Array) -> "Parameters":
        """The parameters of centre + scale times the matrix."""
        weight = self.prediction_weight
        return self._replace(
            prediction_weight=None if weight is None else scale * weight,
            loadings=scale * self.loadings,
            strengths=scale * self.strengths,
            sigma=scale * self.sigma,
            intercepts=centre + scale * self.intercepts,
            intercept_scale=scale * self.intercept_scale,
            offsets=scale * self.offsets,
            answers=None if self.answers is None else self.answers.in_units(centre, scale),
        )

    @classmethod
    def plain(cls, loadings: Array, sigma: Array, intercepts: Array | None = None) -> "Parameters":
        """W, sigma and b of a model without the hyperparameters, which are ones."""
        rows, k = loadings.shape
        needed = (name for name in cls._fields if name not in cls._field_defaults)
        ones = dict.fromkeys(needed, jnp.ones((), loadings.dtype))
        b = jnp.zeros(rows, loadings.dtype) if intercepts is None else intercepts
        own = {"loadings": loadings, "sigma": sigma, "intercepts": b}
        none = {"latent_means": (), "offsets": 0}
        own |= {name: jnp.zeros(size, loadings.dtype) for name, size in none.items()}
        return cls(**ones | own | {"strengths": jnp.ones(k, loadings.dtype)})


class Bijector(NamedTuple):
    """A map from the real line onto the range of a parameter."""

    forward: Callable[[Array], Array]
    inverse: Callable[[Array], Array]
    log_volume: Callable[[Array], Array]  # log |d forward(u) / du|, summed, within the range


def _clipped(log_value: Array) -> Array:
    return jnp.clip(log_value, -LOG_RANGE, LOG_RANGE)


# Outside the range the value stays as it is, and the density falls by e for each unit beyond: were
# it flat there, a chain that has left the range would walk off and never return.
POSITIVE = Bijector(
    forward=lambda u: jnp.exp(_clipped(u)),
    inverse=lambda value: jnp.log(jnp.maximum(value, jnp.exp(-LOG_RANGE))),
    log_volume=lambda u: (_clipped(u) - jnp.abs(u - _clipped(u))).sum(),
)
REAL = Bijector(lambda u: u, lambda value: value, lambda u: jnp.zeros(()))


def below(limit: float) -> Bijector:
    """From the real line onto the numbers between 0 and a limit: limit / (1 + exp(-u))."""

    def inverse(value: Array) -> Array:
        part = jnp.clip(value / limit, jnp.exp(-LOG_RANGE), 0.99)  # a start may lie beyond
        return jnp.log(part) - jnp.log1p(-part)

    def log_volume(u: Array) -> Array:
        return (jnp.log(limit) + jax.nn.log_sigmoid(u) + jax.nn.log_sigmoid(-u)).sum()

    return Bijector(lambda u: limit * jax.nn.sigmoid(u), inverse, log_volume)


class Field(NamedTuple):
    """One parameter: everything that the model knows of it."""

    bijector: Bijector
    log_prob: Callable[[Parameters], Array]  # of this field, given the others
    sample: Callable[[Array, Parameters, int, int], Array]  # (key, others, rows, columns)
    shape: Callable[[Parameters], Array] | None = None  # of a gamma prior: see `log_tail`


def log_tail(u: Array, shape: Array) -> Array:
    """What is missing of a gamma prior's log density [] below the range of numbers.

    log x has the density e^(shape u) there, and `POSITIVE.log_volume` falls with a slope of one.
    For small shapes most of the prior lies there.
    """
    return ((shape - 1.0) * jnp.minimum(u + LOG_RANGE, 0.0)).sum()


Layer = dict[str, Field]  # by name; a field depends on those behind it, and on earlier layers


def field(
    bijector: Bijector,
    name: str,
    prior: Callable[[Parameters], dist.Distribution],
    shape: Callable[[int, int], tuple[int, ...]] = lambda rows, columns: (),
) -> Field:
    """A parameter whose elements are independent draws of a prior, which may depend on others."""

    def sample(key: Array, others: Parameters, rows: int, columns: int) -> Array:
        return prior(others).sample(key, shape(rows, columns))

    return Field(bijector, lambda p: prior(p).log_prob(getattr(p, name)).sum(), sample)
