"""The parts of the benchmarks that need no peer and no large matrix."""

import importlib
import json
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from absl import flags
from numpyro.infer.util import log_density
from problems import low_rank_data

from benchmarks import peers, timing
from smc_jax import beliefs
from smc_jax.data.synthetic import synthetic
from smc_jax.loop import make_loop
from smc_jax.model import gamma_process
from smc_jax.policies.ids import GAINS, SCOPES, information_directed


def load(name):
    """A benchmark's module; its flags go, for other benchmarks have flags of the same names."""
    before = set(flags.FLAGS)
    module = importlib.import_module(f"benchmarks.{name}")
    for flag in set(flags.FLAGS) - before:
        delattr(flags.FLAGS, flag)
    return module


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
    told = beliefs.known(lambda problem: problem.truth)  # a fit would take its time to compile
    policy = information_directed(told, gain="histogram", draws=6, bins=histograms.BINS)
    data = synthetic(rows=8, columns=12, true_rank=2)
    loop = make_loop(data, policy, horizon=12, refits=6, initial=20)
    found = histograms.states(policy, loop, [1000, 1001], picks=2)
    assert len(found) == 4
    assert all(0.0 < share <= 1.0 for share in histograms.shares(found))
    case, choice = found[0]
    with pytest.raises(AssertionError, match="brute force"):
        histograms.shares([(case, choice + 1)])


def test_picks_of_every_gain_and_scope_are_timed():
    picks = load("picks")
    config = picks.make_config(8, 12, ratings=True, seen=0.2, refits=6, steps=50)
    assert (config.data, config.model.loadings, config.thompson.noisy) == (
        "synthetic",
        "signed",
        False,
    )
    made = picks.variants(config)
    assert len(made) == 1 + len(GAINS) * len(SCOPES) + len(picks.OTHERS)
    name, own = made["ids variance covariance"]
    assert (name, own.ids.gain, own.ids.scope) == ("ids", "variance", "covariance")
    assert config.ids.gain == "gaussian"


def test_differences_of_curves_are_named():
    sweep = load("sweep")
    one = sweep.Curves(*(np.full((2, 3), 4.0) for _ in sweep.Curves._fields))
    one = one._replace(zero_error=np.full((2, 3), np.nan))
    assert sweep.differences(one, one) == {}
    other = one._replace(elbo=one.elbo + np.asarray([0.0, 0.0, 1.0]))
    assert sweep.differences(one, other) == {"elbo": 0.2}


def test_the_peer_of_svi_has_the_same_joint_density():
    svi = load("svi")
    model = gamma_process(rank=svi.RANK)
    parameters = model.sample_prior(jax.random.key(1), 6, 9)
    parameters = parameters._replace(loadings=parameters.loadings + 0.1, sigma=jnp.asarray(0.7))
    observations = low_rank_data(0, rows=6, columns=9, rank=2)
    values = {name: getattr(parameters, name) for name in svi.SITES}
    peer, _ = log_density(svi.marginal_model, (observations,), {}, values)
    ours = model.log_likelihood(parameters, observations) + model.log_prior(parameters)
    np.testing.assert_allclose(ours, peer, rtol=1e-5)


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
