"""Silence with offers and late answers: choices inside the offers, and checkpoints."""

import chex
import jax
import numpy as np
from conforming import COLUMNS, ROWS, make

from launch import files
from smc_jax.data.synthetic import synthetic
from smc_jax.policies.heeding import heeding_silence
from smc_jax.simulation.environment import make_environment
from smc_jax.simulation.loop import make_loop
from smc_jax.simulation.offers import budgets, costs
from smc_jax.simulation.silence import silent
from smc_jax.simulation.sweep import make_sweep

TIMES = dict.fromkeys(files.TIMES, 0.0)


def test_late_and_silent_choices_are_inside_the_offers_and_go_on_from_a_file(tmp_path):
    data = synthetic(rows=ROWS, columns=COLUMNS, true_rank=2)
    made = budgets(make_environment(data, initial=0), row=4, column=2)
    made = silent(costs(made, np.arange(1.0, 7.0)), lowest_rate=0.2, highest_rate=0.5)
    policy = heeding_silence(make("optspace"), draws=3, sweeps=1, first_sweeps=3)
    sweep = make_sweep(make_loop(made, policy, horizon=15, refits=3, delay=2), vmap_width=1)
    remaining = sweep.resume(sweep.start([1000]))
    for _ in range(2):
        progress = next(remaining)
    files.save_checkpoint(tmp_path / "a.npz", progress, TIMES, "mark")
    # Before the sweep goes on, which may write where the old state was.
    kept = jax.tree.map(lambda x: x.copy(), progress)
    loaded, _ = files.load_checkpoint(tmp_path / "a.npz", progress, "mark")
    chex.assert_trees_all_equal(loaded, kept)
    whole = list(sweep.resume(loaded))[-1]
    steps = whole.steps
    assert steps.valid.all()
    assert 0 < steps.answered.sum() < 12
    there = steps.row[0] >= 0
    assert there.sum() <= 12  # two of each of six columns
    assert np.bincount(steps.column[0][there], minlength=COLUMNS).max() <= 2
    assert np.bincount(steps.row[0][there], minlength=ROWS).max() <= 4
    assert (whole.best.cumsum(1)[:, -1] - steps.expected.sum(1) >= -1e-4).all()
