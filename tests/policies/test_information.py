"""The information code against independent float64 NumPy references."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, stats

from smc_jax.policies import information


def discrete_information(outcomes, best):
    """I(A*; y) = H(y) - sum over a* of p(a*) H(y | a*), by loops."""

    def entropy(p):
        return -sum(x * np.log(x) for x in p if x > 0)

    outcomes = np.asarray(outcomes, np.float64)
    left = sum(np.mean(best == a) * entropy(outcomes[best == a].mean(0)) for a in sorted(set(best)))
    return entropy(outcomes.mean(0)) - left


def mixture_information(means, scales, best):
    """I(A*; y) of a normal mixture with equal weights, by quadrature."""
    components = [stats.norm(m, s) for m, s in zip(means, scales, strict=True)]

    def integrand(y):
        density = np.array([c.pdf(y) for c in components])
        parts = np.array([density[best == a].sum() for a in sorted(set(best))]) / len(means)
        weights = np.array([np.mean(best == a) for a in sorted(set(best))])
        marginal = parts.sum()
        positive = parts > 0
        return (parts * np.log(np.where(positive, parts, 1.0) / (weights * marginal)))[
            positive
        ].sum()

    low, high = np.min(means - 8 * scales), np.max(means + 8 * scales)
    return integrate.quad(integrand, low, high, limit=400, points=list(means))[0]


def ratios_of_pairs(regret, gain, weights):
    """The smallest Delta^2 / g over all pairs of actions and mixing weights, by brute force."""
    best = np.inf
    for i, j in itertools.product(range(len(regret)), repeat=2):
        mixed_regret = (1 - weights) * regret[i] + weights * regret[j]
        mixed_gain = (1 - weights) * gain[i] + weights * gain[j]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(mixed_regret <= 0, 0.0, mixed_regret**2 / mixed_gain)
        best = min(best, ratio.min())
    return best


def test_groups_are_the_first_draw_with_the_same_best():
    best = jnp.asarray([7, 3, 7, 9, 3, 7])
    np.testing.assert_array_equal(information.best_groups(best), [0, 1, 0, 3, 1, 0])


def test_information_by_hand():
    groups = jnp.asarray([0, 1])
    # A certain outcome for each draw tells which: log 2. The same table twice tells nothing.
    certain = information.mutual_information(jnp.eye(2), groups)
    np.testing.assert_allclose(certain, np.log(2), rtol=1e-6)
    alike = information.mutual_information(jnp.asarray([[0.3, 0.7]] * 2), groups)
    np.testing.assert_allclose(alike, 0.0, atol=1e-6)
    # A binary symmetric channel with error 0.1: log 2 - H(0.1).
    channel = information.mutual_information(jnp.asarray([[0.9, 0.1], [0.1, 0.9]]), groups)
    expected = np.log(2) + 0.1 * np.log(0.1) + 0.9 * np.log(0.9)
    np.testing.assert_allclose(channel, expected, rtol=1e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("seed", range(4))
def test_information_of_random_tables(seed):
    rng = np.random.default_rng(seed)
    outcomes = rng.dirichlet(np.full(5, 0.5), size=9)
    outcomes[0] = [1, 0, 0, 0, 0]  # 0 log 0 = 0
    best = rng.integers(0, 4, 9)
    groups = information.best_groups(jnp.asarray(best))
    actual = information.mutual_information(jnp.asarray(outcomes), groups)
    np.testing.assert_allclose(actual, discrete_information(outcomes, best), rtol=1e-10)
    # The name of a group does not matter, and neither does the order of the draws.
    order = rng.permutation(9)
    again = information.mutual_information(jnp.asarray(outcomes[order]), jnp.asarray(best[order]))
    np.testing.assert_allclose(again, actual, rtol=1e-10)


def test_bins_hold_all_the_probability_of_every_draw():
    mean, scale = jnp.asarray([-3.0, 0.0, 50.0]), jnp.asarray([0.1, 2.0, 5.0])
    table = information.normal_bins(mean, scale, 16)
    assert table.shape == (3, 16)
    assert (table >= 0).all()
    np.testing.assert_allclose(table.sum(1), 1.0, rtol=1e-6)
    # One draw alone: the bins are its quantiles.
    alone = information.normal_bins(jnp.asarray([4.0]), jnp.asarray([0.3]), 8)
    np.testing.assert_allclose(alone, np.full((1, 8), 1 / 8), rtol=1e-5)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(("gap", "scales"), [(0.5, (1.0, 1.0)), (3.0, (1.0, 0.5))])
def test_many_bins_converge_to_the_integral_from_below(gap, scales):
    mean, scale = np.array([0.0, gap]), np.array(scales)
    best = np.array([0, 1])
    exact = mixture_information(mean, scale, best)
    binned = [
        information.mutual_information(
            information.normal_bins(jnp.asarray(mean), jnp.asarray(scale), bins), jnp.asarray(best)
        ).item()
        for bins in (4, 16, 64, 1024)
    ]
    # Each set of bins refines the one before, and a coarser outcome cannot say more.
    assert np.all(np.diff(binned) > 0)
    assert binned[-1] <= exact
    np.testing.assert_allclose(binned[-1], exact, rtol=1e-2)
    assert binned[0] < 0.95 * exact


@pytest.mark.usefixtures("x64")
def test_histogram_gain_is_the_brute_force_whatever_the_chunk():
    rng = np.random.default_rng(0)
    means, scales = rng.normal(size=(6, 11)), rng.uniform(0.3, 1.5, (6, 11))
    best = np.array([4, 2, 4, 4, 9, 2])
    brute = []
    for mean, scale in zip(means.T, scales.T, strict=True):
        width = np.sqrt(mean.var() + np.mean(scale**2))
        edges = mean.mean() + width * stats.norm.ppf(np.arange(9) / 8)  # infinite at both ends
        below = stats.norm.cdf((edges - mean[:, None]) / scale[:, None])
        brute.append(discrete_information(np.diff(below, axis=1), best))
    for chunk in (1, 4, 11, 64):
        gain = information.histogram_gain(
            jnp.asarray(means), jnp.asarray(scales), jnp.asarray(best), bins=8, chunk=chunk
        )
        np.testing.assert_allclose(gain, brute, rtol=1e-9)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("seed", range(3))
def test_gaussian_gain_bounds_the_information_where_the_noise_is_one(seed):
    """h(y) is at most that of a normal with the same variance; h(y | theta) is exact."""
    rng = np.random.default_rng(seed)
    mean, scale = rng.normal(scale=2.0, size=8), np.full(8, 0.7)
    best = rng.integers(0, 3, 8)
    bound = information.gaussian_gain(np.mean(scale**2) + mean.var(), np.mean(scale**2)).item()
    assert mixture_information(mean, scale, best) < bound
    binned = information.histogram_gain(
        *map(jnp.asarray, (mean[:, None], scale[:, None], best)), bins=512
    )
    assert binned.item() < bound


def test_gaussian_gain_by_hand():
    gain = information.gaussian_gain(jnp.asarray([np.e**2, 1.0, 0.5]), 1.0)
    # Rounding may leave the total below its part: no gain then, never a negative one.
    np.testing.assert_allclose(gain, [1.0, 0.0, 0.0], rtol=1e-6)


def test_variance_gain_by_hand():
    means = jnp.asarray([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]])
    best = jnp.asarray([1, 1, 0])
    # E[y | A*] is 2, 2, 8 with mean 4: variance (4 + 4 + 16) / 3.
    np.testing.assert_allclose(information.variance_gain(means, best), [8.0, 0.0], rtol=1e-6)


@pytest.mark.usefixtures("x64")
def test_variance_gain_obeys_the_law_of_total_variance():
    rng = np.random.default_rng(1)
    means, best = rng.normal(size=(12, 7)), rng.integers(0, 4, 12)
    within = sum(np.mean(best == a) * means[best == a].var(0) for a in set(best))
    gain = information.variance_gain(jnp.asarray(means), jnp.asarray(best))
    np.testing.assert_allclose(gain + within, means.var(0), rtol=1e-10)


def test_ratio_at_its_edges():
    regret = jnp.asarray([2.0, 0.0, -1e-7, 1.0, 0.0, 1.0])
    gain = jnp.asarray([0.5, 0.5, 0.0, 0.0, 0.0, -1e-8])
    ratio = information.information_ratio(regret, gain)
    np.testing.assert_array_equal(ratio, [8.0, 0.0, 0.0, np.inf, 0.0, np.inf])


def test_deterministic_choice_by_hand():
    regret, gain = jnp.asarray([1.0, 2.0, 0.5]), jnp.asarray([0.1, 1.0, 0.01])
    choose = information.deterministic_choice
    assert choose(regret, gain, jnp.asarray([True, True, True])) == 1  # ratios 10, 4, 25
    assert choose(regret, gain, jnp.asarray([True, False, True])) == 0
    assert choose(regret, jnp.zeros(3), jnp.asarray([True, True, True])) == 2
    assert choose(regret, jnp.zeros(3), jnp.asarray([True, True, False])) == 0


def random_instances(number, actions, seed):
    """Regrets, gains and availability; a third of the gains are zero, some regrets tie."""
    rng = np.random.default_rng(seed)
    regret = rng.exponential(size=(number, actions)) + rng.choice([0.01, 1.0], (number, 1))
    regret[::5, 1] = regret[::5, 0]
    gain = rng.exponential(size=(number, actions)) ** 3 * (
        rng.uniform(size=(number, actions)) > 0.3
    )
    gain[::7] = 0.0
    available = rng.uniform(size=(number, actions)) < 0.6
    available[np.arange(number), rng.integers(0, actions, number)] = True
    return regret, gain, available


@pytest.mark.usefixtures("x64")
def test_choices_are_always_available():
    regret, gain, available = random_instances(300, 6, seed=2)
    regret[::3] -= 1.0  # negative regrets, which S draws can produce
    instances = tuple(map(jnp.asarray, (regret, gain, available)))
    rows = np.arange(len(regret))
    single = jax.vmap(information.deterministic_choice)(*instances)
    assert available[rows, single].all()
    keys = jax.random.split(jax.random.key(0), len(regret))
    mixed = jax.vmap(information.two_action_choice)(keys, *instances)
    assert available[rows, mixed].all()


@pytest.mark.usefixtures("x64")
def test_two_actions_are_the_best_of_all_mixtures():
    regret, gain, available = random_instances(120, 6, seed=3)
    instances = tuple(map(jnp.asarray, (regret, gain, available)))
    first, second, weight = (
        np.asarray(x) for x in jax.jit(jax.vmap(information.two_action_mixture))(*instances)
    )
    assert ((weight >= 0) & (weight <= 1)).all()
    improved = 0
    for index, (delta, g, mask) in enumerate(zip(regret, gain, available, strict=True)):
        i, j, q = first[index], second[index], weight[index]
        assert mask[i]
        assert mask[j]
        if not g[mask].any():
            continue
        actual = ((1 - q) * delta[i] + q * delta[j]) ** 2 / ((1 - q) * g[i] + q * g[j])
        brute = ratios_of_pairs(delta[mask], g[mask], np.linspace(0, 1, 2001))
        with np.errstate(divide="ignore"):
            single = (delta[mask] ** 2 / g[mask]).min()
        # The grid cannot beat the optimum, and comes close to it.
        assert actual <= brute * (1 + 1e-9)
        np.testing.assert_allclose(actual, brute, rtol=1e-4)
        assert actual <= single * (1 + 1e-9)
        improved += actual < 0.99 * single
    assert improved > 5  # a real mixture in some instances, so that the weight was tested


@pytest.mark.usefixtures("x64")
def test_two_actions_also_beat_random_distributions():
    regret, gain, _ = random_instances(1, 6, seed=4)
    regret, gain = regret[0], gain[0] + 0.01
    i, j, q = information.two_action_mixture(
        jnp.asarray(regret), jnp.asarray(gain), jnp.ones(6, bool)
    )
    ratio = ((1 - q) * regret[i] + q * regret[j]) ** 2 / ((1 - q) * gain[i] + q * gain[j])
    distributions = np.random.default_rng(5).dirichlet(np.full(6, 0.3), size=20000)
    assert ratio <= ((distributions @ regret) ** 2 / (distributions @ gain)).min() + 1e-12


def test_two_actions_lose_nothing_in_float32():
    """The bisection ends one rounding apart, where the two actions must not become one."""
    generator = np.random.default_rng(6)
    regret = generator.uniform(0.1, 10.0, (600, 5)).astype(np.float32)
    gain = (10.0 ** generator.uniform(-3.0, 1.0, (600, 5))).astype(np.float32)
    mixtures = jax.jit(jax.vmap(information.two_action_mixture))(
        regret, gain, jnp.ones((600, 5), bool)
    )
    weights = np.linspace(0, 1, 501)
    for delta, g, i, j, q in zip(regret, gain, *map(np.asarray, mixtures), strict=True):
        actual = ((1 - q) * delta[i] + q * delta[j]) ** 2 / ((1 - q) * g[i] + q * g[j])
        best = ratios_of_pairs(delta.astype(float), g.astype(float), weights)
        assert actual <= best * (1 + 1e-3)


def least_ratio(regret, gain):
    """The smallest Delta^2 / g over all pairs and mixing weights, however small, in float64.

    Neighbouring weights differ by 2 %, which costs less than 1e-3 of the ratio.
    """
    regret, gain = np.asarray(regret, float), np.asarray(gain, float)
    weights = np.concatenate([[0.0], np.geomspace(1e-62, 1.0, 7200)])
    i, j = (index.ravel() for index in np.indices((len(regret), len(regret))))
    mixed_regret = np.outer(regret[i], 1 - weights) + np.outer(regret[j], weights)
    mixed_gain = np.outer(gain[i], 1 - weights) + np.outer(gain[j], weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(mixed_regret == 0, 0.0, mixed_regret**2 / mixed_gain).min()


def any_units(number, seed):
    """float32 instances of four actions whose regrets and gains are within 1e-15 and 1e15.

    Half of them are spread over all these decades, half over a few; some of either are zero.
    """
    rng = np.random.default_rng(seed)

    def powers():
        unit = rng.uniform(-14, 14, (number, 1))
        narrow = np.clip(unit + rng.uniform(-2, 2, (number, 4)), -15, 15)
        wide = rng.uniform(-15, 15, (number, 4))
        values = 10 ** np.where(np.arange(number)[:, None] % 2, narrow, wide)
        return np.where(rng.uniform(size=values.shape) < 0.1, 0.0, values).astype(np.float32)

    regret, gain, available = powers(), powers(), rng.uniform(size=(number, 4)) < 0.7
    gain[::40] = 0.0
    available[np.arange(number), rng.integers(0, 4, number)] = True
    return regret, gain, available


def test_two_actions_in_any_units():
    regret, gain, available = any_units(600, seed=8)
    mixtures = jax.jit(jax.vmap(information.two_action_mixture))(regret, gain, available)
    alone = nothing = mixed = 0
    for delta, g, mask, i, j, q in zip(
        regret, gain, available, *map(np.asarray, mixtures), strict=True
    ):
        assert mask[i]
        assert mask[j]
        assert 0 <= q <= 1
        delta, g, q = delta.astype(float), g.astype(float), float(q)
        alone += mask.sum() == 1
        if not g[mask].any():
            nothing += 1
            assert delta[i] == delta[j] == delta[mask].min()
            continue
        mixed_regret = (1 - q) * delta[i] + q * delta[j]
        mixed_gain = (1 - q) * g[i] + q * g[j]
        actual = mixed_regret**2 / mixed_gain if mixed_regret > 0 else 0.0
        assert actual <= least_ratio(delta[mask], g[mask]) * (1 + 1e-3)
        mixed += 1e-3 < q < 1 - 1e-3 and i != j
    assert min(alone, nothing, mixed) > 3


def test_small_regrets_and_large_gains_mix_as_they_do_in_other_units():
    """A bracket for t that was not in the units of the data made the ratio 24 times the least."""
    regret = np.asarray([0.2, 1.0, 3.0], np.float32)
    gain = np.asarray([0.001, 0.9, 0.1], np.float32)
    everything = jnp.ones(3, bool)
    expected = information.two_action_mixture(regret, gain, everything)
    assert 0.1 < expected[2] < 0.9
    scaled = information.two_action_mixture(1e-10 * regret, 1e8 * gain, everything)
    assert scaled[:2] == expected[:2]
    np.testing.assert_allclose(scaled[2], expected[2], rtol=1e-4)


def test_units_of_regret_and_gain_leave_the_mixture_alone():
    """Powers of two are exact in float32: the same actions, and the very same weight."""
    rng = np.random.default_rng(9)
    regret = rng.uniform(0.1, 10.0, (40, 5)).astype(np.float32)
    gain = (10.0 ** rng.uniform(-3.0, 1.0, (40, 5))).astype(np.float32)
    available = np.ones((40, 5), bool)
    mixture = jax.jit(jax.vmap(information.two_action_mixture))
    expected = mixture(regret, gain, available)
    for of_regret, of_gain in itertools.product([-100, -50, -3, 0, 50, 100], repeat=2):
        scaled = mixture(np.ldexp(regret, of_regret), np.ldexp(gain, of_gain), available)
        for found, wanted in zip(scaled, expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


def test_two_actions_at_their_edges():
    everything = jnp.ones(3, bool)
    key = jax.random.key(0)
    choose = information.two_action_choice
    regret = jnp.asarray([1.0, 0.5, 2.0])
    assert choose(key, regret, jnp.zeros(3), everything) == 1  # nothing to learn: least regret
    assert choose(key, regret, jnp.zeros(3), jnp.asarray([True, False, True])) == 0
    free = jnp.asarray([1.0, 0.0, 2.0])  # nothing is lost by the second
    assert choose(key, free, jnp.ones(3), everything) == 1
    assert choose(key, free, jnp.asarray([5.0, 0.0, 5.0]), everything) == 1
    for gain, most in (([7.0, 3.0, 5.0], 0), ([3.0, 5.0, 7.0], 2), ([0.0, 5.0, 3.0], 1)):
        assert choose(key, jnp.zeros(3), jnp.asarray(gain), everything) == most
    tied = choose(key, jnp.ones(3), jnp.ones(3), jnp.asarray([False, True, True]))
    assert tied in (1, 2)


def test_two_action_choice_follows_the_mixing_weight():
    regret, gain = jnp.asarray([0.2, 1.0, 3.0]), jnp.asarray([0.001, 0.9, 0.1])
    everything = jnp.ones(3, bool)
    i, j, q = information.two_action_mixture(regret, gain, everything)
    assert 0.1 < q < 0.9
    keys = jax.random.split(jax.random.key(1), 4000)
    choices = jax.vmap(information.two_action_choice, in_axes=(0, None, None, None))(
        keys, regret, gain, everything
    )
    assert set(np.unique(choices)) == {int(i), int(j)}
    # Binomial at |z| < 4: fails for 6e-5 of the seeds.
    error = np.sqrt(q * (1 - q) / 4000)
    assert abs(np.mean(choices == j) - q) < 4 * error


def pruning_instance(seed, actions=600, draws=12):
    """Regrets, means, scales and best actions, some actions twice, some not available."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(draws, actions)) * rng.uniform(0.0, 1.0, actions) + rng.normal(
        size=actions
    )
    scales = np.broadcast_to(rng.uniform(0.2, 0.9, (draws, 1)), means.shape).copy()
    means[:, 1::7] = means[:, :-1:7]  # ties
    available = rng.random(actions) < 0.8
    best = np.where(available, means, -np.inf).argmax(1)
    regret = means[np.arange(draws), best].mean() - means.mean(0)
    return tuple(map(jnp.asarray, (regret, means, scales, best, available)))


