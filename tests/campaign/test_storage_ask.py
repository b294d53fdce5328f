"""What is asked and closed in the file, and what its log adds up to."""

import collections
import contextlib
import random

import numpy as np
import pytest
from storing import ask, grid, named, refused, suggestion, table, told

from smc_jax.campaign import log
from smc_jax.campaign.storage import Conflict, TokenTaken
from smc_jax.campaign.types import COLUMN, CampaignError, OpenAsk


def test_a_repeated_ask_has_the_same_suggestions(create):
    campaign = grid(create())
    asked = [suggestion("b", "x", 2.0), suggestion("a", "z", 1.0)]
    campaign.record_ask(
        "t",
        [(np.int32(1), np.int64(0), asked[0]), (0, 2, asked[1]._replace(mean=np.float32(1.0)))],
        position=campaign.position(),
        fitted_at=1,
        expires=None,
        source="test",
    )
    assert campaign.ask_of("t") == asked
    assert campaign.ask_of("u") is None
    campaign.add(table(("b", "x", 3.0)), source="test")
    assert campaign.ask_of("t") == asked
    with pytest.raises(TokenTaken):
        ask(campaign, "t", ("c", "x"))
    ask(campaign, "none")
    assert campaign.ask_of("none") == []
    ask(campaign, "u", ("c", "y"))
    loaded = campaign.state(0.0).log
    assert [(found.row, found.column) for found in loaded.last_suggestions] == [
        ("c", "y"),
        ("a", "z"),
    ]
    assert np.isnan(loaded.last_suggestions[0].mean)
    assert loaded.asked.tolist() == [True]
    assert loaded.row.dtype == loaded.pending_row.dtype == np.int32


def change(campaign, what):
    match what:
        case "asked":
            ask(campaign, "other", ("b", "y"))
        case "announced":
            campaign.add(table(("b", "y", "pending")), source="test")
        case "told":
            campaign.add(table(("b", "y", 1.0)), source="test")
        case "failed":
            campaign.add(table(("b", "y", "failed")), source="test")
        case "withdrawn":
            campaign.add(table(("b", "y", "pending")), source="test")
            campaign.add(table(("b", "y", "withdrawn")), source="test")
        case "closed":
            campaign.close([("b", "y")], source="test")
        case "row closed":
            campaign.close([("b", None)], source="test")
        case "column closed":
            campaign.close([(None, "y")], source="test")


@pytest.mark.parametrize(
    "what",
    ["asked", "announced", "told", "failed", "withdrawn", "closed", "row closed", "column closed"],
)
def test_what_others_took_is_not_asked(create, what):
    campaign = grid(create(repeats=True))
    seen = campaign.position()
    change(campaign, what)
    position = campaign.position()
    with pytest.raises(Conflict, match=r"\('b', 'y'\)") as caught:
        ask(campaign, "t", ("a", "x"), ("b", "y"), position=seen)
    assert caught.value.pairs == [("b", "y")]
    assert not isinstance(caught.value, CampaignError)
    assert campaign.position() == position
    assert campaign.ask_of("t") is None
    ask(campaign, "t", ("a", "x"), position=seen)  # the log moved, and not here


def test_a_known_entry_is_asked_again_only_with_repeats(create):
    for repeats in (False, True):
        campaign = grid(create(repeats=repeats))
        campaign.add(table(("a", "x", 1.0)), source="test")
        with contextlib.nullcontext() if repeats else pytest.raises(Conflict):
            ask(campaign, "t", ("a", "x"))


def test_an_ask_expires_and_a_late_answer_is_welcome(create, clock):
    campaign = grid(create())
    ask(campaign, "t", ("a", "x"), ("b", "x"), expires=1010.0)
    with pytest.raises(Conflict):
        ask(campaign, "u", ("a", "x"))
    assert named(campaign.state(1010.0).log, "pending") == [("a", "x"), ("b", "x")]
    assert campaign.state(1010.0).log.next_expiry == 1010.0
    assert named(campaign.state(1010.1).log, "pending") == []
    assert campaign.state(1010.1).log.next_expiry == np.inf
    campaign.add(table(("c", "x", "pending")), source="test")
    assert campaign.state(1000.0).log.next_expiry == 1010.0
    campaign.add(table(("c", "x", "withdrawn")), source="test")
    clock.now = 1011.0
    ask(campaign, "u", ("a", "x"), expires=1020.0)
    assert named(campaign.state(1011.0).log, "pending") == [("a", "x")]
    clock.now = 1030.0
    campaign.add(table(("a", "x", 1.0), ("b", "x", 2.0)), source="test")
    loaded = campaign.state(1030.0).log
    assert loaded.asked.tolist() == [True, True]
    assert loaded.time.tolist() == [1030.0, 1030.0]


def test_closing_and_reopening(create):
    campaign = grid(create())
    assert campaign.close([("a", "x"), ("b", None), (None, "z"), ("a", "x")], source="test") == 3
    assert campaign.close([("a", "x")], source="test") == 0
    loaded = campaign.state(0.0).log
    assert named(loaded, "closed") == [("a", "x")]
    assert loaded.closed_rows.tolist() == [False, True, False]
    assert loaded.closed_columns.tolist() == [False, False, True]
    assert campaign.close([("a", "x"), ("b", None)], source="test", closed=False) == 2
    loaded = campaign.state(0.0).log
    assert named(loaded, "closed") == []
    assert not loaded.closed_rows.any()
    position = campaign.position()
    with refused("Neither a row nor a column"):
        campaign.close([("a", "x"), (None, None)], source="test")
    assert campaign.position() == position


