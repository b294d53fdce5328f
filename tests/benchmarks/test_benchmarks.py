"""The parts of the benchmarks that need no peer and no large matrix."""

import json
import sys
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from benchmarking import load
from numpyro.infer.util import log_density
from problems import low_rank_data

from benchmarks import peers, timing
from benchmarks.experiment import make_experiment
from smc_jax.beliefs.base import stored_belief
from smc_jax.beliefs.told import told
from smc_jax.data.synthetic import synthetic
from smc_jax.model.gamma_process import gamma_process
from smc_jax.model.parameters import Parameters
from smc_jax.policies.ids import GAINS, SCOPES, ids
from smc_jax.policies.random import random
from smc_jax.simulation.environment import make_environment


def test_programs_are_run_once_and_then_in_turn():
    order = []
    programs = {name: lambda name=name: order.append(name) for name in "ab"}
    timings = timing.interleaved(programs, repeats=3)
    assert order == list("abababab")
    assert all(0.0 <= one.low <= one.median <= one.high for one in timings.values())


def test_a_program_may_tell_its_own_seconds():
    told = iter([(9.0, 9.0), (1.0, 0.5), (2.0, 0.6), (3.0, 0.8)])
    timings = timing.interleaved({"peer": lambda: timing.Told(*next(told))}, repeats=3)
    assert timings["peer"] == timing.Timing(2.0, 1.5, 2.5, 0.6)
    assert timings["peer"].each(2) == timing.Timing(1.0, 0.75, 1.25, 0.3)
    assert timing.Timing.of([1.0]).each(2) == timing.Timing(0.5, 0.5, 0.5, None)


def test_a_table_has_medians_quartiles_and_ratios_to_the_peer():
    timings = {
        "ours": timing.Timing(0.002, 0.001, 0.003, 0.002),
        "peer": timing.Timing(0.01, 0.01, 0.02, 0.005),
    }
    title, head, ours, peer, shared = timing.table("a title", timings, peer="peer").splitlines()
    assert title == "a title"
    assert " ".join(head.split()) == "ms quartiles peer / this processor peer / this"
    assert ours.split() == ["ours", "2.00", "1.00-3.00", "5.00", "2.00", "2.50"]
    assert peer.split() == ["peer", "10.00", "10.00-20.00", "1.00", "5.00", "1.00"]
    assert len({len(line) for line in (head, ours, peer)}) == 1
    # The peer waited for the processor, so that the ratio by the clock is not to be trusted.
    assert shared.endswith(": peer")
    unmeasured = {"peer": timing.Timing(1.0, 1.0, 1.0)}
    assert len(timing.table("a title", unmeasured, peer="peer").splitlines()) == 3


def test_figures_are_kept_with_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr(timing, "FOLDER", tmp_path / "kept")
    path = timing.keep("one", {"seconds": 1.5})
    record = json.loads(path.read_text())
    assert record["figures"] == {"seconds": 1.5}
    assert record["machine"]["device"]
    assert record["peak_memory_MiB"] > 1.0
    assert str(path) in timing.closing(path)


def test_exponents_of_exact_power_laws():
    scaling = load("scaling")
    cases = [scaling.sized("50x100"), scaling.sized("100x1000"), scaling.sized("300x3000")]
    cases += [scaling.sized("300x700", rank=5), scaling.sized("300x700", draws=4)]
    law = {case: 3e-6 * case.rows**0.5 * case.columns * case.rank**2 for case in cases}
    found = scaling.exponents(law)
    expected = {"rows": 0.5, "columns": 1.0, "rank": 2.0, "draws": 0.0}
    assert found.keys() == expected.keys()
    for name, power in expected.items():
        np.testing.assert_allclose(found[name], power, atol=1e-9)
    # What does not vary has no exponent.
    assert scaling.exponents({case: law[case] for case in cases[:3]}).keys() == {"rows", "columns"}


def test_prices_of_exact_costs():
    scaling = load("scaling")
    sizes = ("50x100", "100x1000", "300x3000", "3000x300")
    cases = [scaling.sized(size) for size in sizes]
    cases += [scaling.sized("300x700", rank=5), scaling.sized("300x700", draws=4)]
    paid = {
        name: {part: 10.0**-i / 3.0 for i, part in enumerate(parts)}
        for name, parts in scaling.work(cases[0]).items()
    }
    costs = {case: scaling.predict(case, paid) for case in cases}
    by_hand = 1 / 3 + 50 * 100 / 30 + 50 * 100 * 20**2 / 300 + 100 * 20**3 / 3000
    np.testing.assert_allclose(costs[cases[0]].step, by_hand)
    larger = scaling.sized("4000x9000")
    found = scaling.predict(larger, scaling.prices(costs))
    np.testing.assert_allclose(found, scaling.predict(larger, paid), rtol=1e-4)


