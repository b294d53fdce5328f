"""Invariances of the loop and the sweep on a tiny experiment."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh
from scipy import stats

from smc_jax import presets
from smc_jax.algebra.columns import AXIS
from smc_jax.beliefs.base import Diagnostics
from smc_jax.completion.stopping import HeldOut
from smc_jax.data.synthetic import synthetic
from smc_jax.simulation import sweep
from smc_jax.simulation.environment import make_environment
from smc_jax.simulation.loop import make_loop
from smc_jax.simulation.regret import curves as curves_of
from smc_jax.simulation.regret import paired_interval, standard_error
from smc_jax.simulation.run import run as run_all
from smc_jax.types import Choice

ROWS, COLUMNS, INITIAL = 8, 12, 6
DATA = synthetic(rows=ROWS, columns=COLUMNS, true_rank=3)
NOISY = synthetic(rows=ROWS, columns=COLUMNS, true_rank=3, entry_noise=False)

PER_PICK = {"regret", "reward", "rows", "cols", "answered"}  # of the curves

PRESET = presets.Preset(
    rank=3,
    inference={"first_steps": 10, "steps": 5, "window": 5},
    policies={"ids": {"draws": 4}, "thompson": {"pool": 0}},
)


@functools.cache
def make_policy(name):
    return PRESET.policy(name)


def experiment(policy, *, data=DATA, horizon=20, refits=4, held_out_errors=None, **settings):
    made = make_environment(data, **{"initial": INITIAL, **settings})
    return make_loop(made, policy, horizon=horizon, refits=refits, held_out_errors=held_out_errors)


def shapes_of(curves):
    """The shapes of what is recorded at every pick, and at every refit."""
    each = curves._asdict()
    return tuple(
        {each[name].shape for name in names} for names in (PER_PICK, each.keys() - PER_PICK)
    )


def finish(runner, progress):
    for progress in runner.resume(progress):  # noqa: B007, B020
        pass
    return progress


def run(loop, seeds, **settings):
    runner = sweep.make_sweep(loop, **settings)
    progress = finish(runner, runner.start(seeds))
    return progress, curves_of(progress)


def assert_same(one, other):
    jax.tree.map(np.testing.assert_array_equal, one, other)


@functools.cache
def oracle_run():
    return run(experiment(make_policy("oracle")), [0, 1, 2])


def test_seeds_in_a_vmap_make_the_same_picks():
    """Of a policy that adds up nothing, so that there is no rounding to tip a choice."""
    loop = experiment(make_policy("random"))
    _, one_by_one = run(loop, [3, 4, 5])
    _, side_by_side = run(loop, [3, 4, 5], vmap_width=2)
    np.testing.assert_array_equal(side_by_side.rows, one_by_one.rows)
    np.testing.assert_array_equal(side_by_side.cols, one_by_one.cols)
    progress, curves = run(experiment(make_policy("ids")), [3, 4], vmap_width=2)
    assert np.isfinite(curves.regret).all()
    replay(progress, curves, 0)


@pytest.mark.parametrize("settings", [{}, {"vmap_width": 2}, {"shard": "columns"}])
def test_policies_share_the_program_that_resets_them(settings):
    traced = []

    def data(key, seed):
        traced.append(seed)
        return DATA(key, seed)

    names, seeds = ("oracle", "random"), [0, 1, 2]
    loops = [experiment(make_policy(name), data=data) for name in names]
    resets = sweep.make_resets(loops[0].reset, **settings)
    together, times = [], []
    for loop in loops:
        together.append(run(loop, seeds, resets=resets, **settings)[1])
        times.append(len(traced))
    assert times[0] == times[1] > 0
    for loop, curves in zip(loops, together, strict=True):
        assert_same(curves, run(loop, seeds, **settings)[1])


def test_a_pick_copies_nothing_of_the_size_of_the_matrix():
    """Of the programs behind the entry point, which copies its arguments, none copies a matrix."""
    data = synthetic(rows=30, columns=70, true_rank=3)
    loop = experiment(make_policy("ids"), data=data, refits=1)
    carry, _ = jax.eval_shape(loop.start, jnp.uint32(0))
    compiled = jax.jit(loop.picks).lower(carry, jax.random.key(0)).compile().as_text()
    copied = re.compile(r"\[(30,70|4,70,3,5)\]\S* copy\(")
    programs = compiled.split("\n\n")
    assert any(copied.search(program) for program in programs if "ENTRY" in program)
    assert not any(copied.search(program) for program in programs if "ENTRY" not in program)


def replay(progress, curves, seed):
    """The matrix, the times each entry was chosen before every pick, and the picks."""
    entries = np.asarray(progress.carry.world.problem.entries[seed], np.float64)
    rows, cols = curves.rows[seed], curves.cols[seed]
    times = np.asarray(progress.carry.world.times[seed]).copy()
    np.subtract.at(times, (rows, cols), 1)  # what is left is the design
    assert times.min() >= 0
    assert times.sum() == INITIAL
    before = []
    for row, col in zip(rows, cols, strict=True):
        before.append(times[row, col])
        times[row, col] += 1
    return entries, times, np.array(before)


def test_regret_is_that_of_the_picks():
    progress, curves = oracle_run()
    assert curves.regret.shape == (3, 20)
    for seed in range(3):
        entries, times, before = replay(progress, curves, seed)
        assert (before == 0).all()  # no repeats, of the design or of a pick
        picked = entries[curves.rows[seed], curves.cols[seed]]
        np.testing.assert_allclose(curves.reward[seed], picked, rtol=1e-6)
        untouched = times.copy()
        np.subtract.at(untouched, (curves.rows[seed], curves.cols[seed]), 1)
        best = np.sort(entries[untouched == 0])[::-1][:20]
        np.testing.assert_allclose(curves.regret[seed], np.cumsum(best - picked), atol=1e-4)


def test_regret_with_repeats_and_noise_counts_the_discount_and_not_the_noise():
    loop = experiment(make_policy("random"), data=NOISY, beta=0.5, once=False)
    progress, curves = run(loop, [3])
    entries, times, before = replay(progress, curves, 0)
    assert before.max() > 0
    picked = entries[curves.rows[0], curves.cols[0]] * 0.5**before
    design = times.copy()
    np.subtract.at(design, (curves.rows[0], curves.cols[0]), 1)
    ladder = (entries * 0.5**design)[..., None] * 0.5 ** np.arange(20)
    best = np.sort(np.maximum(ladder, 0).ravel())[::-1][:20]
    np.testing.assert_allclose(curves.regret[0], np.cumsum(best - picked), atol=1e-4)
    noise = (curves.reward[0] - picked) / 0.5**before
    # 20 normals with variance 0.1: each end of this range is left by 5e-4 of the seeds.
    assert stats.chi2.ppf(5e-4, 20) < (noise**2).sum() / 0.1 < stats.chi2.ppf(1 - 5e-4, 20)


def test_policies_meet_the_same_matrix_design_and_noise():
    results = {}
    for name in ("oracle", "random"):
        loop = experiment(make_policy(name), data=NOISY, horizon=40, refits=2)
        progress, curves = run(loop, [4])
        design = np.asarray(progress.carry.world.times[0]).copy()
        np.subtract.at(design, (curves.rows[0], curves.cols[0]), 1)
        picks = zip(curves.rows[0].tolist(), curves.cols[0].tolist(), strict=True)
        rewards = dict(zip(picks, curves.reward[0].tolist(), strict=True))
        results[name] = progress.carry.world.problem, design, progress.best, rewards
    one, other = results["oracle"], results["random"]
    assert_same(one[:3], other[:3])
    common = one[3].keys() & other[3].keys()
    assert len(common) > 5
    assert one[3].keys() != other[3].keys()
    assert all(one[3][entry] == other[3][entry] for entry in common)


def test_a_seed_has_one_curve_alone_in_a_sweep_and_on_any_devices():
    loop = experiment(make_policy("ids"), horizon=8, refits=2)
    first, second = jax.devices()[:2]
    _, together = run(loop, [0, 1, 2], devices=[first, second])
    _, alone = run(loop, [1], devices=[second])
    assert_same(jax.tree.map(lambda x: x[1:2], together), alone)
    assert not np.array_equal(together.regret[0], together.regret[1])
    assert np.isfinite(together.elbo).all()
    assert ((together.effective_rank >= 1) & (together.effective_rank <= 3)).all()


@pytest.mark.parametrize("name", ["ids", "greedy", "thompson", "random"])
def test_columns_over_devices_give_the_same_picks(name):
    """Sums over columns are rounded otherwise, in so small an experiment not to tip a choice."""
    loop = experiment(make_policy(name), horizon=8, refits=2)
    devices = jax.devices()[:2]
    progress, sharded = run(loop, [0, 1], devices=devices, shard="columns")
    _, alone = run(loop, [0, 1], devices=devices[:1])
    for field in ("rows", "cols", "effective_rank"):
        np.testing.assert_array_equal(getattr(sharded, field), getattr(alone, field))
    for field, ulps in (("regret", 4), ("reward", 4), ("elbo", 80)):
        found, expected = getattr(sharded, field), getattr(alone, field)
        np.testing.assert_allclose(found, expected, rtol=ulps * np.finfo(np.float32).eps)
    world = progress.carry.world
    for array in (world.open, world.data.times_seen(), world.problem.entries):
        rows, columns = array.shape[1:]
        assert [x.data.shape[1:] for x in array.addressable_shards] == 2 * [(rows, columns // 2)]


@pytest.mark.parametrize("name", ["ids", "greedy", "thompson"])
def test_a_pick_over_devices_brings_no_matrix_together(name):
    """What moves is a column of every draw, S K (K + 2) = 240 numbers, of 8 x 512 entries."""
    loop = experiment(make_policy(name), data=synthetic(rows=ROWS, columns=512, true_rank=3))
    devices = jax.devices()[:2]
    carry = sweep.make_sweep(loop, devices=devices, shard="columns").start([0]).carry

    def picks(carry):
        return jax.lax.map(lambda one: loop.picks(one, jax.random.key(0))[1], carry)

    mesh = Mesh(np.asarray(devices), (AXIS,), axis_types=(AxisType.Auto,))
    with jax.set_mesh(mesh):
        program = jax.jit(picks).lower(carry).compile().as_text()
    moves = "all-gather|all-reduce|all-to-all|collective-permute|reduce-scatter"
    lines = re.findall(rf"= (.*) (?:{moves})(?:-start)?\(", program)
    shapes = [shape for line in lines for shape in re.findall(r"\w+\[([\d,]*)\]", line)]
    sizes = [np.prod([int(size) for size in shape.split(",") if size]) for shape in shapes]
    assert len(lines) >= 3  # the choice, and what is read of it
    assert max(sizes) <= 240


def test_columns_that_cannot_be_shared_out():
    loop = experiment(
        make_policy("random"), data=synthetic(rows=ROWS, columns=COLUMNS - 1, true_rank=3)
    )
    with pytest.raises(ValueError, match=r"^columns: 11 cannot be shared out evenly over 2"):
        sweep.make_sweep(loop, devices=jax.devices()[:2], shard="columns").start([0])
    with pytest.raises(ValueError, match=r"^vmap_width: must be 1"):
        sweep.make_sweep(loop, vmap_width=2, shard="columns")
    with pytest.raises(ValueError, match=r"^shard: unknown 'rows'"):
        sweep.make_sweep(loop, shard="rows")


@pytest.mark.parametrize("segment", [2, 3])
def test_segments_do_not_change_the_result(segment):
    """Three of four batches leave one, which runs alone."""
    _, curves = run(experiment(make_policy("oracle")), [0, 1, 2], segment=segment)
    assert_same(curves, oracle_run()[1])


def test_resume_equals_no_stop():
    loop = experiment(make_policy("oracle"))
    runner = sweep.make_sweep(loop)
    batches = runner.resume(runner.start([0, 1, 2]))
    next(batches)
    middle = next(batches)
    assert middle.batches == 2
    resumed = finish(sweep.make_sweep(loop), middle)
    assert resumed.batches == 4
    assert_same(curves_of(resumed), oracle_run()[1])


@pytest.mark.parametrize(
    ("horizon", "refits", "batch", "batches"), [(18, 4, 5, 4), (9, 6, 2, 5), (3, 8, 1, 3)]
)
def test_a_horizon_that_refits_do_not_divide(horizon, refits, batch, batches):
    loop = experiment(make_policy("random"), horizon=horizon, refits=refits)
    assert (loop.batch, loop.batches) == (batch, batches)
    progress, curves = run(loop, [0])
    assert progress.steps.row.shape == (1, batch * batches)
    assert shapes_of(curves) == ({(1, horizon)}, {(1, batches)})


def test_the_last_batch_may_find_nothing_left_but_the_horizon_may_not():
    tiny = synthetic(rows=1, columns=7, true_rank=1)
    settings = {"data": tiny, "initial": 0, "refits": 2}
    _, curves = run(experiment(make_policy("random"), horizon=7, **settings), [0])
    assert sorted(curves.cols[0]) == list(range(7))
    np.testing.assert_allclose(curves.regret[0, -1], 0.0, atol=1e-5)  # all entries, in any order
    with pytest.raises(RuntimeError, match="pick 7 of seed 0 was not an open entry"):
        run(experiment(make_policy("random"), horizon=8, **settings), [0])


def test_a_poisoned_posterior_is_an_error_that_names_seed_and_refit():
    """The second seed's matrix is not made of numbers, and the fit is what must notice."""

    def data(key, seed):
        problem = DATA(key)
        return problem._replace(entries=jnp.where(seed == 8, jnp.nan, problem.entries))

    with pytest.raises(FloatingPointError, match="seed 8 is not finite at refit 0"):
        run(experiment(make_policy("thompson"), data=data, horizon=4, refits=2), [7, 8])


