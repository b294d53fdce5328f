"""What an ask is worth: P(answer) (value - zero) / cost, and suggestions that go by it."""

import os
import pathlib
import re
import threading
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from campaigning import pairs, refused
from commanding import COLUMNS as TARGETS
from commanding import KNOWN, dump, read, write
from engines import COLUMNS, KEY, ROWS, TOLD, engine_on
from problems import dense_entries, make_problem

from smc_jax.campaign import plates, show
from smc_jax.campaign.asking import Offered, propose
from smc_jax.campaign.batch import Batch
from smc_jax.campaign.calibration import Calibrator, Errors
from smc_jax.campaign.forecast import Forecast
from smc_jax.campaign.highest import optimum_of
from smc_jax.campaign.matrix import Matrix, Units
from smc_jax.campaign.plates import Labels, propose_plate
from smc_jax.campaign.types import Suggestion
from smc_jax.campaign.worth import Costs, Worth, low_known
from smc_jax.observations import Observations
from smc_jax.policies import ensemble
from smc_jax.policies.rewards import expected_reward
from smc_jax.types import Offer

RNG = np.random.default_rng(5)
COST, CHANCE = np.exp(RNG.normal(size=(ROWS, COLUMNS))), RNG.random((ROWS, COLUMNS))
UNKNOWN = Calibrator(Errors(np.zeros(0), np.zeros(0)))


@pytest.fixture(scope="module")
def told():
    """A forecast by told parameters and the best expected values, and the dense ones [D, N]."""
    parameters, data, looks = make_problem(11, repeats=False)
    known = np.asarray(data.seen())
    none, best = np.zeros(known.shape, bool), float(np.asarray(data.average())[known].max())
    with pytest.MonkeyPatch.context() as patch:
        programs = {rule: engine_on(patch, TOLD, rule) for rule in ("greedy", "ids")}

    def made(units, rule="greedy"):
        matrix = Matrix(data, known, none, none, best, units, False)
        return Forecast(programs[rule], parameters, 0, matrix, None, KEY)

    mean = np.stack([dense_entries(parameters, *look)[0] for look in looks], 1)
    return SimpleNamespace(made=made, mean=mean, open=~known)


def low(values):
    """The lower decile, one of the values; of less than eleven the lowest."""
    return np.quantile(values, 0.1, method="lower")


UNITS = {"maximise": Units(5.0, 2.0, 1.0), "minimise": Units(5.0, 2.0, -1.0)}


@pytest.mark.parametrize("firm", [True, False], ids=["told", "the worst"])
@pytest.mark.parametrize("goal", UNITS)
def test_suggestions_are_those_of_the_highest_worth(told, goal, firm):
    """By the dense Gaussians; values and zero are in the units of the campaign, low ones wanted
    or high ones. With a zero amid the values some are losses, which neither a cost nor a
    doubtful answer makes smaller."""
    units, number = UNITS[goal], 6
    zero = -0.2 if firm else 100.0  # in the model's units; the latter is lower where not told
    worth = Worth(float(units.back(zero)), firm, firm, CHANCE, COST)
    found = propose(
        KEY, told.made(units), Offered.of(told.open, 1), number, 8, UNKNOWN, worth=worth
    )
    settled = zero if firm else low(told.mean[told.open])
    rate = np.where(firm & (told.mean <= settled), 1.0, CHANCE / (COST / COST.min()))
    expected = rate * (told.mean - settled)
    assert (told.mean[told.open] < settled).any()
    np.testing.assert_allclose(found.worthless, units.back(settled), rtol=1e-5)
    order = sorted(np.argwhere(told.open).tolist(), key=lambda one: -expected[tuple(one)])
    entries = [[one.row, one.column] for one in found.proposals]
    assert entries == order[:number]
    np.testing.assert_allclose(
        found.reward, sum(expected[tuple(one)] for one in entries), rtol=1e-4
    )
    best = np.sort(expected[told.open])[-number:].mean()
    assert found.optimum > 0.9 * best  # an average of maxima is no less than that of the means
    for one in found.proposals:
        at = one.row, one.column
        np.testing.assert_allclose(one.mean, units.back(told.mean[at]), rtol=1e-4)
        assert (one.p_answer, one.cost) == (CHANCE[at], COST[at])
        assert "expected value times P(answer) per cost is" in one.reason
    # The same of values alone: the program has no terms, and nothing of chances is said.
    plain = propose(KEY, told.made(units), Offered.of(told.open, 1), number, 8, UNKNOWN)
    by_value = sorted(np.argwhere(told.open).tolist(), key=lambda one: -told.mean[tuple(one)])
    assert [[one.row, one.column] for one in plain.proposals] == by_value[:number] != entries
    assert np.isnan([plain.proposals[0].p_answer, plain.proposals[0].cost]).all()
    assert plain.proposals[0].reason.startswith("Its expected value is one of")