@pytest.mark.parametrize(("first", "chunk"), [(1, 1), (8, 32), (1000, 1000)])
@pytest.mark.parametrize("seed", range(4))
def test_a_pruned_choice_is_that_of_brute_force(seed, first, chunk):
    regret, means, scales, best, available = pruning_instance(seed)
    gain = information.histogram_gain(means, scales, best)
    conditional = jnp.exp(2 * jnp.log(scales).mean(0))
    total = means.var(0) + (scales**2).mean(0)
    bound = jnp.minimum(
        information.gaussian_gain(total, conditional), information.entropy_of_best(best)
    )
    assert (gain <= bound + 1e-5).all()

    def gains(index):
        return information.histogram_gain(means[:, index], scales[:, index], best)

    prune = functools.partial(information.pruned_choice, first=first, chunk=chunk)
    brute = information.deterministic_choice(regret, gain, available)
    found = prune(regret, bound, available, gains)
    assert found.choice == brute
    assert 0 < found.evaluated < (300 if chunk <= 32 else 601)
    # An action without regret is chosen before all others, the first of them.
    free = regret.at[jnp.asarray([410, 77])].set(0.0)
    open_to_all = jnp.ones_like(available)
    assert prune(free, bound, open_to_all, gains).choice == 77
    # Where nothing can be learned at a loss, the least regret.
    nothing = prune(regret, 0 * bound, available, gains)
    assert nothing.choice == jnp.where(available, regret, jnp.inf).argmin()
    assert nothing.evaluated == 0


@pytest.mark.parametrize("unit", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("seed", range(2))
def test_variance_gains_are_pruned_in_any_unit(seed, unit):
    regret, means, _, best, available = pruning_instance(seed)
    regret, means = unit * regret, unit * means
    gain, bound = information.variance_gain(means, best), means.var(0)
    assert (gain <= 1.001 * bound).all()

    def gains(index):
        return information.variance_gain(means[:, index], best)

    brute = information.deterministic_choice(regret, gain, available)
    rounding = 1e-5 * bound.max()
    found = information.pruned_choice(regret, bound, available, gains, rounding=rounding)
    assert found.choice == brute
    assert 0 < found.evaluated < 300


@pytest.mark.parametrize("draws", [12, 16, 50])
def test_what_all_draws_agree_on_has_no_entropy(draws):
    assert information.entropy_of_best(jnp.full(draws, 3)) == 0.0


def test_entropy_of_the_best_action():
    found = information.entropy_of_best(jnp.asarray([3, 3, 8, 1]))
    np.testing.assert_allclose(found, -(0.5 * np.log(0.5) + 0.5 * np.log(0.25)), rtol=1e-6)
    assert information.entropy_of_best(jnp.asarray([5, 5, 5])) == 0.0
