"""An earlier variational fit as the prior of other columns, and priors in files."""

import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from problems import low_rank_data

from smc_jax import priors
from smc_jax.beliefs import starts
from smc_jax.beliefs.earlier import EarlierFit
from smc_jax.beliefs.hamiltonian import hamiltonian
from smc_jax.beliefs.history import History
from smc_jax.beliefs.signed_gibbs import signed_gibbs
from smc_jax.beliefs.units import standardised
from smc_jax.beliefs.variational import adam, informed_by, svi, variational
from smc_jax.model.features import Features, coordinates
from smc_jax.model.gamma_process import gamma_process
from smc_jax.model.informed import informed
from smc_jax.model.parameters import Parameters

KEY = jax.random.key(0)
FIRST = low_rank_data(0, rows=6, columns=5, rank=1)
SECOND = low_rank_data(1, rows=6, columns=8, rank=1)


def made(rank=2, steps=20, **settings):
    model = gamma_process(rank=rank, **settings)
    inference = svi(model=model, optimiser=adam(), window=5)
    belief = variational(model, starts.spectral(model), inference, first_steps=steps)
    return model, inference, belief


def refitted(belief, data, prior=None):
    return belief.refit(KEY, belief.init(KEY, data, prior), data)


@pytest.mark.parametrize("spread", [0.0, 0.25])
@pytest.mark.parametrize("temper", [1.0, 0.4, 1e-6])
def test_the_prior_is_a_geometric_mean_over_what_rows_share(temper, spread):
    """The noise of columns has its own prior still; a power near 0 gives the plain prior."""
    with jax.enable_x64(True):
        model, inference, belief = made(noise_spread=spread)
        fit = belief.init(KEY, FIRST)
        begun = inference.init(starts.spectral(model)(KEY, SECOND))
        informed = informed_by(begun, EarlierFit.of(fit, temper=temper))
        at = jax.tree.map(lambda x: x + 0.1, informed.q.mean)
        found = model._replace(earlier=informed.earlier).log_density(at)
        known, own = 0.0, 0.0
        for name, value in at._asdict().items():
            if value is None:
                continue
            if name == "noise_scales":  # log t ~ N(0, spread^2)
                own = scipy.stats.norm.logpdf(np.asarray(value), 0.0, spread).sum()
                continue
            mean, scale = getattr(fit.q.mean, name), np.exp(getattr(fit.q.log_scale, name))
            known += scipy.stats.norm.logpdf(np.asarray(value), mean, scale).sum()
        plain = model.log_density(at)
        wanted = own + (1 - temper) * (plain - own) + temper * known
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
        if temper < 1e-5:
            np.testing.assert_allclose(found, plain, rtol=1e-3)


@pytest.mark.slow
def test_one_fit_after_the_other_says_what_the_fit_to_both_says():
    """At temper 1 q of the first table and the second one know nearly as much as both together.

    Of the noise, whose posterior is close to log-normal, mean and spread must agree; without the
    first table they do not.
    """
    first = low_rank_data(2, rows=6, columns=60, rank=1, seen=0.9)
    second = low_rank_data(3, rows=6, columns=6, rank=1, seen=0.9)
    *_, belief = made(rank=1, steps=600)
    fit = jax.jit(lambda data, prior=None: refitted(belief, data, prior))
    one, alone, both = fit(first), fit(second), fit(second.beside(first))
    after = fit(second, EarlierFit.of(one))

    def log_sigma(state):
        return float(state.q.mean.sigma), float(np.exp(state.q.log_scale.sigma))

    mean, spread = log_sigma(both)
    assert abs(log_sigma(after)[0] - mean) < spread
    assert 0.7 < log_sigma(after)[1] / spread < 1.4
    assert log_sigma(alone)[1] > 1.8 * spread
    weak = fit(second, EarlierFit.of(one, temper=0.1))
    assert spread < log_sigma(weak)[1]


@pytest.mark.slow
def test_chains_start_from_it():
    model, inference, belief = made()
    fit = refitted(belief, FIRST)
    chains = hamiltonian(
        model, starts.spectral(model), inference, first_steps=5, draws=2, first_transitions=2,
        transitions=1, leapfrogs=2,
    )  # fmt: skip
    state = refitted(chains, SECOND, EarlierFit.of(fit, temper=0.5))
    assert chains.diagnose(state).finite
    assert state.earlier is not None