def test_to_be_among_the_best_is_to_be_worth_most(told):
    """Far above a zero nothing but the chance and the cost matters, and these are known."""
    worth = Worth(-1e4, True, True, CHANCE, COST)
    offered = Offered.of(told.open, 1)
    found = propose(KEY, told.made(Units(0.0, 1.0, 1.0)), offered, 6, 8, UNKNOWN, worth=worth)
    assert [one.probability for one in found.proposals] == [1.0] * 6
    score = np.where(told.open, CHANCE / COST, -np.inf)
    entries = [(one.row, one.column) for one in found.proposals]
    assert sorted(score[one] for one in entries) == sorted(np.sort(score, axis=None)[-6:])


def test_a_plate_is_that_of_the_highest_worth(told):
    """Each row is a plate; they share one zero, a low expected value of all of them."""
    worth = Worth(100.0, False, False, CHANCE, COST)
    made, rows = told.made(Units(0.0, 1.0, 1.0)), Labels(0, np.arange(ROWS))
    offered = Offered.of(told.open, 1)
    found = propose_plate(KEY, made, offered, 2, 4, UNKNOWN, rows, "greedy", worth)
    expected = CHANCE * (told.mean - low(told.mean[told.open])) / (COST / COST.min())
    best = np.sort(np.where(told.open, expected, -np.inf), axis=1)[:, -2:]
    assert {one.row for one in found.proposals} == {int(best.sum(1).argmax())}


@pytest.mark.usefixtures("x64")
def test_the_worth_of_programs_is_the_formula():
    """P(answer) (value - zero) / price; what is expected to be a loss is one in full."""
    mean, is_open = RNG.normal(size=(ROWS, COLUMNS)), RNG.random((ROWS, COLUMNS)) < 0.7
    units, value = Units(5.0, 2.0, -1.0), RNG.normal(size=(ROWS, COLUMNS))
    offer = Offer(None, jnp.asarray(is_open), jnp.ones((ROWS, COLUMNS)))
    for firm, zero in ((True, 0.2), (False, 0.2), (False, -9.0)):
        for chance, cost in ((CHANCE, COST), (CHANCE, None), (None, COST)):
            worth = Worth(float(units.back(zero)), firm, firm, chance, cost)
            found = worth.terms(units).settled(jnp.asarray(mean), jnp.asarray(is_open))
            own = zero if firm else min(zero, low(mean[is_open]))
            np.testing.assert_allclose(found.zero, own)
            rate = (1.0 if chance is None else chance) / (
                1.0 if cost is None else cost / cost.min()
            )
            for by_mean in (True, False):
                terms = worth._replace(by_mean=by_mean).terms(units)
                found = terms.settled(jnp.asarray(mean), jnp.asarray(is_open))
                full = np.where(firm & by_mean & (mean <= own), 1.0, rate)
                np.testing.assert_allclose(found.worth(jnp.asarray(value)), full * (value - own))
                reward = expected_reward(found.offer(offer), jnp.asarray(value) - own)
                np.testing.assert_allclose(reward, full * (value - own))
            some = worth.terms(units, np.array([3, 1]))
            if cost is not None:
                np.testing.assert_allclose(some.price, (cost / cost.min())[:, [3, 1]])


@pytest.mark.usefixtures("x64")
def test_hope_costs_what_its_ask_costs():
    """An upper bound, or a draw, above zero of an entry that is expected to be a loss."""
    mean, hope = jnp.array([[-0.01, 0.5, 0.01]]), jnp.array([[0.99, 0.6, 1.01]])
    chance, cost = np.array([[0.05, 1.0, 0.9]]), np.array([[100.0, 1.0, 2.0]])
    worth = Worth(0.0, True, True, chance, cost, by_mean=False)
    everything = jnp.ones((1, 3), bool)
    settled = worth.terms(Units(0.0, 1.0, 1.0)).settled(mean, everything)
    expected = hope * chance / cost
    np.testing.assert_allclose(settled.worth(hope), expected)
    offer = settled.offer(Offer(None, everything, jnp.ones((1, 3))))
    np.testing.assert_allclose(expected_reward(offer, hope), expected)
    # Where nothing but losses is expected, none is smaller for its cost.
    lost = worth.terms(Units(0.0, 1.0, 1.0)).settled(mean - 1.0, everything)
    offer = lost.offer(Offer(None, everything, jnp.ones((1, 3))))
    np.testing.assert_allclose(expected_reward(offer, mean - 1.0), mean - 1.0)


