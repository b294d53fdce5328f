# ---
# jupyter:
#   jupytext:
#     formats: py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A tour of smc_jax
#
# A matrix is half known: users and items, drugs and targets. Which entries should be tried next,
# so that the best ones are found early? This page
#
# 1. makes a small matrix of rank 3 and shows a quarter of it,
# 2. fits the gamma process factor model to what was seen,
# 3. looks at the posterior: mean, standard deviation, number of factors,
# 4. draws the information ratio, by which Information-Directed Sampling chooses,
# 5. writes a new policy in ten lines, and compares it with the others.
#
# Everything is a pure function of a key. `import launch` comes first: it sets up threads, devices
# and the compilation cache, which must happen before NumPy and JAX are imported.

# %%
import launch  # noqa: F401

# isort: split
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm

from smc_jax import beliefs, ensemble, inference, information, start
from smc_jax.data.synthetic import synthetic
from smc_jax.loop import make_loop
from smc_jax.model import gamma_process
from smc_jax.policies import POLICIES, Setting
from smc_jax.policies.base import Best, best_available
from smc_jax.policies.live import live
from smc_jax.sweep import curves, make_sweep
from smc_jax.types import Observations, Outcome


def show(figure, name):
    """Shows a picture, or saves it in the folder that SMC_FIGURES names."""
    if "SMC_FIGURES" in os.environ:
        figure.savefig(Path(os.environ["SMC_FIGURES"]) / f"{name}.png", dpi=120)
        plt.close(figure)
    else:
        plt.show()


# %% [markdown]
# ## 1. A matrix, and what is seen of it
#
# $D = 30$ rows and $N = 60$ columns. Each column is a draw from $N(0, W W' + \sigma^2 I)$, where
# $W$ is $30 \times 3$. `synthetic` returns a function from a key to such a matrix. A quarter of
# the entries is seen.

# %%
ROWS, COLUMNS, TRUE_RANK, RANK = 30, 60, 3, 8

make_problem = synthetic(rows=ROWS, columns=COLUMNS, true_rank=TRUE_RANK, noise_variance=0.1)
matrix_key, mask_key, start_key, fit_key, draw_key, latent_key, noise_key = jax.random.split(
    jax.random.key(1000), 7
)
problem = make_problem(matrix_key)
seen = jax.random.bernoulli(mask_key, 0.25, (ROWS, COLUMNS))
observations = Observations.from_matrix(problem.entries, seen)
print(f"{int(seen.sum())} of {seen.size} entries are seen")

# %% [markdown]
# ## 2. The model and its fit
#
# The prior $W_{dk} \sim G(\gamma r_k, \gamma)$, $r_k \sim G(\gamma_0/K, c_0)$ has room for
# $K = 8$ factors and switches off those it does not need. `svi` maximises the ELBO over independent
# log-normals. `trace` runs it in stretches of 50 steps and keeps the mean ELBO of each.

# %%
model = gamma_process(rank=RANK)
svi = inference.svi(model=model, optimiser=inference.adam())
first = svi.init(start.spectral(model)(start_key, observations))
fit, bounds = jax.jit(
    lambda key, fit: inference.trace(key, fit, observations, inference=svi, steps=50, runs=40)
)(fit_key, first)
print(f"ELBO {float(bounds[0]):.0f} after 50 steps, {float(bounds[-1]):.0f} after 2000")

# %%
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
axes.plot(50 * np.arange(1, bounds.size + 1), bounds, marker=".", color="#0072B2")
axes.set(xlabel="steps", ylabel="ELBO", title="The fit has converged when the ELBO stays level")
axes.grid(alpha=0.25)
show(figure, "elbo")

# %% [markdown]
# ## 3. The posterior
#
# `beliefs.draws` takes parameter draws from the fitted $q$; `ensemble.start` conditions the
# columns on the data under each of them. `ensemble.predict` then tells what every draw says of
# every entry: a mean, a variance and one sample, all $[S, D, N]$. By the law of total variance,
# the posterior variance of an entry is the mean of the variances plus the variance of the means.

# %%
DRAWS = 64