def test_a_posterior_that_fails_later_names_its_refit():
    counter = make_policy("random")._replace(
        init=lambda key, data, offer, prior=None: jnp.zeros((), int),
        refit=lambda key, state, data, offer: state + 1,
        diagnose=lambda state: Diagnostics.none()._replace(finite=state < 4),
    )
    for segment in (1, 2):
        with pytest.raises(FloatingPointError, match="seed 0 is not finite at refit 3"):
            run(experiment(counter), [0], segment=segment)


def test_a_closed_choice_is_an_error():
    def unseen(key, state, data, offer):
        return Choice(*jnp.divmod(jnp.argmin(data.times_seen()), COLUMNS))

    stubborn = make_policy("random")._replace(choose=unseen)
    same = Choice(jnp.asarray(0), jnp.asarray(5))
    blind = stubborn._replace(choose=lambda key, state, data, offer: same)
    run(experiment(stubborn, horizon=4, refits=2), [0])
    with pytest.raises(RuntimeError, match="pick 1 of seed 0 was not an open entry"):
        run(experiment(blind, horizon=4, refits=2, initial=0), [0])


@pytest.mark.parametrize("choice", [(-1, -1), (0, COLUMNS), (ROWS, 0), (1000, 1000)])
def test_a_choice_outside_the_matrix_is_an_error(choice):
    picked = Choice(*map(jnp.asarray, choice))
    lost = make_policy("random")._replace(choose=lambda key, state, data, offer: picked)
    with pytest.raises(RuntimeError, match="pick 0 of seed 0 was not an open entry"):
        run(experiment(lost, horizon=4, refits=2), [0])


