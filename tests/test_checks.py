"""Every factory refuses a setting that it cannot use, in one line that begins with its name."""

import inspect
import math
import re

import jax
import pytest
from problems import low_rank_data

from smc_jax import checks
from smc_jax.beliefs import starts
from smc_jax.beliefs.gibbs import gibbs
from smc_jax.beliefs.pairwise import pairwise
from smc_jax.beliefs.particles import particles
from smc_jax.beliefs.told import told
from smc_jax.beliefs.variational import Inference, adadelta, adam, svi, variational
from smc_jax.completion.stopping import held_out_errors
from smc_jax.data.synthetic import synthetic
from smc_jax.model.gamma_process import gamma_process
from smc_jax.policies.completion import completion
from smc_jax.policies.equalised import equalised
from smc_jax.policies.greedy import greedy
from smc_jax.policies.ids import ids
from smc_jax.policies.random import random
from smc_jax.policies.thompson import thompson
from smc_jax.policies.ucb import ucb
from smc_jax.predictions import predict
from smc_jax.simulation.environment import make_environment
from smc_jax.simulation.loop import make_loop
from smc_jax.simulation.offers import arrivals, budgets, restricted, stock
from smc_jax.simulation.sweep import make_resets, make_sweep

MODEL = gamma_process(rank=2)
BELIEF = pairwise()
POLICY = random()
ENVIRONMENT = make_environment(synthetic(rows=3, columns=4, true_rank=2), initial=0)
LOOP = make_loop(ENVIRONMENT, POLICY, horizon=2)


def svi_on_model(**settings):
    return svi(model=MODEL, **{"optimiser": adam(), **settings})


def variational_on_model(**settings):
    return variational(MODEL, starts.random(MODEL), Inference(None, None), **settings)


def predict_two(**settings):
    data = low_rank_data(0, rows=3, columns=4, rank=1)
    policy = greedy(BELIEF)
    return predict(jax.random.key(0), policy, None, data, [0, 1], [1, 1], **settings)


def environment_of(**settings):
    return make_environment(synthetic(), **{"initial": 1, **settings})


def loop_of(**settings):
    return make_loop(ENVIRONMENT, POLICY, **{"horizon": 2, **settings})


def errors_with(**settings):
    return held_out_errors(**{"fraction": 0.1, "noise_deviation": 1.0, **settings})


FACTORIES = {
    "gamma_process": (gamma_process, lambda **own: gamma_process(**{"rank": 2, **own})),
    "maximum_a_posteriori": (
        starts.maximum_a_posteriori,
        lambda **own: starts.maximum_a_posteriori(MODEL, **own),
    ),
    "adam": (adam, adam),
    "adadelta": (adadelta, adadelta),
    "svi": (svi, svi_on_model),
    "variational": (variational, variational_on_model),
    "gibbs": (gibbs, gibbs),
    "particles": (particles, particles),
    "pairwise": (pairwise, pairwise),
    "ids": (ids, lambda **own: ids(BELIEF, **own)),
    "greedy": (greedy, lambda **own: greedy(BELIEF, **own)),
    "ucb": (ucb, lambda **own: ucb(BELIEF, **own)),
    "thompson": (thompson, lambda **own: thompson(BELIEF, **{"entry_noise": True, **own})),
    "completion": (completion, completion),
    "equalised": (equalised, lambda **own: equalised(POLICY, **own)),
    "predict": (predict, predict_two),
    "held_out_errors": (held_out_errors, errors_with),
    "synthetic": (synthetic, synthetic),
    "make_environment": (make_environment, environment_of),
    "arrivals": (arrivals, lambda **own: arrivals(ENVIRONMENT, **own)),
    "stock": (stock, lambda **own: stock(ENVIRONMENT, **{"in_stock": 0.5, **own})),
    "budgets": (budgets, lambda **own: budgets(ENVIRONMENT, **{"row": 1, **own})),
    "make_loop": (make_loop, loop_of),
    "make_sweep": (make_sweep, lambda **own: make_sweep(LOOP, **own)),
    "make_resets": (make_resets, lambda **own: make_resets(LOOP.reset, **own)),
}

