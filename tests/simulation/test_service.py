"""Who is served, against figures by hand."""

import numpy as np
import pytest

from smc_jax.simulation import service
from smc_jax.simulation.regret import Curves


def test_gini_coefficients():
    assert service.gini(np.array([5, 5, 5, 5])) == 0.0
    np.testing.assert_allclose(service.gini(np.array([0, 0, 0, 8])), 0.75)
    pairs = np.abs(np.subtract.outer([1, 2, 6], [1, 2, 6])).mean()
    np.testing.assert_allclose(service.gini(np.array([6, 1, 2])), pairs / 2 / 3)


def test_figures_of_service():
    picks = np.array([[0, 0, 2, 8] * 5])
    average = np.arange(20.0)[None]
    figures = service.describe(service.Service(picks, average, np.array([3.0])))
    assert figures.regret == 3.0
    assert figures.unserved == 0.5
    assert figures.top_tenth == 10 / 50
    np.testing.assert_allclose(figures.correlation, np.corrcoef(picks[0], average[0])[0, 1])
    # A column without entries, which nobody could serve, changes nothing.
    more = service.Service(
        np.append(picks, [[0]], 1), np.append(average, [[np.nan]], 1), np.array([3.0])
    )
    assert service.describe(more) == figures


def test_picks_are_counted_column_by_column():
    cols = np.array([[0, 2, 2, -1], [1, 1, 1, 1]])  # the first seed ended early
    regret = np.arange(8.0).reshape(2, 4)
    none = np.zeros((2, 0))
    curves = Curves(regret, regret, cols, cols, *5 * [none], cols >= 0)
    average = np.ones((2, 3))
    served = service.service(curves, average)
    assert served.picks.tolist() == [[1, 0, 2], [0, 4, 0]]
    assert served.regret.tolist() == [3.0, 7.0]


def test_a_run_without_picks_is_refused():
    none = service.Service(np.zeros((1, 3), int), np.ones((1, 3)), np.zeros(1))
    with pytest.raises(ValueError, match=r"^served: "):
        service.describe(none)