belief = beliefs.variational(model, start.spectral(model), svi, first_steps=500, steps=100)
parameters = beliefs.draws(draw_key, belief, fit, DRAWS)
members = ensemble.start(latent_key, parameters, observations)
prediction = ensemble.predict(members)

mean = prediction.mean.mean(0)
variance = prediction.variance.mean(0) + prediction.mean.var(0)
deviation = jnp.sqrt(variance)
error = jnp.sqrt(jnp.mean((mean - problem.entries) ** 2, where=~seen))
scale = jnp.std(problem.entries, where=~seen)
print(f"unseen entries: standard deviation {scale:.2f}, error of the posterior mean {error:.2f}")

# %%
limit = float(jnp.abs(problem.entries).max())
signed = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
pictures = {
    "seen (grey: not seen)": (np.where(seen, problem.entries, np.nan), signed),
    "true": (problem.entries, signed),
    "posterior mean": (mean, signed),
    "posterior standard deviation": (deviation, {"cmap": "viridis", "vmin": 0.0}),
}
figure, grid = plt.subplots(2, 2, figsize=(10, 6), layout="constrained", sharex=True, sharey=True)
for axes, (title, (values, style)) in zip(grid.flat, pictures.items(), strict=True):
    axes.set_facecolor("0.85")
    image = axes.imshow(values, aspect="auto", interpolation="nearest", **style)
    figure.colorbar(image, ax=axes)
    axes.set_title(title)
for axes in grid[1]:
    axes.set_xlabel("column n")
for axes in grid[:, 0]:
    axes.set_ylabel("row d")
show(figure, "matrices")

# %% [markdown]
# How many factors did it find? The effective rank counts the columns of $W$ whose mean squared
# norm is at least 5 % of the largest one's.

# %%
norms = np.sort((parameters.loadings**2).sum(1).mean(0))[::-1]
rank = int(inference.effective_rank(fit.q))
figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
colours = rank * ["#0072B2"] + (RANK - rank) * ["0.75"]
axes.bar(np.arange(1, RANK + 1), norms, color=colours)
axes.axhline(0.05 * norms[0], color="black", lw=1, ls="--", label="5 % of the largest")
axes.set(xlabel="factor, largest first", ylabel="posterior mean of $|w_k|^2$")
axes.set_title(f"Effective rank {rank}; the true rank is {TRUE_RANK}")
axes.legend(frameon=False)
show(figure, "effective_rank")

# %% [markdown]
# ## 4. The information ratio
#
# An entry that may be the best is worth trying for its value, and for what it tells about where
# the best one is. IDS weighs the two. With $R^*$ the mean over draws of each draw's best entry,
#
# - the expected regret is $\Delta = R^* - E[y]$,
# - the information gain is $g = \frac12 \log$ (predictive variance / noise variance),
# - the entry chosen has the smallest $\Delta^2 / g$.
#
# It may or may not be the entry with the largest posterior mean, which is marked too. Entries that
# were seen are grey: none may be chosen twice.

# %%
available = ~seen
optimum = jnp.where(available, prediction.sample, -jnp.inf).max((1, 2)).mean()
regret = optimum - mean
noise = (parameters.sigma**2).mean()
gain = information.gaussian_gain(variance + noise, noise)
ratio = information.information_ratio(regret, gain)
choice = information.deterministic_choice(regret.ravel(), gain.ravel(), available.ravel())
chosen = jnp.unravel_index(choice, available.shape)
greedy = jnp.unravel_index(best_available(mean, available), available.shape)

# %%
pictures = {
    r"expected regret $\Delta$": (regret, {"cmap": "magma"}),
    "information gain $g$ (nats)": (gain, {"cmap": "viridis"}),
    r"information ratio $\Delta^2 / g$": (ratio, {"cmap": "magma", "norm": LogNorm()}),
}
marks = (
    (chosen, "chosen by IDS", ("o", 150, "#00E060")),
    (greedy, "largest posterior mean", ("s", 450, "#56B4E9")),
)
figure, grid = plt.subplots(3, 1, figsize=(8, 9.5), layout="constrained", sharex=True)
for axes, (title, (values, style)) in zip(grid, pictures.items(), strict=True):
    axes.set_facecolor("0.85")
    hidden = np.where(available, values, np.nan)
    image = axes.imshow(hidden, aspect="auto", interpolation="nearest", **style)
    figure.colorbar(image, ax=axes)
    for (row, column), label, (shape, size, colour) in marks:
        style = {"facecolors": "none", "edgecolors": colour, "linewidths": 2.5, "label": label}
        axes.scatter(column, row, marker=shape, s=size, **style)
    axes.set(title=title, ylabel="row d")