@pytest.mark.parametrize("by_mean", [True, False])
def test_a_doubtful_answer_makes_no_loss_smaller(told, by_mean):
    """Where all on offer are losses the least one is chosen, whoever answers."""
    made, offered = told.made(Units(0.0, 1.0, 1.0)), Offered.of(told.open, 1)
    worth = Worth(100.0, True, True, CHANCE, None, by_mean)
    found = propose(KEY, made, offered, 6, 8, UNKNOWN, worth=worth)
    order = sorted(np.argwhere(told.open).tolist(), key=lambda one: -told.mean[tuple(one)])
    assert [[one.row, one.column] for one in found.proposals] == order[:6]


def test_bits_of_a_plate_are_those_that_answers_bring(told, monkeypatch):
    """The ratio of a plate has the sum of P(answer) times bits below, as every entry's has."""
    worth = Worth(-3.0, True, True, CHANCE, COST)
    made, rows = told.made(Units(0.0, 1.0, 1.0), "ids"), Labels(0, np.arange(ROWS))
    offered = Offered.of(told.open, 1)
    batches = []
    ratio = plates._ratio
    monkeypatch.setattr(
        plates, "_ratio", lambda batch, *rest: batches.append(batch) or ratio(batch, *rest)
    )
    found = propose_plate(KEY, made, offered, 2, 4, UNKNOWN, rows, "ids", worth)
    optimum = propose(KEY, made, offered, 2, 4, UNKNOWN, worth=worth).optimum
    ratios = []
    for batch in batches:
        bits = sum(one.gain * CHANCE[one.row, one.column] for one in batch.proposals)
        np.testing.assert_allclose(batch.gain, bits)
        ratios.append((2 * optimum - batch.reward) ** 2 / bits)
    assert min(2 * optimum - batch.reward for batch in batches) > 0.0
    assert found == batches[int(np.argmin(ratios))]


def test_the_regret_of_ids_is_measured_from_what_answers_bring():
    """R* of asks that are answered half of the time is half of that of certain answers."""
    parameters, data, _ = make_problem(3)
    members = ensemble.start(KEY, jax.tree.map(lambda x: jnp.stack([x, x]), parameters), data)
    offer = Offer(None, jnp.ones((ROWS, COLUMNS), bool), jnp.ones((ROWS, COLUMNS)))
    half = offer._replace(chance=jnp.full((ROWS, COLUMNS), 0.5))
    certain, doubtful = (optimum_of(3)(KEY, members, one, 1.0) for one in (offer, half))
    np.testing.assert_allclose(doubtful, 0.5 * certain, rtol=1e-5)


@pytest.mark.parametrize("sign", [1.0, -1.0], ids=["maximise", "minimise"])
def test_no_single_known_value_decides_what_is_worth_nothing(sign):
    """It is the lower decile, or the second worst where that is less; low ones may be wanted."""
    for number in (5, 11, 12, 45):
        values = np.sort(RNG.normal(size=number))
        values[0] = -1e6
        known = np.arange(48).reshape(6, 8) < number
        sums = np.zeros(known.shape)
        sums[known] = RNG.permutation(values)
        data = Observations(*(jnp.asarray(x, float) for x in (known, sums, np.zeros(known.shape))))
        matrix = Matrix(data, known, ~known, known, 0.0, Units(0.0, 1.0, sign), False)
        expected = np.quantile(values, 0.1, method="higher")
        assert expected > -10.0
        np.testing.assert_allclose(low_known(matrix), sign * expected, rtol=1e-6)
    nothing = matrix._replace(known=~matrix.known & False)
    assert np.isnan(low_known(nothing))