def test_segments_run_one_compiled_program():
    traces = []

    def refit(key, state, data, offer):
        traces.append(1)
        return state

    runner = sweep.make_sweep(experiment(make_policy("random")._replace(refit=refit)))
    batches = runner.resume(runner.start([0, 1, 2]))
    next(batches)
    first = len(traces)
    assert first > 0
    assert len(list(batches)) == 3
    assert len(traces) == first


def test_asking_for_errors_changes_no_choice_and_the_run_ends_where_told():
    """A made-up error that falls with the number of observations."""

    def errors(key, data):
        return HeldOut(1.0 / data.number(), jnp.asarray(9.0))

    loop = experiment(make_policy("random"), held_out_errors=errors)
    progress, whole = run(loop, [0, 1, 2])
    _, plain = run(experiment(make_policy("random")), [0, 1, 2])
    assert_same(whole[:6], plain[:6])
    seen = 1 / whole.completion_error  # the design may see an entry twice
    np.testing.assert_allclose(np.diff(seen), 5, rtol=1e-5)
    stop = np.array([1, 2, -1])
    ended = curves_of(progress, stop)
    for seed, picks in enumerate([5, 10, 20]):
        for field in ("regret", "rows", "cols", "reward"):
            kept, made = (getattr(each, field)[seed, :picks] for each in (ended, plain))
            np.testing.assert_array_equal(kept, made)
        assert (ended.rows[seed, picks:] == -1).all()
        assert (ended.reward[seed, picks:] == 0).all()
        assert (ended.regret[seed, picks:] == ended.regret[seed, picks - 1]).all()
    index = [[0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]]
    expected = np.take_along_axis(whole.completion_error, np.array(index), axis=1)
    np.testing.assert_array_equal(ended.completion_error, expected)
    runner = sweep.make_sweep(loop)
    first = next(iter(runner.resume(runner.start([0, 1, 2]))))
    short = curves_of(first, np.zeros(3, int))  # all ended at the first refit
    assert shapes_of(short) == ({(3, 20)}, {(3, 4)})
    assert (short.regret == 0).all()


