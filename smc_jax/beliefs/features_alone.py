"""Loadings that are what the features of the rows say, and nothing more."""

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from smc_jax.algebra.symmetric import solve, upper_triangle
from smc_jax.beliefs.signed_conditionals import Prior, State
from smc_jax.looks import Seen


def sample_rows_alone(
    key: Array, state: State, data: Seen, prior: Prior, features: ArrayLike
) -> State:
    """Draws of v, c and the weights in w_d = v + B'f_d and b_d = c + B_b'f_d, and so of W and b.

    The constant and the coordinates of the rows take turns: given the others, what one of them
    weighs is the latent column of a factor model, and drawn exactly. Since coordinates are
    orthogonal, turns say little of each other where all rows are seen alike.

    Args:
      key: randomness.
      state: of the chain; its weights are B and B_b [M, K + 1], of relevance one.
      data: what was seen, without what a prediction from elsewhere says.
      prior: of the model.
      features: F [D, M].
    """
    given, k = state.parameters, state.shared.size
    assert state.row_weights is not None
    x, offsets = state.latents[:, :k], state.latents[:, k:] @ given.offsets
    noise = jnp.broadcast_to(given.noise(), (data.columns,))
    scale, constant, reach = given.strengths, state.shared, jnp.full(k, prior.common**0.5)
    if prior.intercepts:
        x = jnp.concatenate([x, jnp.ones_like(x[:, :1])], axis=1)
        scale = jnp.append(scale, given.intercept_scale)
        constant = jnp.append(constant, given.intercepts.mean())
        reach = jnp.append(reach, 1.0)
    f = jnp.asarray(features, x.dtype)
    f = jnp.concatenate([jnp.ones_like(f[:, :1]), f], axis=1)
    weights = jnp.concatenate([constant[None], state.row_weights.weights])
    reaches = jnp.ones_like(weights).at[0].set(reach)  # a weight is scale * reach * z
    z = jnp.where(reaches > 0.0, weights / (scale * jnp.where(reaches > 0.0, reaches, 1.0)), 0.0)

    design = x * scale / noise[:, None]
    one, nothing = jnp.ones((), x.dtype), jnp.zeros((1, 0), x.dtype)
    known = {"rows": jnp.zeros(1, x.dtype), "columns": offsets, "scale": noise}
    scaled = data.less(nothing, x[:, :0], **known).transposed()
    (i, j), position = upper_triangle(scale.size)
    products = scaled.gram(design, one)  # [L (L + 1) / 2, D]
    field = scaled.field(design, jnp.zeros(data.columns, x.dtype), one)  # [L, D]
    squared = products.T[:, position]  # [D, L, L]

    def turn(made: Array, own: tuple[Array, ...]) -> tuple[Array, Array]:
        """Of one coordinate; `made` [D, L] is what all of them make together."""
        f, reach, z, normals = own
        others = made - jnp.outer(f, reach * z)
        left = field - jnp.einsum("dkl,dl->kd", squared, others)
        precision = jnp.where(i == j, 1.0, 0.0) + reach[i] * reach[j] * (products @ f**2)
        solved = solve(precision[:, None], (reach * (left @ f))[:, None], normals[:, None])
        z = (solved.solution + solved.draw)[:, 0]
        return others + jnp.outer(f, reach * z), z

    normals = jax.random.normal(key, z.shape, x.dtype)
    _, z = lax.scan(turn, f @ (reaches * z), (f.T, reaches, z, normals))
    weights = scale * reaches * z
    made = f @ weights
    found = given._replace(loadings=made[:, :k])
    if prior.intercepts:
        found = found._replace(intercepts=made[:, k])
    own = state.row_weights._replace(weights=weights[1:])
    return state._replace(parameters=found, shared=weights[0, :k], row_weights=own)