def test_of_a_loss_there_is_no_percentage(told):
    """Where all are losses, or those that are chosen for their bits."""
    made, offered = told.made(Units(0.0, 1.0, 1.0), "ids"), Offered.of(told.open, 1)
    for zero in (100.0, 0.3):
        worth = Worth(zero, True, True, CHANCE, COST)
        found = propose(KEY, made, offered, 12, 8, UNKNOWN, worth=worth).proposals
        losses = [one for one in found if one.mean < zero]
        assert losses
        assert all("loss" in one.reason and "% of" not in one.reason for one in losses)
        assert not any("loss" in one.reason for one in found if one.mean > zero)


def test_costs_are_those_of_what_is_offered_and_the_overhead(tmp_path):
    path = write(tmp_path / "costs.csv", ("target", "cost"), ("x", 2.0), ("z", 4.0))
    needed = np.array([[True, False, False], [False, False, True]])
    costs = Costs.checked(path, 0.5, None, "ids")
    found = costs.of(needed, ["a", "b"], ["x", "y", "z"], ("drug", "target"))
    nan = np.nan
    np.testing.assert_array_equal(found, [[2.5, nan, nan], [nan, nan, 4.5]])
    price = Worth(0.0, True, True, None, found).terms(Units(0.0, 1.0, 1.0)).price
    np.testing.assert_allclose(price, [[1, 1, 1], [1, 1, 1.8]])
    needed[0, 1] = True
    with refused("^costs: .*costs.csv: no cost of column y, and of 1 in all$"):
        costs.of(needed, ["a", "b"], ["x", "y", "z"], ("drug", "target"))
    assert costs.described() != costs._replace(overhead=0.0).described()


def test_costs_that_are_too_far_apart_are_refused(tmp_path):
    """Their ratio has more than 32 bits, though each of them has not."""
    path = write(tmp_path / "costs.csv", ("row", "cost"), ("a", 1e-30), ("b", 1e30))
    costs = Costs.checked(path, None, None, "ids")
    with refused("^costs: from 1e-30 to 1e[+]30 they are too far apart"):
        costs.of(np.ones((2, 3), bool), ["a", "b"], ["x", "y", "z"])
    found = costs.of(np.array([[True], [False]]), ["a", "b"], ["x"])
    np.testing.assert_array_equal(found, [[1e-30], [np.nan]])


def test_a_token_is_asked_again_without_the_costs_and_a_pipe_has_them_once(new, tmp_path):
    campaign = new(known=[])
    lines = ["row,cost", *(f"d{i},{i + 1}" for i in range(7))]
    text, pipe = "\n".join(lines), tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=(text,), daemon=True)
    writer.start()
    first = campaign.ask(3, costs=pipe, overhead=1.0, token="t")
    writer.join()
    assert [one.cost for one in first] == [float(one.row[1]) + 2.0 for one in first]
    path = tmp_path / "costs.csv"
    again = [campaign.ask(3, costs=path, overhead=1.0, token="t")]  # the file is not there
    path.write_text(text.replace(",", ";"))
    again.append(campaign.ask(3, costs=path, overhead=1.0, token="t"))
    assert [pairs(one) for one in again] == [pairs(first)] * 2
    path.write_text(text.replace("d0,1", "d0,9"))
    for costs, overhead in ((path, 1.0), (tmp_path / "gone.csv", 2.0), (None, None)):
        with refused("asked before with another costs"):
            campaign.ask(3, costs=costs, overhead=overhead, token="t")
    with refused("gone.csv cannot be read"):
        campaign.ask(3, costs=tmp_path / "gone.csv", token="other")


def test_what_is_worth_nothing_may_be_told_where_answers_are_uncertain(new):
    """Without costs; where all asks were answered it would be of no use."""
    campaign = new()
    with refused("worthless: nothing has a cost, and every ask was answered so far"):
        campaign.ask(2, worthless=-9.0)
    first = campaign.ask(2, refit=False)
    campaign.tell([(one.row, one.column, "no answer") for one in first])
    found = campaign.ask(2, worthless=-9.0)
    np.testing.assert_allclose(found.worthless, -9.0, rtol=1e-5)
    assert all(np.isnan(one.cost) and one.p_answer < 1.0 for one in found)
    assert campaign.ask(2).worthless > -8.0


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((None, 1.0, None, "ids"), r"^overhead: nothing has a cost; give costs \(--costs=FILE\)"),
        ((None, None, 2.0, "random"), "^worthless: this campaign chooses at random"),
        (("c.csv", "x", None, "ids"), "^overhead: must be a number, got 'x'$"),
        (("c.csv", True, None, "ids"), "^overhead: must be a number, got True$"),
        (("c.csv", None, [1.0], "ids"), r"^worthless: must be a number, got \[1.0\]$"),
        (({}, None, None, "ids"), "^costs: must be the name of a file, got {}$"),
        ((np.ones((9, 9)), None, None, "ids"), "^costs: must be .*, got one of type ndarray$"),
        ((" ", None, None, "ids"), "^costs: no file is named$"),
        (("c.csv", -1.0, None, "ids"), "^overhead: must not be negative, got -1.0$"),
        (("c.csv", float("nan"), None, "ids"), "^overhead: must be a finite number"),
        (("c.csv", None, float("inf"), "ids"), "^worthless: must be a finite number"),
        (("c.csv", None, None, "random"), "^costs: this campaign chooses at random"),
    ],
)
def test_costs_that_make_no_sense_are_refused(given, told):
    with refused(told):
        Costs.checked(*given)
    assert Costs.checked(None, None, None, "random") is None


