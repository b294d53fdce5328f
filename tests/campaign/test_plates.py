"""Plates: the best one by brute force, what its entries share, and what a small one gives."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from engines import TOLD, engine_on
from problems import dense_entries, make_problem

from smc_jax.campaign import plates
from smc_jax.campaign.asking import Offered, propose
from smc_jax.campaign.calibration import Calibrator, Errors
from smc_jax.campaign.forecast import Forecast
from smc_jax.campaign.matrix import Matrix, Units
from smc_jax.campaign.plates import Labels, Plates, propose_plate
from smc_jax.campaign.types import CampaignError

ROWS, COLUMNS, NUMBER = 6, 5, 2
KEY = jax.random.key(2)
UNKNOWN = Calibrator(Errors(np.zeros(0), np.zeros(0)))
PLATES = {
    "row": Labels(0, np.arange(ROWS)),
    "column": Labels(1, np.arange(COLUMNS)),
    "group": Labels(0, np.array([0, 1, 0, -1, 1, 2])),
}


@pytest.fixture(scope="module")
def forecasts():
    """Forecasts by told parameters with one program each, by rule."""
    parameters, data, looks = make_problem(11, repeats=False)
    known = np.asarray(data.seen())
    none = np.zeros(known.shape, bool)
    best = float(np.where(known, data.average(), -np.inf).max())
    matrix = Matrix(data, known, none, none, best, Units(0.0, 1.0, 1.0), False)
    with pytest.MonkeyPatch.context() as patch:
        made = {rule: engine_on(patch, TOLD, rule) for rule in ("ids", "greedy")}
    dense = [dense_entries(parameters, *look) for look in looks]
    found = {rule: Forecast(one, parameters, 0, matrix, None, KEY) for rule, one in made.items()}
    return found, dense, float(parameters.sigma)


def offered(is_open):
    return Offered.of(is_open, ROWS * COLUMNS)


def entries_of(proposals):
    return [(one.row, one.column) for one in proposals]


def dense_cost(entries, dense, sigma, optimum, rule):
    """The sum of expected shortfalls squared per bit of joint information, in float64."""
    reward = sum(dense[n][0][d] for d, n in entries)
    shortfall = len(entries) * optimum - reward
    if rule != "ids" or shortfall <= 0:
        return rule == "ids" and shortfall > 0, -reward
    bits = 0.0
    for n in {n for _, n in entries}:
        rows = [d for d, column in entries if column == n]
        within = np.eye(len(rows)) + dense[n][1][np.ix_(rows, rows)] / sigma**2
        bits += 0.5 * np.linalg.slogdet(within)[1] / np.log(2.0)
    return True, shortfall**2 / bits


@pytest.mark.parametrize("kind", PLATES)
@pytest.mark.parametrize("rule", ["ids", "greedy"])
def test_the_plate_is_the_best_of_all_plates(forecasts, rule, kind):
    """Each plate's batch by the rule, its cost by the dense joint Gaussian."""
    made, dense, sigma = forecasts
    labels, is_open = PLATES[kind], made[rule].matrix.open
    every = offered(is_open)
    found = propose_plate(KEY, made[rule], every, NUMBER, 4, UNKNOWN, labels, rule)
    optimum = propose(KEY, made[rule], every, NUMBER, 4, UNKNOWN).optimum
    batches = []
    for plate in range(labels.label.max() + 1):
        on = is_open & labels.mask(plate)
        if on.sum() < NUMBER:
            continue
        if rule == "greedy":
            order = sorted(np.argwhere(on).tolist(), key=lambda one: -dense[one[1]][0][one[0]])
            batches.append([tuple(one) for one in order[:NUMBER]])
        else:
            own = propose(KEY, made[rule], offered(on), NUMBER, 4, UNKNOWN)
            batches.append(entries_of(own.proposals))
    costs = [dense_cost(batch, dense, sigma, optimum, rule) for batch in batches]
    assert len(set(costs)) == len(batches) > 1
    assert entries_of(found.proposals) == batches[costs.index(min(costs))]
    assert all("on its plate" in one.reason for one in found.proposals)
    on_axis = {entry[labels.axis] for entry in entries_of(found.proposals)}
    assert len({labels.label[one] for one in on_axis} - {-1}) == 1


def test_a_ratio_falls_with_bits_and_rises_with_shortfall():
    """A plate without shortfall comes before any other, then the highest reward."""

    def ratio(reward, gain, rule="ids"):
        return plates._ratio(plates.Batch([None, None], reward, gain, 3.0), 1.0, rule)

    assert ratio(1.0, 2.0) < ratio(1.0, 1.0) < ratio(0.0, 1.0)
    assert ratio(0.0, 4.0) == (True, 1.0)  # (2 - 0)^2 / 4
    assert ratio(2.5, 0.0) < ratio(2.0, 9.0) < ratio(1.99, 9.0)
    assert ratio(1.5, 0.1, "greedy") < ratio(1.0, 9.0, "greedy")