grid[-1].set_xlabel("column n")
figure.legend(*grid[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
show(figure, "information_ratio")

# %% [markdown]
# Once the entry is observed, `ensemble.condition` updates every draw and predicts anew. Only the
# entry's own column changes, which makes it cheap enough to be done after every single pick.

# %%
row, column = chosen
look = jnp.asarray(1.0)  # weight 1: the value was seen
outcome = Outcome(row, column, problem.entries[row, column], look)
_, after = ensemble.condition(noise_key, members, outcome)
left = jnp.sqrt(after.variance.mean(0) + after.mean.var(0))
print(f"row {row}, column {column}: predicted {mean[row, column]:.2f}, seen {outcome.value:.2f}")
print(f"its standard deviation: {deviation[row, column]:.2f} before, {left[row]:.2f} after")

# %% [markdown]
# ## 5. A policy of your own
#
# `live` keeps the draws up to date. What is left to write is a summary of one column and a
# choice. Here is an upper confidence bound: the entry whose mean plus `width` standard deviations
# is highest.


# %%
def upper_confidence_bound(setting, *, draws=16, width=1.0):
    def summarise(column):
        prediction = column.prediction  # mean, variance and sample, [S, D] each
        spread = prediction.variance.mean(0) + prediction.mean.var(0)
        bound = prediction.mean.mean(0) + width * jnp.sqrt(spread)
        return Best.of_column(column.discount * bound, column.available)

    def choose(key, state, view):
        return state.summary.choice()

    return live(setting.belief, draws=draws, summarise=summarise, choose=choose)


# %% [markdown]
# `make_loop` puts data, policy and environment together; `make_sweep` runs it for many seeds. All
# policies of one seed face the same matrix and the same initial design. The loop starts from 30
# entries seen at random, picks 300 more, none twice, and refits the model every 30 picks.

# %%
SEEDS = range(1000, 1003)

setting = Setting(belief, entry_noise=True)
contestants = {name: POLICIES[name] for name in ("ids", "thompson", "random")}
contestants["upper confidence bound"] = upper_confidence_bound

results = {}
for name, make_policy in contestants.items():
    loop = make_loop(make_problem, make_policy(setting), horizon=300, refits=10, initial=30)
    sweep = make_sweep(loop)
    *_, last = sweep.go_on(sweep.start(SEEDS))
    results[name] = curves(last)
    final = results[name].regret[:, -1]
    print(f"{name:<24} regret {final.mean():6.1f} ± {final.std(ddof=1) / len(final) ** 0.5:.1f}")

# %%
figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
colours = ("#0072B2", "#E69F00", "#999999", "#CC79A7")
for colour, (name, result) in zip(colours, results.items(), strict=True):
    picks = np.arange(1, result.regret.shape[1] + 1)
    middle = result.regret.mean(0)
    band = result.regret.std(0, ddof=1) / np.sqrt(len(SEEDS))
    axes.plot(picks, middle, color=colour, label=name)
    axes.fill_between(picks, middle - band, middle + band, color=colour, alpha=0.2, lw=0)
axes.set(xlabel="picks", ylabel="cumulative regret", xlim=(0, picks[-1]), ylim=(0, None))
axes.set_title(f"Mean of {len(SEEDS)} seeds, with one standard error")
axes.grid(alpha=0.25)
axes.legend(frameon=False)
show(figure, "regret")

# %% [markdown]
# To keep a policy, put it in `smc_jax/policies/` and add a line to `POLICIES`: the launcher and
# the tests then know it by its name. Larger experiments run from the command line:
#
# ```sh
# python -m launch.run --config=configs/synthetic.py --workdir=results/rank5
# ```