def test_pruned_histograms_choose_as_brute_force_does():
    histograms = load("histograms")
    # The truth in place of a fit, which would take its time to compile.
    policy = ids(told(), gain="histogram", draws=6, bins=histograms.BINS)._replace(told="true")
    environment = make_environment(synthetic(rows=8, columns=12, true_rank=2), initial=20)
    found = histograms.states(policy, environment, [1000, 1001], picks=2, apart=2)
    assert len(found) == 4
    assert all(0.0 < share <= 1.0 for share in histograms.shares(found))
    case, choice = found[0]
    with pytest.raises(AssertionError, match="brute force"):
        histograms.shares([(case, choice + 1)])


def test_picks_of_every_gain_and_scope_are_timed():
    picks = load("picks")
    made = picks.variants(particles=7)
    assert len(made) == 2 + len(GAINS) * len(SCOPES) + len(picks.OTHERS)
    # The titles under which earlier commits kept the same cases: `against` compares by them.
    assert made["thompson"] == ("thompson", {"pool": 0})
    assert made["thompson pool"] == ("thompson", {"pool": 16})
    assert made["ids variance covariance"] == ("ids", {"gain": "variance", "scope": "covariance"})
    assert made["particle"] == ("particle", {"particles": 7})
    assert list(made)[-6:] == list(picks.OTHERS)


@pytest.mark.parametrize("title", ["thompson", "thompson pool"])
def test_a_pick_is_timed_after_a_fit_that_is_given(title):
    picks = load("picks")
    experiment = make_experiment(6, 8, seen=0.2, refits=8, first_steps=50)
    belief = picks.fit_model(experiment)
    assert int(belief.steps) == 50
    number, made = picks.programs(experiment, picks.variants(particles=2)[title], belief)
    assert number == 6  # 48 in 8 batches
    assert made.keys() == {"pick", "batch"}
    for program in made.values():
        assert program().valid.all()


def test_the_experiment_of_a_benchmark_has_the_size_of_the_config():
    experiment = make_experiment(50, 100, ratings=True, seen=0.25, first_steps=7)
    assert (experiment.horizon, experiment.initial, experiment.refits) == (2600, 1250, 40)
    assert make_experiment(50, 100).initial == 130
    preset = experiment.preset
    assert (preset.model["loadings"], preset.policies["thompson"]["noisy"]) == ("signed", False)
    assert preset.inference["first_steps"] == 7
    fitted = experiment.already_fitted().preset
    assert (fitted.inference["first_steps"], fitted.inference["steps"]) == (0, 0)
    assert fitted.inference["learning_rate"] == preset.inference["learning_rate"]
    assert make_experiment(3, 9).preset.rank == 3


def test_differences_of_curves_are_named():
    sweep = load("sweep")
    one = sweep.Curves(*(np.full((2, 3), 4.0) for _ in sweep.Curves._fields))
    one = one._replace(zero_error=np.full((2, 3), np.nan))
    assert sweep.differences(one, one) == {}
    other = one._replace(elbo=one.elbo + np.asarray([0.0, 0.0, 1.0]))
    assert sweep.differences(one, other) == {"elbo": 0.2}
    same, apart = sweep.told_differences({"elbo": 0.2}).split("; ")
    assert same.startswith("identical bit by bit: regret, reward")
    assert "elbo" not in same
    assert apart == "not: elbo by up to 2.0e-01 of it"


def test_widths_are_compared_and_their_parts_timed(capsys):
    sweep = load("sweep")
    experiment = make_experiment(6, 8, refits=8)._replace(horizon=24)
    loop = experiment.loop(random())
    found = sweep.compare_widths(loop, 4, [1, 2], size="6 x 8", repeats=1)
    widths = {"width 1", "width 2"}
    assert found["seconds"].keys() == widths
    assert found["differ"] == {"width 2": {}}
    assert found["parts"].keys() == {"the first refit", "a later refit", "a batch of 3 picks"}
    assert all(part.keys() == widths for part in found["parts"].values())
    assert "7 x a later refit" in capsys.readouterr().out


def test_the_peer_of_svi_has_the_same_joint_density():
    svi = load("svi")
    model = gamma_process(rank=svi.RANK)
    parameters = model.sample_prior(jax.random.key(1), 6, 9)
    parameters = parameters._replace(loadings=parameters.loadings + 0.1, sigma=jnp.asarray(0.7))
    observations = low_rank_data(0, rows=6, columns=9, rank=2)
    values = {name: getattr(parameters, name) for name in svi.SITES}
    seen = svi.Statistics.of(observations)
    peer, _ = log_density(svi.marginal_model, (seen,), {}, values)
    ours = model.log_likelihood(parameters, observations) + model.log_prior(parameters)
    np.testing.assert_allclose(ours, peer, rtol=1e-5)


