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
# # A table of your own
#
# You have measured some drugs on some targets, and can measure twenty pairs a week. Which twenty?
# This page
#
# 1. makes a table as you would have it: a CSV with ids, a fifth of it known,
# 2. begins a campaign with it, and asks for twenty pairs,
# 3. measures them, with a failure and a late answer among them, and asks again, three weeks long,
# 4. looks at what was found, at what is left, and at whether the intervals held.
#
# The truth is known here, because the page makes it; the campaign never sees it.

# %%
import csv
import os
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import smc_jax


def show(figure, name):
    """Shows a picture, or saves it in the folder that SMC_FIGURES names."""
    if "SMC_FIGURES" in os.environ:
        figure.savefig(Path(os.environ["SMC_FIGURES"]) / f"{name}.png", dpi=120)
        plt.close(figure)
    else:
        plt.show()


# %% [markdown]
# ## 1. A table
#
# Forty drugs and ninety targets; three properties of a drug decide how it binds. Every measurement
# has an error of about 0.2.

# %%
rng = np.random.default_rng(0)
drugs = [f"D{number:02}" for number in range(40)]
targets = [f"T{number:02}" for number in range(90)]
affinity = 5 + rng.gamma(2, 0.5, (40, 3)) @ rng.normal(0, 0.8, (3, 90))
known = rng.random(affinity.shape) < 0.2


def measure(drug, target):
    """One experiment in the laboratory."""
    return affinity[drugs.index(drug), targets.index(target)] + 0.2 * rng.normal()


folder = Path(tempfile.mkdtemp())
with (folder / "assay.csv").open("w", newline="") as file:
    table = csv.writer(file)
    table.writerow(["drug", "target", "affinity"])
    for d, t in np.argwhere(known):
        table.writerow([drugs[d], targets[t], round(measure(drugs[d], targets[t]), 3)])
print((folder / "assay.csv").read_text()[:70])

# %% [markdown]
# ## 2. Twenty suggestions
#
# A campaign is one file. `ask` fits the model, chooses, and remembers what it asked for: a pair is
# pending until it is answered, and is not proposed again meanwhile.

# %%
lab = smc_jax.Campaign.new(
    folder / "lab.db", folder / "assay.csv", rows="drug", columns="target", value="affinity"
)
batch = lab.ask(20)
for one in batch[:5]:
    print(f"{one.row} {one.column}: {one.mean:.2f}, {one.low:.2f} to {one.high:.2f}. {one.reason}")

# %% [markdown]
# `batch.save("next.csv")` writes a table with an empty column for the values; filled in, it can be
# told as it is. Here the answers are told from Python: values, the word failed, and one pair that
# comes a week late.

# %%
weeks, late = [], None
for week in range(3):
    if week:
        batch = lab.ask(20)
    values = {(one.row, one.column): measure(one.row, one.column) for one in batch}
    answers = [(*pair, value) for pair, value in values.items()]
    if week == 0:
        late = answers.pop()
        answers[0] = (*answers[0][:2], "failed")
    if week == 1:
        answers.append(late)
    added = lab.tell(answers)
    weeks.append([value for *_, value in answers if not isinstance(value, str)])
    print(f"week {week + 1}: {added.values} values, {added.failed} failed")

# %% [markdown]
# ## 3. What was found
#
# The dots are what was measured in each week. The dashed lines are the best twenty pairs of the
# table, the next best twenty, and those after them: nobody could have done better on average.

# %%
left = np.sort(affinity[~known])
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for week, found in enumerate(weeks, 1):
    axes.plot(np.full(len(found), week) + rng.uniform(-0.15, 0.15, len(found)), found, "o", ms=4)
    label = "best possible mean" if week == 1 else None
    mean = left[-20 * week :][:20].mean()
    axes.hlines(mean, week - 0.3, week + 0.3, "k", "dashed", label=label)
axes.axhline(left.mean(), color="grey", label="mean of all pairs")
axes.set(xticks=[1, 2, 3], xlabel="week", ylabel="affinity measured")
axes.legend(frameon=False)
show(figure, "weeks")
best_sixty, found = left[-60:].mean(), np.concatenate(weeks).mean()
print(f"mean of what was measured {found:.2f}, of the best sixty {best_sixty:.2f}")

# %% [markdown]
# ## 4. What is left, and whether the intervals held
#
# `status` says where the campaign stands. `predict` tells of any pairs what is expected, with an
# interval that holds the next measurement in nine of ten cases.

# %%
status = lab.status()
print(f"{status.known} known, {status.pending} pending, {status.failed} failed. {status.advice}")
pairs = [(drugs[d], targets[t]) for d, t in np.argwhere(~known)[::20]]
forecasts = lab.predict(pairs)
shown = np.array([measure(*pair) for pair in pairs])
low, mean, high = (
    np.array([getattr(one, f) for one in forecasts]) for f in ("low", "mean", "high")
)
held = ((shown >= low) & (shown <= high)).mean()
print(f"of {len(pairs)} measurements {held:.0%} lay in their interval")

figure, axes = plt.subplots(figsize=(5, 5), layout="constrained")
axes.errorbar(mean, shown, xerr=[mean - low, high - mean], fmt="o", ms=3, lw=0.6, color="C0")
ends = [shown.min(), shown.max()]
axes.plot(ends, ends, "k--", lw=0.8)
axes.set(xlabel="expected affinity, with its 90 % interval", ylabel="measured")
show(figure, "intervals")

# %% [markdown]
# `lab.report("lab.html")` writes a page for colleagues; `smc-jax status lab.db` and the other
# commands work on the same file.

# %%
lab.report(folder / "lab.html")
print(f"{(folder / 'lab.html').stat().st_size / 1000:.0f} kB of HTML")
lab.disconnect()