NAN, INFINITE = math.nan, math.inf
FEW = (0, -1, NAN)  # for what must be at least one
NOT_POSITIVE = (0.0, -1.0, NAN, INFINITE)
NEGATIVE = (-1, NAN)
WORD = ("nonsense", None)
BAD = {
    "gamma_process": {
        "rank": FEW,
        "loadings": WORD,
        "intercept_scale": NOT_POSITIVE,
        "noise_shape": NOT_POSITIVE,
        "noise_rate": NOT_POSITIVE,
        "fixed_noise": NOT_POSITIVE,
        "noise_bound": NOT_POSITIVE,
        "noise_spread": NEGATIVE,
        "common": NEGATIVE,
    },
    "maximum_a_posteriori": {"steps": FEW},
    "adam": {"learning_rate": NOT_POSITIVE, "first_rate": NOT_POSITIVE},
    "adadelta": {"learning_rate": NOT_POSITIVE},
    "svi": {
        "draws": FEW,
        "columns": FEW,
        "window": FEW,
        "tolerance": NEGATIVE,
        "start_scale": NOT_POSITIVE,
    },
    "variational": {"first_steps": NEGATIVE, "steps": NEGATIVE},
    "gibbs": {
        "rank": FEW,
        "noise_variance": NOT_POSITIVE,
        "factor_variance": NOT_POSITIVE,
        "sweeps": FEW,
        "draws": FEW,
        "first_sweeps": FEW,
        "shape": NOT_POSITIVE,
        "rate": NOT_POSITIVE,
    },
    "particles": {
        "particles": FEW,
        "rank": FEW,
        "noise_variance": NOT_POSITIVE,
        "factor_variance": NOT_POSITIVE,
        "shape": NOT_POSITIVE,
        "rate": NOT_POSITIVE,
    },
    "pairwise": {"strength": NOT_POSITIVE, "floor": NOT_POSITIVE},
    "ids": {
        "draws": FEW,
        "scope": WORD,
        "gain": WORD,
        "selection": WORD,
        "best_of": FEW,
        "bins": (1, *FEW),
        "chunk": FEW,
        "kept": FEW,
    },
    "greedy": {"draws": FEW, "kept": FEW},
    "ucb": {"draws": FEW, "exploration": NEGATIVE, "kept": FEW},
    "thompson": {"pool": NEGATIVE},
    "completion": {"rank": FEW, "penalty": NEGATIVE, "steps": FEW},
    "equalised": {"strength": NOT_POSITIVE},
    "predict": {"draws": FEW, "quantiles": ((0.0,), (0.5, 1.0), (-0.1,), (NAN,))},
    "held_out_errors": {"fraction": (0.0, 1.0, -0.1, NAN), "noise_deviation": NOT_POSITIVE},
    "synthetic": {
        "rows": FEW,
        "columns": FEW,
        "true_rank": (*FEW, 51),
        "loadings": WORD,
        "noise_variance": NOT_POSITIVE,
    },
    "make_environment": {"initial": NEGATIVE, "beta": (-0.1, 1.1, NAN)},
    "arrivals": {"number": FEW, "activity": (-1.0, NAN), "weights": ((1.0, 0.0), (NAN,), 1.0)},
    "stock": {"in_stock": (0.0, 1.0, NAN), "duration": (1.0, INFINITE, NAN)},
    "budgets": {"row": FEW, "column": FEW},
    "make_loop": {"horizon": FEW, "refits": FEW, "asked": FEW, "delay": NEGATIVE, "told": WORD},
    "make_sweep": {"segment": FEW, "vmap_width": FEW, "shard": WORD},
    "make_resets": {"vmap_width": FEW, "shard": WORD},
}
# Where the error has the name of the experiment's setting, which is not the argument's.
CALLED = {("held_out_errors", "fraction"): "held_out", ("arrivals", "number"): "arrivals"}
# Settings of which any value of their type will do, and objects.
ANYTHING = {
    "model",
    "optimiser",
    "entry_noise",
    "held_out_errors",
    "prior",
    "devices",
    "resets",
}


CASES = [
    pytest.param(factory, name, value, id=f"{factory}-{name}-{value}")
    for factory, settings in BAD.items()
    for name, values in settings.items()
    for value in values
]


@pytest.mark.parametrize(("factory", "name", "value"), CASES)
def test_a_value_that_cannot_be_used_is_refused_by_name(factory, name, value):
    _, make = FACTORIES[factory]
    called = CALLED.get((factory, name), name)
    with pytest.raises(ValueError, match=rf"^{called}: [^\n]+$") as caught:
        make(**{name: value})
    assert str(value).strip("(),") in str(caught.value)


