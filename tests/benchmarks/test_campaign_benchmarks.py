"""What the benchmarks of campaigns make of their runs; the runs themselves are long."""

import json

import numpy as np
import pytest
from benchmarking import load

arylation, suggestions, campaign = map(load, ("arylation", "suggestions", "campaign"))


def lines(tops, found):
    return {
        start: {
            "start": start,
            "found": found[start],
            "mean_top": top,
            "best_so_far": [50.0, 60.0 + start],
            "seconds_a_round": 1.5,
        }
        for start, top in enumerate(tops)
    }


def test_methods_are_compared_on_the_starts_that_all_have():
    runs = {
        "campaign": lines([90.0, 96.0, 99.0], [True, False, True]),
        "peer": lines([88.0, 92.0], [True, True]),
    }
    title, campaign, peer = arylation.table(runs).splitlines()
    assert title.startswith("2 starts")
    assert "found the best in  1 of 2" in campaign
    assert " 93.00 " in campaign
    assert "found the best in  2 of 2" in peer
    assert "first - this +3.00" in peer  # the mean of 2 and 4, start by start


def test_finished_starts_are_read_back(tmp_path):
    path = tmp_path / "runs.jsonl"
    assert arylation.read_lines(path) == {}
    path.write_text("".join(json.dumps({"start": s, "found": True}) + "\n" for s in (3, 1)))
    assert arylation.read_lines(path).keys() == {1, 3}


@pytest.mark.parametrize("kind", ["signed", "uniform", "positive"])
def test_synthetic_tables_are_of_rank_four_and_measured_with_noise(kind):
    truth, measured = suggestions.synthetic(kind, 0), suggestions.noisy(kind, 0)
    assert np.linalg.matrix_rank(truth) == 4
    assert np.std(measured - truth) == pytest.approx(0.1 * truth.std(), rel=0.05)


def test_empty_cells_of_a_real_table_are_unknown(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("row,a,b\nx,1.5,\ny,,2\n")
    np.testing.assert_array_equal(
        suggestions.read_matrix(path), [[1.5, np.nan], [np.nan, 2.0]], strict=True
    )


def test_visitors_are_summed_up():
    assert campaign.summed_up([3.04, 1.0, 2.0]) == "median 2.0 ms, longest 3.0 ms"
