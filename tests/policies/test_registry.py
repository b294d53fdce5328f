"""The named pairs: what each is made of, and the upper confidence rule against dense algebra."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import dense_entries, make_problem

import smc_jax
from smc_jax import presets
from smc_jax.policies import POLICIES, Setting, make_policy
from smc_jax.policies.registry import (
    IDS_TO_THE_LETTER,
    ORACLES,
    Named,
    named,
    pair,
    settings_among,
    settings_of,
    variant,
)
from smc_jax.policies.thompson import thompson
from smc_jax.simulation.oracles import REVEALED
from smc_jax.types import Offer, Outcome

SETTING = Setting(None, entry_noise=True)


def test_linucb_chooses_the_highest_bound():
    problem = make_problem(3, rows=4, columns=3, rank=2, intercepts=False)
    data, offer = problem.observations, Offer(None, jnp.ones((4, 3), bool), jnp.ones((4, 3)))
    policy = make_policy(
        "icf",
        SETTING,
        rule="linucb",
        rank=2,
        noise_variance=0.4,
        factor_variance=0.9,
        draws=3,
        first_sweeps=20,
        exploration=1.7,
    )
    state = policy.init(jax.random.key(0), data, offer)
    state = jax.jit(policy.refit)(jax.random.key(1), state, data, offer)
    outcome = Outcome(*map(jnp.asarray, (2, 1, 0.8, True)))
    data = data.add(2, 1, 0.8, 1.0)
    offer = Offer(None, offer.open.at[2, 1].set(False), offer.factor.at[0, 2].set(0.5))
    state = jax.jit(policy.absorb)(jax.random.key(2), state, data, outcome, offer)

    looks = [(rows, values) for rows, values in problem.looks]
    looks[1] = (np.append(looks[1][0], 2), np.append(looks[1][1], 0.8))
    bound = np.zeros((4, 3))
    for s in range(3):
        draw = jax.tree.map(lambda x, s=s: x[s], state.ensemble.parameters)
        np.testing.assert_allclose(draw.sigma**2, 0.4, rtol=1e-6)
        for n, (rows, values) in enumerate(looks):
            mean, covariance = dense_entries(draw, rows, values)
            bound[:, n] += (mean + 1.7 * np.sqrt(np.diag(covariance))) / 3
    reward = np.where(offer.open, np.asarray(offer.factor) * bound, -np.inf)
    np.testing.assert_allclose(state.summary.score, reward.max(0), rtol=1e-4, atol=1e-5)
    choice = policy.choose(jax.random.key(3), state, data, offer)
    assert choice == divmod(int(reward.argmax()), 3)


BAD = [
    ("icf", {"rule": "nonsense"}, "rule: unknown 'nonsense'; choose from"),
    ("ids", {"scope": "nonsense"}, "scope: unknown 'nonsense'; choose from"),
    ("ids", {"gain": "nonsense"}, "gain: unknown 'nonsense'; choose from"),
    ("ids", {"selection": "nonsense"}, "selection: unknown 'nonsense'; choose from"),
    ("ids", {"draws": 0}, "draws: must be at least 1, got 0"),
    ("ids", {"best_of": None}, "best_of: None is half of the horizon"),
    ("oracle", {"picks": "nonsense"}, "picks: unknown 'nonsense'; choose from"),
    ("oracle", {"covariance": "nonsense"}, "covariance: unknown 'nonsense'; choose from"),
    ("particle", {"users": "random"}, "users: the policy 'particle' has no such setting"),
    ("nobody", {}, "unknown policy 'nobody'; choose from ids, "),
    ("nowhere:policy", {}, "cannot import the policy 'nowhere:policy': "),
    ("smc_jax:nothing", {}, "cannot import the policy 'smc_jax:nothing': "),
]


@pytest.mark.parametrize(("name", "settings", "message"), BAD)
def test_settings_that_cannot_be_used_are_named(name, settings, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        make_policy(name, SETTING, **settings)


def test_none_is_half_of_the_horizon(monkeypatch):
    seen = {}
    recording = pair(lambda belief, *, best_of=1: seen.update(best_of=best_of))
    recording.make(SETTING._replace(horizon=9), best_of=None)
    assert seen == {"best_of": 4}


def test_a_pair_shares_out_its_settings():
    """A setting goes to the rule, to the belief, or to both if both have it."""
    made = POLICIES["greedy_gibbs"]
    assert {"rank", "sweeps", "draws"} <= set(made.settings)
    assert made.groups == ("greedy", "icf")
    policy = made.make(SETTING, **{**made.settings, "draws": 7, "rank": 2})
    data, offer = (
        smc_jax.Observations.empty(3, 4),
        Offer(None, jnp.ones((3, 4), bool), jnp.ones((3, 4))),
    )
    state = policy.init(jax.random.key(0), data, offer)
    assert state.belief.draws.sigma.shape == (7,)
    assert state.ensemble.parameters.loadings.shape == (7, 3, 2)


def test_a_policy_from_elsewhere(tmp_path, monkeypatch):
    (tmp_path / "elsewhere_rules.py").write_text(
        "from smc_jax import greedy\n"
        "def mine(setting, *, draws=3):\n"
        "    return greedy(setting.belief, draws=draws)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entry = named("elsewhere_rules:mine")
    assert entry.settings == {"draws": 3}
    policy = presets.paper(rank=2).policy("elsewhere_rules:mine", draws=2)
    assert policy.told is None
    del sys.modules["elsewhere_rules"]


def test_settings_are_read_off_the_factory():
    assert settings_of(thompson) == {"noisy": True, "pool": POLICIES["thompson"].settings["pool"]}
    assert POLICIES["particle"].settings["noisy"] is False
    assert "belief" not in POLICIES["ids"].settings


def test_presets_know_only_settings_that_exist():
    for preset in (presets.paper(), presets.ratings()):
        for name, settings in preset.policies.items():
            assert set(settings) <= set(POLICIES[name].settings)
        for name in ("ids", "thompson", "oracle", "particle", "icf", "optspace", "empirical"):
            preset.policy(name, horizon=100)


def test_a_pair_takes_the_settings_of_its_groups():
    """The first group wins, settings that the pair does not know stay out, its own come last."""
    given = {"ids": {"draws": 3, "best_of": 16}, "icf": {"draws": 9, "sweeps": 2, "rule": "linucb"}}
    assert settings_among("ids_gibbs", given) == {"draws": 3, "best_of": 16, "sweeps": 2}
    own = given | {"ids_gibbs": {"sweeps": 4}}
    assert settings_among("ids_gibbs", own) == {"draws": 3, "best_of": 16, "sweeps": 4}
    assert settings_among("icf", given) == given["icf"]
    assert settings_among("random", given) == {}


def test_a_variant_fixes_settings_and_takes_the_others():
    base = Named(lambda setting, **settings: settings, {"a": 1, "b": 2, "c": 3})
    made = variant("base", base, ("c",), a=5)
    assert made.settings == {"b": 2}
    assert made.groups == ("base",)
    assert made.make(SETTING, b=7) == {"a": 5, "b": 7, "c": 3}


def test_what_is_to_the_letter_is_said_in_full():
    """What the paper says of IDS; the numbers of draws and bins are nobody's but the group's."""
    assert IDS_TO_THE_LETTER == {
        "scope": "covariance",
        "gain": "histogram",
        "conditioned": False,
        "selection": "deterministic",
        "best_of": 1,
    }
    assert POLICIES["ids_paper"].settings.keys() == {"draws", "bins", "chunk"}
    assert POLICIES["thompson_paper"].settings.keys() == {"noisy"}


PICKED_BY = [
    (f"{oracle}_{rule}", oracle, rule)
    for oracle in ("oracle", "mean_oracle")
    for rule in ("ids", "greedy")
]


def test_the_oracles_are_known_by_name():
    assert set(ORACLES) == {"oracle", "mean_oracle", *(name for name, _, _ in PICKED_BY)}
    assert POLICIES["oracle_ids"].settings.keys() == {"covariance", "draws", "best_of"}
    assert POLICIES["mean_oracle_greedy"].settings.keys() == {"draws"}


SMALL = {"draws": 3}
SAME = {  # a name, and what it stands for
    "ids_paper": ("ids", IDS_TO_THE_LETTER | SMALL | {"bins": 4}, SMALL | {"bins": 4}),
    "thompson_paper": ("thompson", {"pool": 0, "noisy": False}, {"noisy": False}),
    "oracle_ids": ("oracle", SMALL | {"picks": "ids"}, SMALL),
    "oracle_greedy": ("oracle", SMALL | {"picks": "greedy"}, SMALL),
    "mean_oracle_ids": (
        "mean_oracle",
        SMALL | {"picks": "ids", "best_of": 2},
        SMALL | {"best_of": 2},
    ),
    "mean_oracle_greedy": ("mean_oracle", SMALL | {"picks": "greedy"}, SMALL),
}


@pytest.mark.parametrize("name", SAME)
def test_a_variant_chooses_as_the_policy_with_its_settings(name):
    base, spelled_out, left = SAME[name]
    preset = presets.Preset(rank=2, inference={"first_steps": 10, "steps": 5, "window": 5})
    problem = smc_jax.synthetic(rows=6, columns=8, true_rank=2)(jax.random.key(3))
    seen = np.random.default_rng(0).uniform(size=(6, 8)) < 0.3

    def choices(policy):
        data = smc_jax.Observations.from_matrix(problem.entries, jnp.asarray(seen))
        offer = Offer(None, jnp.asarray(~seen), jnp.ones((6, 8)))
        prior = None if policy.told is None else REVEALED[policy.told](problem)
        state = policy.init(jax.random.key(0), data, offer, prior)
        state = jax.jit(policy.refit)(jax.random.key(1), state, data, offer)
        found = []
        for key in jax.random.split(jax.random.key(2), 4):
            row, column = map(int, policy.choose(key, state, data, offer))
            found.append((row, column))
            outcome = Outcome(*map(jnp.asarray, (row, column, problem.entries[row, column], True)))
            data = data.add(row, column, outcome.value, outcome.weight)
            offer = offer._replace(open=offer.open.at[row, column].set(False))
            state = policy.absorb(key, state, data, outcome, offer)
        return found, jax.tree.structure(state)

    made = preset.policy(name, horizon=20, **left)
    expected = preset.policy(base, horizon=20, **spelled_out)
    assert made.told == expected.told
    assert choices(made) == choices(expected)


def test_the_papers_policies_are_fitted_as_the_paper_does():
    problem = smc_jax.synthetic(rows=6, columns=8, true_rank=2)(jax.random.key(3))
    data = smc_jax.Observations.from_matrix(problem.entries, jnp.ones((6, 8), bool))
    offer = Offer(None, jnp.ones((6, 8), bool), jnp.ones((6, 8)))

    def structure(name, method):
        policy = presets.paper(rank=2, method=method).policy(name, horizon=20)
        return jax.tree.structure(jax.eval_shape(policy.init, jax.random.key(0), data, offer))

    for name in ("ids_paper", "thompson_paper"):
        assert structure(name, "mcmc") == structure(name, "svi")
    for name in ("ids", "thompson"):
        assert structure(name, "mcmc") != structure(name, "svi")


def test_what_is_set_for_an_oracle_reaches_it_whatever_it_picks_by():
    ratings = presets.ratings()
    told = {"covariance": "second_moment", "draws": 4}
    assert settings_among("oracle_greedy", ratings.policies) == told
    assert settings_among("oracle_ids", ratings.policies) == told | {"best_of": None}
    own = {"best_of": 16, "draws": 48}
    assert settings_among("mean_oracle_ids", presets.paper().policies) == own
    assert ratings.policy("oracle_ids", horizon=9).told == "second_moment"
    assert ratings.policy("oracle_greedy").told == "second_moment"
    assert ratings.policy("mean_oracle_greedy").told == "population"
    assert presets.paper().policy("oracle_ids").told == "true"
    assert settings_among("thompson_paper", ratings.policies) == {"noisy": False}
    assert settings_among("ids_paper", {"ids": {"draws": 5, "bins": 9, "best_of": 7}}) == {
        "draws": 5,
        "bins": 9,
    }


@pytest.mark.parametrize("name", ["ids", "greedy", "ucb", "thompson"])
def test_answers_that_depend_on_values_need_values_with_their_noise(name):
    preset = presets.ratings(rank=2, learn_value_slope=True)
    assert preset.policy(name, horizon=9).learns_answers
    with pytest.raises(ValueError, match=r"^entry_noise: must be True [^\n]*$"):
        preset.policy(name, horizon=9, entry_noise=False)
    assert not preset.policy(f"{name}_ignoring", horizon=9, entry_noise=False).learns_answers