def test_what_the_peers_of_svi_are_given_is_what_was_seen():
    svi = load("svi")
    observations = low_rank_data(0, rows=6, columns=9, rank=2)
    row, column = np.argwhere(np.asarray(observations.seen()))[0]
    twice = observations.add(row, column, jnp.asarray(2.0), jnp.asarray(1.0))
    counts, totals, squares = svi.Statistics.of(twice)
    _, before = observations.entry(row, column)
    assert counts[row, column] == 2
    np.testing.assert_allclose(totals[row, column], before + 2.0, rtol=1e-6)
    np.testing.assert_allclose(squares[row, column], before**2 + 4.0, rtol=1e-6)


def test_windows_until_an_elbo_is_reached():
    svi = load("svi")
    assert svi.windows_to(-2.0, np.asarray([-9.0, -3.0, -2.0, -2.5])) == 3
    assert svi.windows_to(-9.0, np.asarray([-9.0, -3.0])) == 1
    with pytest.raises(ValueError, match="no window"):
        svi.windows_to(-1.0, np.asarray([-9.0, np.nan]))


def test_least_ratio_of_two_arms_by_hand():
    variance_ids = load("variance_ids")
    # Each arm is best in one draw: regrets 1, 0.5; E[reward | best] varies by 1 and by 0.25.
    means = jnp.asarray([[2.0, 1.0], [0.0, 2.0]])
    regret, gain = variance_ids.regret_and_gain(means)
    np.testing.assert_allclose(regret, [1.0, 0.5])
    np.testing.assert_allclose(gain, [1.0, 0.25])
    weights = np.linspace(0.0, 1.0, 1001)
    grid = (1.0 - 0.5 * weights) ** 2 / (1.0 - 0.75 * weights)
    np.testing.assert_allclose(variance_ids.least_ratio(means), grid.min(), rtol=1e-4)


def test_a_peer_that_cannot_be_installed_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(peers, "FOLDER", tmp_path / "file" / "peers")
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(peers.PeerError, match=r"^nothing could not be installed: .+$") as error:
        peers.python(peers.Peer("nothing", "import nothing"))
    assert "\n" not in str(error.value)


def test_a_peer_runs_in_its_process_and_tells_why_it_ended(monkeypatch):
    monkeypatch.setattr(peers, "python", lambda peer: sys.executable)
    peer = peers.Peer("double", "import numpy")
    program = """
def once():
    assert inputs["number"] < 5, "too large"
    inputs["number"] = 2 * inputs["number"]
    return {"number": inputs["number"]}
"""
    with peers.Running(peer, program, {"number": 2}) as running:
        assert min(running()) >= 0.0
        assert running.found["number"] == 4
        running()
        assert running.found["number"] == 8
        with pytest.raises(peers.PeerError, match=r"double does not run: .*too large"):
            running()


CHECKOUT = """
import json, pathlib, sys
path = pathlib.Path("results") / "some.json"
path.parent.mkdir()
steps = {{"ours": {{"median": {clock}, "low": 0, "high": 9, "processor": {processor}}}}}
figures = {{"rows": 3, "50x100": {{"step": steps, {own!r}: steps}}, "given": sys.argv[1:]}}
path.write_text(json.dumps({{"figures": figures}}))
print("a table")
print(f"kept in {{path}}; peak memory 1 MiB")
"""


@pytest.fixture
def checkouts(tmp_path):
    """Two trees that are timed, each with a case that the other has not."""
    made = []
    for own, clock, processor in (("old", 4.0, 2.0), ("new", 3.0, 0.5)):
        tree = tmp_path / own
        for package in ("smc_jax", "benchmarks"):
            (tree / package).mkdir(parents=True)
            (tree / package / "__init__.py").write_text("")
        program = CHECKOUT.format(clock=clock, processor=processor, own=own)
        (tree / "benchmarks" / "svi.py").write_text(program)
        made.append(tree)
    return made


