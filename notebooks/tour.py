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
# 5. writes a rule of its own in ten lines, and compares it with the others,
# 6. lets users arrive one by one, so that not everything is on offer.
#
# Everything is a pure function of a key.

# %%
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.scipy.stats import norm
from matplotlib.colors import LogNorm

import smc_jax
from smc_jax.beliefs import starts, variational
from smc_jax.policies import ensemble, information
from smc_jax.policies.base import Best
from smc_jax.policies.ensemble_policy import Rule, ensemble_policy
from smc_jax.simulation.environment import seed_keys


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
# the entries is seen; the others are on offer. An `Offer` says which entries may be chosen, and by
# what factor the value of each is multiplied, here 1.

# %%
ROWS, COLUMNS, TRUE_RANK, RANK = 30, 60, 3, 8

make_problem = smc_jax.synthetic(
    rows=ROWS, columns=COLUMNS, true_rank=TRUE_RANK, noise_variance=0.1
)
key = jax.random.key(1000)
matrix_key, mask_key, start_key, fit_key, draw_key, choice_key = jax.random.split(key, 6)
problem = make_problem(matrix_key)
seen = jax.random.bernoulli(mask_key, 0.25, (ROWS, COLUMNS))
data = smc_jax.Observations.from_matrix(problem.entries, seen)
offer = smc_jax.Offer(columns=None, open=~seen, factor=jnp.ones((ROWS, COLUMNS)))
print(f"{int(data.number())} of {seen.size} entries are seen")

# %% [markdown]
# ## 2. The model and its fit
#
# The prior $W_{dk} \sim G(\gamma r_k, \gamma)$, $r_k \sim G(\gamma_0/K, c_0)$ has room for
# $K = 8$ factors and switches off those it does not need. `svi` maximises the ELBO over independent
# log-normals. `trace` runs it in stretches of 50 steps and keeps the mean ELBO of each.