def test_standardised_beliefs_start_from_it():
    units = standardised(made()[2])
    old = refitted(units, FIRST)
    new = refitted(units, SECOND, EarlierFit.of(old))
    assert (new.centre, new.scale) == (old.centre, old.scale)
    np.testing.assert_array_equal(new.inner.earlier.mean.loadings, old.inner.q.mean.loadings)


def test_what_makes_no_prior_is_refused():
    model, _, belief = made()
    other = made(rank=3)[2].init(KEY, FIRST)
    with pytest.raises(ValueError, match=r"^prior: loadings of the earlier fit has the shape"):
        belief.init(KEY, SECOND, EarlierFit.of(other))
    signed = gamma_process(rank=2, loadings="signed")
    chains = signed_gibbs(signed, starts.spectral(signed), draws=2)
    with pytest.raises(ValueError, match=r"^prior: the Gibbs belief takes an earlier Chains, got"):
        chains.init(KEY, SECOND, EarlierFit.of(other))
    with pytest.raises(ValueError, match=r"hand over its data as a History$"):
        belief.init(KEY, SECOND, EarlierFit.of(chains.init(KEY, FIRST)))
    assert model.earlier is None


def with_features(data, size):
    """A model with gamma loadings and features of everything, its inference and its belief."""
    rng = np.random.default_rng(size)
    sides = (coordinates(rng.normal(size=(n, size))) for n in (data.rows, data.columns))
    known = Features(*sides, rng.normal(size=(data.rows, data.columns)))
    model = informed(gamma_process(rank=2), known)
    inference = svi(model=model, optimiser=adam(), window=5)
    return model, inference, variational(model, starts.spectral(model), inference)


def test_weights_of_features_keep_their_own_prior():
    """The coordinates are other ones now; of the weights q says nothing."""
    with jax.enable_x64(True):
        fit = with_features(FIRST, 3)[2].init(KEY, FIRST)
        model, _, belief = with_features(SECOND, 2)
        begun = belief.init(KEY, SECOND, EarlierFit.of(fit))
        at = jax.tree.map(lambda x: x + 0.1, begun.q.mean)
        moved = at._replace(
            prediction_weight=at.prediction_weight + 0.3, column_weights=at.column_weights - 0.2
        )
        found, plain = (
            one.log_density(moved) - one.log_density(at)
            for one in (model._replace(earlier=begun.earlier), model)
        )
        np.testing.assert_allclose(found, plain, rtol=1e-9)


def test_a_state_that_began_from_it_goes_on():
    model, inference, belief = made()
    known = EarlierFit.of(belief.init(KEY, FIRST), temper=0.5)
    chains = hamiltonian(model, starts.spectral(model), inference, first_steps=5, draws=2)
    for one in (belief, chains):

        def twice(one=one):
            state = one.init(KEY, SECOND, known)
            return state, one.init(KEY, SECOND, state)

        state, again = jax.eval_shape(twice)
        assert state == again
        assert again.earlier is not None


PRIORS = {
    "fit with features": lambda: EarlierFit.of(with_features(FIRST, 2)[2].init(KEY, FIRST)),
    "history": lambda: History.of(FIRST, temper=0.5, features=jnp.ones((5, 2))),
    "fit": lambda: EarlierFit.of(made(intercepts=True)[2].init(KEY, FIRST), temper=0.5),
    "standardised": lambda: EarlierFit.of(standardised(made()[2]).init(KEY, FIRST)),
    "told": lambda: Parameters.plain(jnp.ones((6, 2)), jnp.ones(())),
    "told with a prediction": lambda: Parameters.plain(jnp.ones((6, 2)), jnp.ones(()))._replace(
        prediction_weight=jnp.ones(()), prediction=jnp.ones((5, 6))
    ),
}
IDS = list("abcdef")