def test_an_unknown_id_is_refused_with_close_matches(create):
    campaign = grid(create(), rows=["aspirin", "ibuprofen"])
    with refused("no row 'asprin'", "did you mean 'aspirin'"):
        campaign.close([("ibuprofen", None), ("asprin", "x")], source="test")
    with refused("no column 'qqq'", "spelling"):
        campaign.number_of(COLUMN, "qqq")
    assert not campaign.state(0.0).log.closed_rows.any()


def test_calibration_has_the_first_value_after_each_suggestion(create):
    campaign = grid(create(repeats=True))
    campaign.add(table(("a", "x", 10.0)), source="test")
    ask(campaign, "t", ("a", "x"), ("b", "x"), ("c", "x"), ("a", "y"), mean=5.0)
    ask(campaign, "without a model", ("b", "y"))
    campaign.add(table(("b", "x", "failed"), ("a", "x", 11.0), ("b", "y", 1.0)), source="test")
    campaign.add(table(("b", "x", 12.0), ("a", "x", 13.0), ("a", "y", 999.0)), source="test")
    campaign.add(table(("a", "y", 14.0)), source="test", corrections=True)
    ask(campaign, "u", ("a", "x"), mean=6.0)
    campaign.add(table(("a", "x", 15.0)), source="test")
    found = campaign.state(0.0).answered
    assert found.mean.tolist() == [5.0, 5.0, 5.0, 6.0]
    assert found.value.tolist() == [11.0, 12.0, 14.0, 15.0]
    assert found.sd.tolist() == [1.0] * 4
    np.testing.assert_allclose(found.high - found.low, 3.2)


def test_open_asks_are_those_with_pending_entries(create, clock):
    campaign = grid(create())
    ask(campaign, "t", ("a", "x"), ("b", "x"), expires=1010.0)
    clock.now += 5.0
    ask(campaign, "u", ("c", "x"), ("a", "y"))
    campaign.add(table(("b", "z", "pending")), source="lab")
    campaign.add(table(("c", "x", 1.0), ("b", "x", "withdrawn")), source="test")
    t, u = OpenAsk("t", 1000.0, "test", 1010.0, 2, 1), OpenAsk("u", 1005.0, "test", None, 2, 1)
    announced = OpenAsk(None, 1005.0, "lab", None, 1, 1)
    assert campaign.state(1010.0).log.open_asks == [t, u, announced]
    assert campaign.state(1011.0).log.open_asks == [u, announced]
    campaign.add(table(("a", "y", "failed"), ("b", "z", 2.0)), source="test")
    assert campaign.state(1011.0).log.open_asks == []


def test_a_state_has_the_log_the_settings_and_what_suggestions_came_to(create):
    campaign = grid(create(budget=5))
    ask(campaign, "t", ("a", "x"), mean=5.0)
    campaign.add(table(("a", "x", 10.0)), source="test")
    found = campaign.state(0.0)
    assert found.settings == campaign.settings() == {"budget": 5}
    assert told(found.log) == [("a", "x", 10.0)]
    assert (found.answered.mean.tolist(), found.answered.value.tolist()) == ([5.0], [10.0])
    assert found.log.position == campaign.position()


def test_an_empty_campaign_loads(create):
    campaign = create()
    loaded = campaign.state(0.0).log
    assert loaded.position == 1
    told = loaded._asdict()
    del told["position"], told["next_expiry"]
    assert told.pop("past") is None
    assert told.pop("responses") is None
    assert all(len(found) == 0 for found in told.values())
    assert {len(found) for found in campaign.state(0.0).answered} == {0}
    assert list(campaign.history()) == []


@pytest.mark.parametrize("repeats", [False, True])
def test_loading_agrees_with_the_entries_one_by_one(create, clock, repeats):
    """A random campaign: the arrays against the rules that every command follows."""
    campaign, generator = grid(create(repeats=repeats)), random.Random(3)
    for step in range(300):
        clock.now += 1.0
        pairs = [(generator.choice("abc"), generator.choice("xyz")) for _ in range(3)]
        with contextlib.suppress(CampaignError, Conflict):
            if generator.random() < 0.4:
                expires = generator.choice([None, clock.now + generator.randrange(20)])
                ask(campaign, str(step), *dict.fromkeys(pairs), expires=expires)
            else:
                kinds = ["failed", "pending", "withdrawn", 1.0, 2.0, 3.0]
                lines = [(*pair, generator.choice(kinds)) for pair in pairs]
                corrections = generator.random() < 0.3
                campaign.add(table(*lines), source="test", corrections=corrections)
        loaded = campaign.state(clock.now).log
        values = collections.defaultdict(list)
        for row, column, value in zip(loaded.row, loaded.column, loaded.value, strict=True):
            values[row, column].append(value)
        for row in range(3):
            for column in range(3):
                entry = log.read_entry(campaign._database, (row, column), clock.now)
                name = (loaded.row_ids[row], loaded.column_ids[column])
                assert values[row, column] == entry.values
                assert named(loaded, "pending").count(name) == entry.pending
                assert named(loaded, "failed").count(name) == entry.failed
    assert campaign.position() > 40  # not all was refused