# %%
model = smc_jax.gamma_process(rank=RANK)
inference = smc_jax.svi(model=model, optimiser=variational.adam())
first = inference.init(starts.spectral(model)(start_key, data))
fit, bounds = jax.jit(
    lambda key, fit: variational.trace(key, fit, data, inference=inference, steps=50, runs=40)
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
# A *belief* is a distribution over the parameters that is refitted as data come in; `variational`
# makes one of model, start and inference. A *policy* is a rule on a belief. `init` makes its state,
# here from the fit above as its prior, and `refit` takes 100 more steps and draws parameters.
#
# `smc_jax.predict` tells what a policy says of any entries: mean, standard deviation and
# quantiles of the posterior given everything seen. We ask for all of them.

# %%
DRAWS = 64

belief = smc_jax.variational(model, starts.spectral(model), inference, first_steps=500, steps=100)
policy = smc_jax.ids(belief, draws=DRAWS)
state = policy.init(start_key, data, offer, prior=fit)
state = jax.jit(policy.refit)(fit_key, state, data, offer)

rows, columns = (index.ravel() for index in jnp.indices((ROWS, COLUMNS)))
predicted = smc_jax.predict(draw_key, policy, state, data, rows, columns, draws=DRAWS, noise=True)
mean, deviation = (x.reshape(ROWS, COLUMNS) for x in (predicted.mean, predicted.sd))
low, _, high = predicted.quantiles.reshape(3, ROWS, COLUMNS)

error = jnp.sqrt(jnp.mean((mean - problem.entries) ** 2, where=~seen))
scale = jnp.std(problem.entries, where=~seen)
inside = jnp.mean((low < problem.entries) & (problem.entries < high), where=~seen)
print(f"unseen entries: standard deviation {scale:.2f}, error of the posterior mean {error:.2f}")
print(f"between their 5 % and 95 % quantiles are {inside:.0%} of them")

# %%
limit = float(jnp.abs(problem.entries).max())
signed = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
pictures = {
    "seen (grey: not seen)": (np.where(seen, problem.entries, np.nan), signed),
    "true": (problem.entries, signed),
    "posterior mean": (mean, signed),
    "posterior standard deviation, with noise": (deviation, {"cmap": "viridis", "vmin": 0.0}),
}
figure, grid = plt.subplots(2, 2, figsize=(10, 6), layout="constrained", sharex=True, sharey=True)
for axes, (title, (values, style)) in zip(grid.flat, pictures.items(), strict=True):
    axes.set_facecolor("0.85")
    image = axes.imshow(values, aspect="auto", interpolation="nearest", **style)
    figure.colorbar(image, ax=axes)
    axes.set_title(title)
plt.setp(grid[1], xlabel="column n")
plt.setp(grid[:, 0], ylabel="row d")
show(figure, "matrices")

# %% [markdown]
# How many factors did it find? The effective rank counts the columns of $W$ whose mean squared
# norm is at least 5 % of the largest one's. `state.ensemble` holds the draws that the rule chooses
# from.

# %%
members = state.ensemble
norms = np.sort((members.parameters.loadings**2).sum(1).mean(0))[::-1]
rank = int(policy.diagnose(state).effective_rank)
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
# Here it is by hand. `ensemble.predict` tells what every draw says of every entry: a mean, a
# variance and one sample, all $[S, D, N]$. By the law of total variance, the posterior variance of
# an entry is the mean of the variances plus the variance of the means.
#
# The choice may or may not be the entry with the largest posterior mean, which is marked too.
# Entries that were seen are grey: none may be chosen twice.

# %%
prediction = ensemble.predict(members)
expected = prediction.mean.mean(0)
variance = prediction.variance.mean(0) + prediction.mean.var(0)
noise = members.parameters.sigma**2

optimum = jnp.where(offer.open, prediction.sample, -jnp.inf).max((1, 2)).mean()
regret = optimum - expected
gain = information.gaussian_gain(variance + noise.mean(), jnp.exp(jnp.log(noise).mean()))
ratio = information.information_ratio(regret, gain)

chosen = np.unravel_index(np.where(offer.open, ratio, np.inf).argmin(), ratio.shape)
greedy = np.unravel_index(np.where(offer.open, expected, -np.inf).argmax(), ratio.shape)
choice = policy.choose(choice_key, state, data, offer)
print(f"by hand: row {chosen[0]}, column {chosen[1]}; the policy: {choice.row}, {choice.column}")

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
    hidden = np.where(offer.open, values, np.nan)
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
# The entry is tried, and the policy is told. `absorb` conditions every draw on the outcome and
# looks at its column anew, cheap enough to be done after every pick. The policy then chooses again.

# %%
row, column = choice
value = problem.entries[row, column]
outcome = smc_jax.Outcome(row, column, value, answered=jnp.asarray(True))
data_after = data.add(row, column, value, outcome.weight)
offer_after = offer._replace(open=offer.open.at[row, column].set(False))
state_after = jax.jit(policy.absorb)(choice_key, state, data_after, outcome, offer_after)
following = policy.choose(choice_key, state_after, data_after, offer_after)

entry = row[None], column[None]
before = smc_jax.predict(draw_key, policy, state, data, *entry)
after = smc_jax.predict(draw_key, policy, state_after, data_after, *entry)
print(f"row {row}, column {column}: predicted {before.mean[0]:.2f}, seen {value:.2f}")
print(f"its standard deviation without noise: {before.sd[0]:.2f}, then {after.sd[0]:.2f}")
print(f"the next choice: row {following.row}, column {following.column}")

# %% [markdown]
# ## 5. A rule of your own
#
# `ensemble_policy` keeps the draws up to date. What is left to write is a `Rule`: what all columns
# are told (`share`), what is kept of each column (`summarise`), and how to choose from that
# (`choose`). Here is expected improvement, the rule of Bayesian optimisation: by how much an entry
# exceeds a bar on average, where it does. The bar is the highest posterior mean at the refit.


# %%
def expected_improvement(belief, *, draws=16):
    def share(key, members, offer, part):
        return jnp.where(offer.open, ensemble.predict(members).mean.mean(0), -jnp.inf).max()

    def summarise(column):
        mean, variance, _ = column.prediction  # [S, D] each
        spread = jnp.sqrt(jnp.maximum(variance, 1e-9))
        z = (mean - column.shared) / spread
        improvement = spread * (z * norm.cdf(z) + norm.pdf(z))
        return Best.of_column(column.factor * improvement.mean(0), column.open)

    rule = Rule(summarise, lambda key, summary, shared, offer: summary.choice(), share)
    return ensemble_policy(belief, rule, draws=draws)


# %% [markdown]
# `smc_jax.run` runs policies on many seeds. All policies of one seed face the same matrix and the
# same initial design of 30 entries; each picks 300 more, none twice, and refits the model every 30
# picks. A preset is model, inference and the settings of the named policies in one call:
# `presets.paper` for matrices such as this one, `presets.ratings` for ratings. With `method="svi"`
# the model is fitted as in the paper; without it, by chains, which takes longer and finds more.

# %%
SEEDS = range(1000, 1003)
HORIZON, INITIAL = 300, 30
preset = smc_jax.presets.paper(rank=RANK, method="svi", first_steps=500)
contestants = {name: preset.policy(name, horizon=HORIZON) for name in ("ids", "thompson", "random")}
contestants["expected improvement"] = expected_improvement(preset.belief())
experiment = {"horizon": HORIZON, "refits": 10, "initial": INITIAL, "seeds": SEEDS}
results = smc_jax.run(make_problem, contestants, **experiment)


def draw_regret(results, title):
    """Prints the last regret of every policy, and draws all of it."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    colours = ("#0072B2", "#E69F00", "#999999", "#CC79A7")
    for colour, (name, result) in zip(colours, results.items(), strict=True):
        picks = np.arange(1, result.regret.shape[1] + 1)
        middle = result.regret.mean(0)
        band = result.regret.std(0, ddof=1) / np.sqrt(len(SEEDS))
        print(f"{name:<24} regret {middle[-1]:6.1f} ± {band[-1]:.1f}")
        axes.plot(picks, middle, color=colour, label=name)
        axes.fill_between(picks, middle - band, middle + band, color=colour, alpha=0.2, lw=0)
    axes.set(xlabel="picks", ylabel="cumulative regret", xlim=(0, picks[-1]), ylim=(0, None))
    axes.set_title(f"{title}: mean of {len(SEEDS)} seeds, with one standard error")
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)
    return figure


show(draw_regret(results, "Everything on offer"), "regret")
last = {name: result.regret[:, -1] for name, result in results.items()}
less = smc_jax.paired_interval(last["ids"], last["thompson"])  # on the same seeds, which are few
print(f"ids - thompson: {less.mean:.1f}, 95 % interval {less.low:.1f} to {less.high:.1f}")

# %% [markdown]
# ## 6. Users who arrive
#
# Not always is everything on offer. An *environment* is three pure functions: `reset` makes the
# matrix and the initial design, `offer` says what may be chosen now, and `answer` tells what a
# choice showed. A wrapper changes what is offered. With `arrivals` one user, a column, is here at a
# time, and the question is which row to show.

# %%
everyone = smc_jax.make_environment(make_problem, initial=INITIAL)
environment = smc_jax.arrivals(everyone, number=1)
keys = seed_keys(jnp.uint32(1000))
world = environment.reset(keys, jnp.uint32(1000))
print(f"on offer without arrivals: {int(everyone.offer(keys.offers, world).open.sum())} entries")
for _ in range(3):
    here = environment.offer(keys.offers, world)
    user, count = here.columns[0], int(here.open.sum())
    row = jnp.where(here.open[:, 0], world.problem.entries[:, user], -jnp.inf).argmax()
    world, shown, _ = environment.answer(keys.noise, world, here, smc_jax.Choice(row, user))
    print(f"column {user} is here, {count} rows are open; the best, {row}, shows {shown.value:.2f}")

# %% [markdown]
# The same policies run in it unchanged, our own rule too. Regret is measured from the best sequence
# of these offers: the a-th time that a user is here, that user's a-th best row. Nobody can wait for
# a better user, and every user has to be learned from that user's own visits: 900 picks are fifteen
# visits each. Late in the run regret falls: the best sequence has spent every user's best rows by
# then, and the policies have some of them still before them.

# %%
experiment |= {"horizon": 900, "wrappers": [smc_jax.arrivals]}
arriving = smc_jax.run(make_problem, contestants, **experiment)
show(draw_regret(arriving, "One user at a time"), "arrivals")

# %% [markdown]
# To keep a policy, put its rule in `smc_jax/policies/` and add a line to `POLICIES`: the launcher
# and the tests then know it by its name. Larger experiments run from the command line:
#
# ```sh
# python -m launch.run --config=configs/synthetic.py --workdir=results/rank5
# ```
