"""Offers and late answers as fields of experiments."""

import numpy as np
import pytest
from launching import HORIZON, SHAPE, load, tiny

from launch import experiment, offers, runner, validation
from launch.settings import ConfigError
from smc_jax.simulation.environment import make_environment

ROWS, COLUMNS = SHAPE["rows"], SHAPE["columns"]
OFFERS = {"arrivals": 3, "offers.activity": 1.0, "offers.in_stock": 0.6}
OFFERS |= {"offers.stock_duration": 6.0, "offers.row_budget": 6, "offers.column_budget": 4}


@pytest.fixture
def tables(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "calendar.csv").write_text("row,column,first,last\n3,,0,99\n,1,0,11\n")
    lines = [f"{d},{n},{1 + d + 2 * n}" for d in range(ROWS) for n in range(COLUMNS)]
    (tmp_path / "costs.csv").write_text("row,column,cost\n" + "\n".join(lines) + "\n")
    return tmp_path


def test_all_offers_at_once_with_late_answers(tables):
    named = {"offers.calendar": "calendar.csv", "offers.costs": "costs.csv"}
    late = {"offers.overhead": 0.5, "delay": 3, "policies": "random"}
    config = tiny(OFFERS | named | late)
    summary = runner.run(config, tables / "run")
    assert summary["best"] == "upper bound"
    assert summary["setting"]["delay"] == 3
    assert summary["setting"]["offers"]["column_budget"] == 4
    found = load(tables / "run")
    rows, columns = found["random/rows"], found["random/cols"]
    assert rows.shape == (config.seeds, HORIZON)
    assert not (rows == 3).any()
    assert not (columns[:, :12] == 1).any()
    for seed in range(config.seeds):
        assert np.bincount(columns[seed][columns[seed] >= 0]).max() <= 4
        assert np.bincount(rows[seed][rows[seed] >= 0]).max() <= 6
    assert np.isfinite(found["random/regret"]).all()
    # Another table is another experiment.
    (tables / "costs.csv").write_text((tables / "costs.csv").read_text().replace("0,0,1", "0,0,2"))
    with pytest.raises(ConfigError, match=r"^workdir: "):
        runner.run(config, tables / "run")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"arrivals": 1}, "exact"),
        ({"arrivals": 3}, "exact but for losses"),
        ({"offers.in_stock": 0.5}, "exact but for losses"),
        ({"arrivals": 3, "offers.column_budget": 2}, "exact but for losses"),
        ({"arrivals": 3, "offers.row_budget": 2}, "upper bound"),
        ({"offers.costs": "costs.csv", "offers.row_budget": 2}, "exact"),
        ({"offers.calendar": "calendar.csv"}, "upper bound"),
        ({"delay": 2}, "exact"),
        ({"delay": 2, "once": False}, "upper bound"),
        (
            {"told": "at_refits", "silence.lowest_rate": 0.5, "silence.ask_again": True},
            "upper bound",
        ),
    ],
)
def test_the_summary_says_whether_the_benchmark_is_exact(tables, changes, said):
    config = validation.resolve(tiny(changes))
    assert experiment.benchmark(config) == said


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"offers.activity": 1.0}, r"^config.offers.activity: needs columns that arrive"),
        ({"offers.activity": -1.0, "arrivals": 1}, r"^config.offers.activity: must not be neg"),
        ({"offers.in_stock": 1.5}, r"^config.offers.in_stock: must lie between 0 and 1"),
        (
            {"offers.in_stock": 0.5, "offers.stock_duration": 1.0},
            r"^config.offers.stock_duration: ",
        ),
        ({"offers.stock_duration": 5.0}, r"^config.offers.stock_duration: needs rows that come"),
        ({"offers.row_budget": 0}, r"^config.offers.row_budget: must be at least 1"),
        ({"offers.column_budget": 0}, r"^config.offers.column_budget: must be at least 1"),
        ({"offers.costs": "costs.csv", "equalise": True}, r"^config.equalise: must be False under"),
        ({"offers.overhead": 1.0}, r"^config.offers.overhead: is a part of costs"),
        ({"offers.costs": "no.csv"}, r"^config.offers.costs: cannot read no.csv"),
        ({"offers.calendar": "costs.csv"}, r"^config.offers.calendar: .*first line must be"),
        ({"offers.row_budget": 2, "once": False}, r"^config.offers: .*set once=True"),
        ({"offers.row_budget": 2, "asked": 2}, r"^config.asked: must be 1 where offers change"),
        ({"delay": -1}, r"^config.delay: must not be negative"),
        ({"told": "never"}, r"^config.told: unknown 'never'"),
        ({"told": "at_refits", "delay": 1}, r"^config.delay: must be 0 where answers are told at"),
        ({"delay": 1, "asked": 2}, r"^config.asked: must be 1 where answers are told late"),
    ],
)
def test_offers_that_cannot_be_made_are_named_before_any_compute(tables, changes, told):
    with pytest.raises(ConfigError, match=told) as error:
        validation.resolve(tiny(changes))
    assert "\n" not in str(error.value)


def test_tables_that_have_changed_are_refused(tables):
    config = validation.resolve(tiny({"offers.costs": "costs.csv"}))
    assert len(config.offers.checksum) == 64
    (tables / "costs.csv").write_text((tables / "costs.csv").read_text().replace("0,0,1", "0,0,2"))
    with pytest.raises(ConfigError, match=r"^config.offers.checksum: that of the files is "):
        validation.resolve(config)


@pytest.mark.parametrize("field", ["calendar", "costs"])
def test_tables_by_id_do_not_go_with_columns_that_the_seed_draws(field):
    config = tiny({f"offers.{field}": "no.csv", "history": 3})
    nothing = make_environment(lambda key, seed: None, initial=0)
    with pytest.raises(ValueError, match=rf"^{field}: does not go with config.history"):
        offers.wrap(config, nothing, read=False)


def test_the_title_says_what_differs():
    assert runner.describe(tiny()).endswith("2 seeds")
    changes = {"delay": 3, "offers.row_budget": 6, "offers.costs": "costs.csv"}
    told = runner.describe(tiny(changes | {"silence.lowest_rate": 0.3, "told": "at_once"}))
    assert told.endswith("2 seeds, delay 3, costs, row_budget 6, silence")