@pytest.mark.parametrize("factory", FACTORIES)
def test_every_setting_has_a_value_that_is_refused(factory):
    """All but those that are true or false."""
    signature, _ = FACTORIES[factory]
    settings = {
        name
        for name, parameter in inspect.signature(signature).parameters.items()
        if (parameter.kind is parameter.KEYWORD_ONLY or name == "learning_rate")
        and not isinstance(parameter.default, bool)
    }
    assert settings - ANYTHING == set(BAD[factory])


@pytest.mark.parametrize("factory", FACTORIES)
def test_defaults_are_accepted(factory):
    """But for `predict`, which would need a state."""
    if factory != "predict":
        FACTORIES[factory][1]()


def test_a_word_that_is_not_known_is_told_the_others():
    with pytest.raises(ValueError, match=r"^scope: unknown 'all'; choose from matrix, covariance$"):
        ids(BELIEF, scope="all")


ACROSS = {
    "tolerance with columns": (
        lambda: svi_on_model(columns=3, tolerance=0.1),
        r"tolerance: must be 0 where a step takes some columns, got 0\.1",
    ),
    "rank above rows": (
        lambda: synthetic(rows=3, true_rank=4),
        r"true_rank: must be at most rows = 3, got 4",
    ),
    "columns side by side": (
        lambda: make_sweep(LOOP, shard="columns", vmap_width=2),
        r"vmap_width: must be 1 where columns are shared out, got 2",
    ),
    "arrivals with repeats": (
        lambda: arrivals(environment_of(once=False, beta=0.5)),
        r"arrivals: is for entries that are chosen once; set once=True",
    ),
    "restricted with repeats": (
        lambda: restricted(environment_of(once=False, beta=0.5), lambda key, clock: False),
        r"restricted: is for entries that are chosen once; set once=True",
    ),
    "more arrivals than columns": (
        lambda: make_loop(arrivals(ENVIRONMENT, number=5), POLICY, horizon=2).reset(0),
        r"arrivals: must be at most the 4 columns, got 5",
    ),
    "predictions without a model": (
        lambda: predict(jax.random.key(0), POLICY, (), None, [0], [0]),
        r"policy: it fits no model, so that it has no predictions",
    ),
    "completion of a higher rank than the matrix": (
        lambda: completion(rank=4).init(
            jax.random.key(0), low_rank_data(0, rows=3, columns=4, rank=1), None
        ),
        r"rank: must be at most 3, got 4",
    ),
    "a prior for a completion": (
        lambda: completion().init(
            jax.random.key(0), low_rank_data(0, rows=3, columns=4, rank=1), None, 1.0
        ),
        r"prior: the belief 'completion' takes none, got float",
    ),
    "an oracle that is told nothing": (
        lambda: told().init(jax.random.key(0), low_rank_data(0, rows=3, columns=4, rank=1)),
        r"prior: an oracle must be told [^\n]*, got NoneType",
    ),
}


@pytest.mark.parametrize("case", ACROSS)
def test_settings_that_do_not_go_together_are_refused(case):
    make, message = ACROSS[case]
    with pytest.raises(ValueError, match=f"^{message}$"):
        make()


@pytest.mark.parametrize(
    ("check", "arguments", "message"),
    [
        (checks.at_least, (0, 1), "x: must be at least 1, got 0"),
        (checks.at_least, (-2, 0), "x: must not be negative, got -2"),
        (checks.at_least, (NAN, 0.0), "x: must not be negative, got nan"),
        (checks.positive, (0.0,), "x: must be positive, got 0.0"),
        (checks.positive, (INFINITE,), "x: must be positive, got inf"),
        (checks.one_of, ("c", ("a", "b")), "x: unknown 'c'; choose from a, b"),
        (checks.between, (1.0, 0.0, 1.0), "x: must lie between 0 and 1, got 1.0"),
    ],
)
def test_what_a_check_says(check, arguments, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check("x", *arguments)


def test_what_is_optional_may_be_none():
    checks.at_least("x", None, 1, optional=True)
    checks.positive("x", None, optional=True)
    checks.at_least("x", 1, 1)
    checks.positive("x", 1e-9)
    checks.between("x", 0.5, 0.0, 1.0)
    checks.one_of("x", "a", {"a": 1})