def test_a_full_plate_comes_before_a_better_one_that_is_not(forecasts):
    """Also where its entries are below the average: their sum is then the lower, the more."""
    made, dense, _ = forecasts
    is_open = np.zeros((ROWS, COLUMNS), bool)
    mean = np.stack([one[0] for one in dense], 1)
    best = int(np.argmax(mean[:, 0]))
    worst = int(np.argmin(mean[:, 2:].sum(1)))
    is_open[best, 0] = True
    is_open[worst, 2:] = True
    is_open[best, 2:] = False
    assert best != worst
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plates, "SHORTLIST", 1)
        left = offered(is_open)
        found = propose_plate(KEY, made["greedy"], left, 3, 4, UNKNOWN, PLATES["row"], "greedy")
    assert sorted(entries_of(found.proposals)) == [(worst, 2), (worst, 3), (worst, 4)]
    # One entry alone is a plate where there is no more.
    is_open[worst] = False
    left = offered(is_open)
    alone = propose_plate(KEY, made["greedy"], left, 3, 4, UNKNOWN, PLATES["row"], "greedy")
    assert entries_of(alone.proposals) == [(best, 0)]


def test_where_no_plate_is_open_it_says_so(forecasts):
    """The entries left are on no plate."""
    made, _, _ = forecasts
    is_open = np.zeros((ROWS, COLUMNS), bool)
    is_open[3] = True  # on no plate of the groups
    with pytest.raises(CampaignError, match="plate: no entry of any plate is open"):
        propose_plate(KEY, made["ids"], offered(is_open), 2, 4, UNKNOWN, PLATES["group"], "ids")
    with pytest.raises(CampaignError, match="plate: no entry of any plate is open"):
        PLATES["group"].fullest(is_open)


@pytest.mark.parametrize("kind", PLATES)
@pytest.mark.parametrize("number", [1, 2, 9])
def test_totals_are_those_of_a_loop(kind, number):
    rng, labels = np.random.default_rng(number), PLATES[kind]
    score = rng.normal(size=(ROWS, COLUMNS))
    score[rng.random(score.shape) < 0.4] = -np.inf
    expected = []
    for plate in range(labels.label.max() + 1):
        own = [
            score[d, n]
            for d in range(ROWS)
            for n in range(COLUMNS)
            if labels.label[(d, n)[labels.axis]] == plate and np.isfinite(score[d, n])
        ]
        expected.append(sum(sorted(own)[-number:]) if own else -np.inf)
    np.testing.assert_allclose(labels.total(score, number), expected)


def test_the_fullest_plate_has_most_open_entries():
    is_open = np.zeros((ROWS, COLUMNS), bool)
    is_open[1, :2] = is_open[4, :3] = is_open[5, :4] = True
    np.testing.assert_array_equal(PLATES["row"].fullest(is_open)[:, 0], np.arange(ROWS) == 5)
    np.testing.assert_array_equal(
        PLATES["group"].fullest(is_open)[:, 0], [False, True, False, False, True, False]
    )
    np.testing.assert_array_equal(PLATES["column"].fullest(is_open), np.arange(COLUMNS) == 0)


def log_of(rows, columns):
    return SimpleNamespace(
        row_ids=[f"r{i}" for i in range(rows)], column_ids=[f"c{i}" for i in range(columns)]
    )


@pytest.mark.parametrize("transposed", [False, True], ids=["upright", "transposed"])
@pytest.mark.parametrize("axis", ["row", "column"])
def test_plates_follow_the_orientation_of_the_model(axis, transposed):
    log, matrix = log_of(3, 4), SimpleNamespace(transposed=transposed)
    own = Plates(axis).labels(log, matrix)
    is_row = axis == "row"
    assert own.axis == (0 if is_row != transposed else 1)
    np.testing.assert_array_equal(own.label, np.arange(3 if is_row else 4))
    shape = (4, 3) if transposed else (3, 4)
    on = np.broadcast_to(own.mask(1), shape)
    on = on.T if transposed else on  # in the campaign's orientation
    expected = np.zeros((3, 4), bool)
    expected[(1, slice(None)) if is_row else (slice(None), 1)] = True
    np.testing.assert_array_equal(on, expected)


def test_groups_are_read_from_a_file(tmp_path):
    path = tmp_path / "groups.csv"
    path.write_text("column,group\nc1,left\nc0,right\nc3,left\nother,left\n")
    found = Plates.read(str(path))
    labels = found.labels(log_of(2, 4), SimpleNamespace(transposed=False))
    assert labels.axis == 1
    np.testing.assert_array_equal(labels.label, [1, 0, -1, 0])
    path.write_text("row,group\nnobody,left\n")
    with pytest.raises(CampaignError, match="none of the grouped ids is a row"):
        Plates.read(str(path)).labels(log_of(2, 4), SimpleNamespace(transposed=False))
    path.write_text("item,group\nr0,left\n")
    with pytest.raises(CampaignError, match="must be row,group or column,group"):
        Plates.read(str(path))
    with pytest.raises(CampaignError, match="must be row, column or a file"):
        Plates("diagonal").labels(log_of(2, 4), SimpleNamespace(transposed=False))