@pytest.mark.parametrize("name", PRIORS)
def test_a_prior_survives_its_file(name, tmp_path):
    prior = PRIORS[name]()
    priors.save(tmp_path / "prior.npz", prior, IDS, ["c1", "c2"])
    saved = priors.load(tmp_path / "prior.npz")
    assert saved.row_ids == tuple(IDS)
    assert saved.of_rows(IDS).column_ids == ("c1", "c2")
    again = tmp_path / "again.npz"
    priors.save(again, saved.prior, IDS, saved.column_ids)
    with np.load(tmp_path / "prior.npz") as one, np.load(again) as two:
        assert one.files == two.files
        for array in one.files:
            np.testing.assert_array_equal(one[array], two[array])
    turned = saved.of_rows(IDS[::-1])
    assert turned.row_ids == tuple(IDS[::-1])
    if name.startswith("told"):
        np.testing.assert_array_equal(turned.prior.loadings, prior.loadings[::-1])
    if name == "history":
        fewer = saved.of_rows(["c", "new"]).prior.data
        np.testing.assert_array_equal(fewer.average()[0], FIRST.average()[2])
        assert not fewer.seen()[1].any()
    else:
        with pytest.raises(ValueError, match=r"^prior: a fit needs the rows that it was made of"):
            saved.of_rows([*IDS, "new"])
    with pytest.raises(ValueError, match=r"^prior: none of its rows has the id"):
        saved.of_rows(["x", "y"])


def test_a_loaded_fit_is_a_prior(tmp_path):
    *_, belief = made()
    fit = refitted(belief, FIRST)
    priors.save(tmp_path / "fit.npz", EarlierFit.of(fit))
    saved = priors.load(tmp_path / "fit.npz").of_rows(IDS)
    found, wanted = (belief.init(KEY, SECOND, one) for one in (saved.prior, EarlierFit.of(fit)))
    np.testing.assert_array_equal(found.q.mean.loadings, wanted.q.mean.loadings)


HOSTILE = {
    "version": ({"version": 2}, "has the format array\\(2\\), and only 1 can be read"),
    "text": ({"version": "1"}, "has the format"),
    "kind": ({"kind": "other"}, "is of the kind 'other', not one of history, fit, told"),
    "nan": ({"history/sums": np.full((6, 5), np.nan)}, "history/sums has numbers that are not"),
    "words": ({"history/sums": np.full((6, 5), "x")}, "history/sums must be numbers"),
    "shape": ({"history/sums": np.ones((6, 4))}, "must be matrices of one size"),
    "vector": ({f"history/{n}": np.ones(3) for n in ("counts", "sums", "scatter")}, "of one size"),
    "negative": ({"history/counts": -np.ones((6, 5))}, "must not be negative"),
    "nothing": ({"history/counts": np.zeros((6, 5))}, "nor a sum be of nothing"),
    "lacks": ({"history/sums": None}, "the arrays of observations are"),
    "more": ({"history/other": np.ones(3)}, "the arrays of observations are"),
    "ids": ({"row_ids": np.array(["a"])}, "row_ids has 1 ids, but there are 6 rows"),
    "twice": ({"row_ids": np.array(list("abcdea"))}, "row_ids has an id twice"),
    "no ids": ({"row_ids": np.arange(6)}, "row_ids must be a list of texts"),
    "features": ({"features": np.ones((3, 2))}, "features: 3 lines, but history has 5 columns"),
    "none": ({"version": None}, "lacks the array 'version'"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_of_anything_else_is_refused_in_one_line(name, tmp_path):
    changes, told = HOSTILE[name]
    buffer = io.BytesIO()
    priors.save(buffer, History.of(FIRST))
    with np.load(io.BytesIO(buffer.getvalue())) as file:
        arrays = dict(file) | changes
    path = tmp_path / "prior.npz"
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    with pytest.raises(ValueError, match=rf"^prior: .*{told}") as error:
        priors.load(path)
    assert "\n" not in str(error.value)


def test_damaged_files_and_pickles_are_refused(tmp_path):
    path = tmp_path / "prior.npz"
    priors.save(path, History.of(FIRST))
    whole = path.read_bytes()
    damaged = {"cut": whole[:-40], "half": whole[: len(whole) // 2], "empty": b"", "text": b"a,b"}
    damaged["bent"] = whole[:200] + bytes(200) + whole[400:]
    for content in damaged.values():
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"^prior: ") as error:
            priors.load(path)
        assert "\n" not in str(error.value)
    np.savez(path, version=np.array([{"a": 1}], object))
    with pytest.raises(ValueError, match=r"^prior: .* or damaged$"):
        priors.load(path)
    np.savez(path, **{"version": 1, "kind": "fit", "temper": 1.0, "mean/loadings": np.ones(3)})
    with pytest.raises(ValueError, match="loadings has the shape"):
        priors.load(path)
    with pytest.raises(OSError, match="No such file"):
        priors.load(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"^prior: must be a History"):
        priors.save(path, 3)