@pytest.mark.usefixtures("elsewhere")
def test_the_command(run, fail, copy):
    """Columns that cost ten thousand times as much are not asked; one program serves all asks."""
    dear = TARGETS[::2]
    write(copy.parent / "costs.csv", ("target", "cost"), *(
        (name, 1e4 if name in dear else 1) for name in TARGETS
    ))  # fmt: skip
    before = dump(copy)
    write(copy.parent / "bad.csv", ("target", "cost"), ("target0", 1))
    for flags, told in (
        (["--costs=bad.csv"], "costs: bad.csv: no cost of column target2, and of 7"),
        (["--costs=nope.csv"], "costs: nope.csv cannot be read (No such file or directory)"),
        (["--costs=costs.csv", "--worthless=1e9"], "worthless: 1e+09 is no worse than the best"),
        (["--overhead=2"], "overhead: nothing has a cost"),
        (["--costs=costs.csv", "--out=costs.csv"], "costs.csv: the command reads this file"),
    ):
        assert told in fail("ask", copy, "--number=4", *flags)
    assert dump(copy) == before
    asked = ["--number=4", "--costs=costs.csv", "--overhead=0.5", "--token=cheap"]
    printed = run("ask", copy, *asked, "--out=next.csv")
    told = re.search(r"chosen by expected value above (\S+), per cost with 0.5 on top;", printed)
    known = sorted(value for *_, value in KNOWN)
    assert told is not None
    assert float(told[1]) <= known[3]  # the lower decile of 28
    assert "--worthless names another" in printed
    lines = read(pathlib.Path("next.csv"))
    assert {float(line["cost"]) for line in lines} == {1.5}
    assert not {line["target"] for line in lines} & set(dear)
    assert "p_answer" not in lines[0]
    named = run("ask", copy, "--number=1", "--costs=costs.csv", "--worthless=-9.5")
    assert "expected value above -9.5, per cost; " in named
    assert "--worthless names" not in named
    # The same ask again gives the same; one with other costs is another ask.
    assert [line.split()[:2] for line in run("ask", copy, *asked).splitlines()[1:5]] == [
        [line["drug"], line["target"]] for line in lines
    ]
    write(copy.parent / "costs.csv", ("target", "cost"), *((name, 1) for name in TARGETS))
    assert "was asked before with another costs" in fail("ask", copy, *asked)


@pytest.mark.parametrize(("maximise", "words"), [(True, "above 2.5"), (False, "better than 2.5")])
def test_what_asks_were_chosen_by_names_the_zero(maximise, words):
    one = Suggestion("a", "x", 1.0, 1.0, 0.0, 2.0, 0.5, 0.1, "why", p_answer=0.5)
    settings = {"maximise": maximise, "policy": "ids"}
    said = show.worth(Batch([one], "t", ("row", "column", "value"), 2.5), settings, None, None)
    assert f"They were chosen by expected value {words}, times P(answer); " in said
    # The log does not have it where a token is asked again.
    said = show.worth(Batch([one], "t", ("row", "column", "value")), settings, None, None)
    assert "what is worth nothing, times" in said


def test_without_a_model_costs_are_said_and_change_nothing(new, tmp_path):
    campaign = new(known=[])
    path = write(tmp_path / "costs.csv", ("row", "cost"), *((f"d{i}", i + 1) for i in range(7)))
    plain = campaign.best(3)
    found = campaign.best(3, costs=path)
    assert pairs(found) == pairs(plain)
    assert [one.cost for one in found] == [float(one.row[1]) + 1.0 for one in found]