def test_two_checkouts_are_compared_case_by_case(checkouts):
    against = load("against")
    old, new = checkouts
    runs = {}
    for tree in checkouts:
        against.check(tree)
        runs[tree] = [against.run(tree, "svi", ["--repeats=1"]) for _ in range(2)]
        assert not (tree / "results").exists()
    found = against.changes(runs[old], runs[new])
    case = ("50x100", "step", "ours")
    assert found.keys() == {case}
    assert found[case] == ((4.0, 2.0), (3.0, 0.5), 0.75, 0.25)
    *_, line = against.table("a title", found).splitlines()
    assert line.split() == ["50x100,", "step,", "ours", "0.25", "0.75", "4000.000", "3000.000"]
    assert against.only_in(runs[new], found) == "50x100, new, ours"


def test_ratios_are_medians_over_rounds_of_runs_next_to_each_other():
    against = load("against")
    # The machine is three times as slow in the second round, which hits both alike.
    old = [{("a",): against.Case(1.0, None)}, {("a",): against.Case(3.0, None)}]
    new = [{("a",): against.Case(2.0, None)}, {("a",): against.Case(6.0, None)}]
    assert against.changes(old, new) == {("a",): ((2.0, None), (4.0, None), 2.0, None)}
    assert against.table("a title", against.changes(old, new)).splitlines()[-1].split()[1] == "-"


def test_what_cannot_be_compared_is_told(checkouts, tmp_path):
    against = load("against")
    with pytest.raises(SystemExit, match=r"^--other: .* is no checkout of smc_jax$"):
        against.check(tmp_path)
    old, _ = checkouts
    (old / "benchmarks" / "svi.py").write_text("raise SystemExit('no such flag')\n")
    with pytest.raises(SystemExit, match=r"^benchmarks.svi of .* failed\nno such flag$"):
        against.run(old, "svi", [])


def test_nuts_as_a_belief_finds_a_rank_one_table():
    """A chain of 60 draws on 6 x 20 of rank one, all but a fifth seen, noise variance 0.09."""
    posteriors = load("posteriors")
    data = low_rank_data(0, rows=6, columns=20, rank=1, seen=0.8)
    belief = posteriors.nuts(gamma_process(rank=2), samples=60)
    state = belief.init(jax.random.key(0), data)
    state = jax.jit(belief.refit)(jax.random.key(1), state, data)
    assert state.draws.sigma.shape == (60,)
    assert len(np.unique(state.draws.sigma)) > 30
    assert 0.05 < (state.draws.sigma**2).mean() < 0.2
    assert belief.diagnose(state).finite


def test_posteriors_are_compared_by_their_means_over_the_seeds():
    posteriors = load("posteriors")
    one = posteriors.single_fit(
        synthetic(rows=6, columns=8, true_rank=1), posteriors.beliefs(4)["svi"], 0.5, draws=2
    )

    def fit(seed):
        return jax.eval_shape(one, seed)._replace(
            **dict.fromkeys(jax.eval_shape(one, seed)._fields, 1.0 * seed)
        )

    assert posteriors.figures(fit, [1, 4])[:5] == [2.5] * 5


def test_directions_of_the_mean_are_those_above_the_noise():
    ranks = load("ranks")
    covariance = jnp.diag(jnp.asarray([3.0, 0.2, 0.05]))
    assert ranks.directions(ranks.Found(None, None, covariance, 0.1)) == 2
    fit = ranks.fit(synthetic(rows=6, columns=8, true_rank=1), told_belief(), 0.9)
    found = fit(np.uint32(0))
    np.testing.assert_allclose(found.covariance, np.ones((6, 6)))
    assert float(found.noise_variance) == pytest.approx(0.1)
    assert float(found.columns) == 1.0


def told_belief():
    """A belief that stores one factor of ones, and a noise of variance 0.1."""
    one = Parameters.plain(jnp.ones((6, 1)), jnp.sqrt(0.1))
    stored = Drawn(jax.tree.map(lambda x: x[None], one))
    return stored_belief(
        lambda key, data, prior=None: stored,
        lambda key, state, data: state,
        lambda state: None,
    )


class Drawn(NamedTuple):
    draws: Parameters


def test_lists_and_matrices_of_the_benchmark_are_of_the_same_values():
    looks = load("looks")
    values = looks.values_of(12, 15, 60)
    assert len({*zip(values.row.tolist(), values.column.tolist(), strict=True)}) == 60
    chex.assert_trees_all_close(values.looks().dense(), values.dense(), atol=1e-6)
    programs = [looks.programs(data) for data in (values.looks(), values.dense())]
    for name in ("step", "sweep"):
        np.testing.assert_allclose(*(made[name]() for made in programs), rtol=1e-2)


def test_costs_of_lists_have_exponents(capsys):
    looks = load("looks")
    found = looks.growing([12, 24], 60, 1)
    assert found["exponents"].keys() == {"step", "sweep"}
    assert "24 x 24: step" in capsys.readouterr().out