def test_golden_run():
    """float32 on a CPU: a change here is a change of the experiment."""
    _, random = run(experiment(make_policy("random")), [0])
    _, oracle = oracle_run()
    np.testing.assert_allclose(
        random.regret[0, [4, 9, 19]], [8.994221, 13.922394, 21.123435], rtol=1e-3
    )
    np.testing.assert_allclose(
        oracle.regret[0, [4, 9, 19]], [4.115537, 10.595268, 11.994620], rtol=1e-3
    )


def test_run_goes_from_an_experiment_to_its_curves():
    """As the sweep does, for names and for policies, at any width of the vmap; it tells refits."""
    told = []
    names = ["oracle", "random"]
    settings = {"horizon": 20, "refits": 4, "initial": INITIAL, "seeds": [0, 1, 2]}
    found = run_all(
        DATA, names, preset=PRESET, on_refit=lambda *what: told.append(what), **settings
    )
    assert list(found) == names
    assert_same(found["oracle"], oracle_run()[1])
    assert told == [(name, n, 4) for name in names for n in (1, 2, 3, 4)]
    mine = run_all(DATA, {"mine": make_policy("random")}, vmap_width=3, **settings)
    np.testing.assert_array_equal(mine["mine"].rows, found["random"].rows)


def test_regret_that_is_not_finite_is_an_error():
    """Of a horizon that is longer than there are entries, the best sequence has no rewards."""
    progress, _ = oracle_run()
    endless = progress.best.copy()
    endless[1, 7] = -np.inf
    with pytest.raises(FloatingPointError, match="regret of seed 1 is not finite at pick 7"):
        curves_of(progress._replace(best=endless))


def test_standard_errors_and_paired_intervals():
    first, second = np.array([3.0, 5.0, 8.0, 4.0]), np.array([1.0, 4.0, 4.0, 3.0])
    difference = first - second
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    interval = paired_interval(first, second)
    np.testing.assert_allclose(interval, (difference.mean(), *expected), rtol=1e-12)
    np.testing.assert_allclose(standard_error(first), stats.sem(first), rtol=1e-12)
    assert np.isnan(standard_error(first[:1]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seeds": []}, "seeds: must be at least one number"),
        ({"horizon": 92}, "horizon: 92 picks after an initial design of 5 need more than the 96"),
        (
            {"preset": PRESET._replace(rank=9)},
            "rank: must be at most the 8 rows of the matrix, got 9",
        ),
        (
            {"once": False, "beta": 0.5, "preset": presets.paper()},
            "preset: best_of of ids must be 1",
        ),
    ],
)
def test_run_refuses_what_it_cannot_do(changes, message):
    settings = {"preset": PRESET, "horizon": 8, "refits": 2} | changes
    with pytest.raises(ValueError, match=f"^{message}"):
        run_all(DATA, ["ids"], **settings)
