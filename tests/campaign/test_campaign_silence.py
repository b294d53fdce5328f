"""Asks that nobody answered: how they are told, what is learned of them, and what they change."""

import contextlib
import pathlib
import random
import sqlite3

import jax
import numpy as np
import pytest
from campaigning import TRUTH, pairs
from commanding import dump, read, write
from storing import ask, grid, named, refused, table, told

from smc_jax.campaign import hints, schema, silence
from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.log import Responses, read_entry
from smc_jax.campaign.matrix import matrix_of
from smc_jax.campaign.report import report_html
from smc_jax.campaign.reporting import report_data
from smc_jax.campaign.scripts import MIGRATIONS
from smc_jax.campaign.storage import Storage
from smc_jax.campaign.types import NO_ANSWER, CampaignError, Conflict

NO = NO_ANSWER


def responses(campaign):
    """Which asks had an answer, by ids."""
    loaded = campaign.state(0.0).log
    if loaded.responses is None:
        return None
    found = zip(*loaded.responses, strict=True)
    return sorted(
        (loaded.row_ids[row], loaded.column_ids[column], bool(answered))
        for row, column, answered in found
    )


# Telling.


def test_an_ask_without_an_answer_is_an_event_of_its_own(create):
    campaign = grid(create())
    ask(campaign, "t", ("a", "x"), ("a", "y"), ("b", "z"))
    added = campaign.add(table(("a", "x", NO), ("a", "y", 2.0)), source="test")
    assert (added.silent, added.values, added.failed) == (1, 1, 0)
    kinds = campaign._database.execute("SELECT kind, detail FROM events ORDER BY event").fetchall()
    assert kinds[-2:] == [("no answer", '{"silent": 1}'), ("told", '{"values": 1}')]
    loaded = campaign.state(0.0).log
    assert named(loaded, "silent") == [("a", "x")]
    assert named(loaded, "pending") == [("b", "z")]
    assert named(loaded, "failed") == []
    assert told(loaded) == [("a", "y", 2.0)]
    assert responses(campaign) == [("a", "x", False), ("a", "y", True)]
    assert [(one.row, one.column, one.kind) for one in campaign.history()] == [
        ("a", "x", NO),
        ("a", "y", "value"),
    ]
    again = campaign.add(table(("a", "x", NO)), source="test")
    assert (again.unchanged, again.silent) == (1, 0)
    assert campaign.position() == again.position == added.position


def test_an_ask_that_has_expired_can_have_had_no_answer(create, clock):
    campaign = grid(create())
    ask(campaign, "t", ("a", "x"), expires=clock.now + 10.0)
    clock.now += 20.0
    assert named(campaign.state(clock.now).log, "pending") == []
    assert campaign.add(table(("a", "x", NO)), source="test").silent == 1


def test_a_late_answer_counts_and_so_does_another_ask(create):
    campaign = grid(create())
    ask(campaign, "one", ("a", "x"), ("b", "x"))
    campaign.add(table(("a", "x", NO), ("b", "x", NO)), source="test")
    campaign.add(table(("a", "x", 1.0)), source="test")
    ask(campaign, "two", ("b", "x"))
    campaign.add(table(("b", "x", 3.0)), source="test")
    assert responses(campaign) == [("a", "x", True), ("b", "x", False), ("b", "x", True)]
    loaded = campaign.state(0.0).log
    assert named(loaded, "silent") == []
    assert sorted(told(loaded)) == [("a", "x", 1.0), ("b", "x", 3.0)]


def test_an_entry_that_was_measured_before_keeps_its_values(create):
    campaign = grid(create(repeats=True))
    campaign.add(table(("a", "x", 1.0)), source="test")
    ask(campaign, "t", ("a", "x"))
    campaign.add(table(("a", "x", NO)), source="test", corrections=True)
    loaded = campaign.state(0.0).log
    assert told(loaded) == [("a", "x", 1.0)]
    assert named(loaded, "silent") == []
    assert responses(campaign) == [("a", "x", False)]


def test_what_is_no_ask_without_an_answer_is_refused(create):
    campaign = grid(create())
    campaign.add(table(("a", "x", 1.0), ("a", "y", "failed")), source="test")
    ask(campaign, "t", ("b", "x"))
    campaign.add(table(("b", "x", "withdrawn")), source="test")
    before = campaign.position()
    for row, column, words in (
        ("a", "x", ("the value 1.0 already", "--correct")),
        ("a", "y", ("a failure already", "--correct")),
        ("b", "x", ("nobody was asked", "leave the cell empty", "pending first")),
        ("c", "x", ("nobody was asked",)),
    ):
        with refused("assay.csv, line 3", f"('{row}', '{column}')", *words):
            campaign.add(table(("c", "y", 1.0), (row, column, NO)), source="test")
    with refused("the value 2.0 already"):  # both in one table
        campaign.add(table(("c", "x", 2.0), ("c", "x", NO)), source="test", corrections=True)
    assert campaign.position() == before
    added = campaign.add(table(("a", "x", NO), ("a", "y", NO)), source="test", corrections=True)
    assert added.corrected == 2
    assert named(campaign.state(0.0).log, "silent") == [("a", "x"), ("a", "y")]
    assert responses(campaign) is None  # no ask of them


@pytest.mark.parametrize("asked_before", [False, True])
def test_an_entry_that_is_announced_without_an_answer_was_asked(create, asked_before):
    """One table says both: the ask is written before the answer that did not come."""
    campaign = grid(create())
    if asked_before:
        ask(campaign, "t", ("a", "x"))
    lines = (("a", "x", "pending"), ("a", "x", NO), ("b", "y", "pending"), ("d", "z", 1.0))
    added = campaign.add(table(*lines), source="test")
    assert (added.silent, added.pending, added.values) == (1, 1, 1)
    assert responses(campaign) == [("a", "x", False)]
    loaded = campaign.state(0.0).log
    assert named(loaded, "silent") == [("a", "x")]
    assert named(loaded, "pending") == [("b", "y")]
    kinds = [kind for (kind,) in campaign._database.execute("SELECT kind FROM events")][-4:]
    first = "asked" if asked_before else "announced"
    assert kinds == [first, "no answer", "told", "announced"]
    again = campaign.add(table(*lines[1:]), source="test")
    assert (again.unchanged, again.position) == (3, added.position)


def test_an_order_that_one_table_cannot_tell_is_refused(create):
    """All answers of a table that are no silence are one event, after those that are."""
    campaign = grid(create(repeats=True))
    ask(campaign, "t", ("a", "x"))
    lines = (("a", "x", 1.0), ("a", "x", "pending"), ("a", "x", NO))
    with refused("assay.csv, line 4", "in one table", "by itself"):
        campaign.add(table(*lines), source="test")
    campaign.add(table(*lines[:2]), source="test")
    campaign.add(table(lines[2]), source="test")
    assert responses(campaign) == [("a", "x", False), ("a", "x", True)]


def test_a_first_table_may_have_some_and_teaches_nothing(tmp_path):
    lines = table(
        ("a", "x", NO),
        ("a", "y", 1.0),
        ("b", "x", "pending"),
        ("b", "y", "pending"),
        ("b", "y", NO),
    )
    with Storage.create(tmp_path / "a.campaign", {}, "test", lines) as campaign:
        assert named(campaign.state(0.0).log, "silent") == [("a", "x"), ("b", "y")]
        assert responses(campaign) is None
        campaign.add(table(("b", "x", NO)), source="test")  # that was marked as asked
        assert responses(campaign) == [("b", "x", False)]


def outcomes_of_asks(database):
    """What came of each ask, entry by entry, by a loop over everything that was written."""
    found = []
    asked = database.execute("SELECT row, column, event FROM suggestions ORDER BY event").fetchall()
    lines = database.execute("SELECT row, column, event, kind FROM answers ORDER BY answer")
    answers = lines.fetchall()
    for row, column, event in asked:
        later = [e for r, c, e in asked if (r, c) == (row, column) and e > event]
        end = min(later, default=np.inf)
        came = [kind for r, c, e, kind in answers if (r, c) == (row, column) and event < e < end]
        came = [kind for kind in came if kind != "withdrawn"]
        if came and came[-1] != "failed":
            found.append((row, column, came[-1] == "value"))
    return sorted(found)


@pytest.mark.parametrize("repeats", [False, True])
def test_the_arrays_agree_with_the_entries_one_by_one(create, clock, repeats):
    """A random campaign, as in `test_storage_ask`, in which asks may have no answer."""
    campaign, generator, silent = grid(create(repeats=repeats)), random.Random(5), 0
    for step in range(250):
        clock.now += 1.0
        several = [(generator.choice("abc"), generator.choice("xyz")) for _ in range(3)]
        with contextlib.suppress(CampaignError, Conflict):
            if generator.random() < 0.5:
                expires = generator.choice([None, clock.now + generator.randrange(20)])
                ask(campaign, str(step), *dict.fromkeys(several), expires=expires)
            else:
                kinds = ["failed", "pending", "withdrawn", NO, NO, 1.0]
                lines = [(*pair, generator.choice(kinds)) for pair in several[:2]]
                campaign.add(table(*lines), source="test", corrections=generator.random() < 0.5)
        loaded = campaign.state(clock.now).log
        for i, row in enumerate(loaded.row_ids):
            for j, column in enumerate(loaded.column_ids):
                entry = read_entry(campaign._database, (i, j), clock.now)
                expected = entry.silent and not entry.values
                assert named(loaded, "silent").count((row, column)) == expected
                assert named(loaded, "pending").count((row, column)) == entry.pending
                silent += expected
    expected = outcomes_of_asks(campaign._database)
    assert sorted(zip(*map(np.ndarray.tolist, loaded.responses), strict=True)) == expected
    assert silent > 100
    assert len(expected) > 20


# The file.


def test_a_file_of_format_2_is_brought_to_this_one(tmp_path, monkeypatch):
    """Everything that was asked and told is there, and is only added to."""
    path = tmp_path / "old.campaign"

    def fill(database):
        schema.write_settings(database, (1.0, "created", "test"), {"rank": 2})
        event = schema.write_event(database, (2.0, "told", "test"), {})
        schema.write_ids(database, event, {axis: {"a": 0, "b": 1} for axis in ("row", "column")})
        database.execute("INSERT INTO asks VALUES (2, 't', NULL, 1, NULL)")
        for column in (0, 1):
            line = (2, column, 0, column, 1.0, 0.5, 0.2, 1.8, 0.3, 0.1, "why")
            database.execute(f"INSERT INTO suggestions VALUES ({', '.join('?' * 11)})", line)
        later = schema.write_event(database, (3.0, "told", "test"), {})
        for answer in ((0, 0, "value", 1.5, 0), (1, 0, "failed", None, 0), (1, 1, "value", 2.0, 1)):
            database.execute(
                "INSERT INTO answers (event, row, column, kind, value, correction)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (later, *answer),
            )

    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", MIGRATIONS[:2])
        schema.create_file(path, fill)
    with contextlib.closing(sqlite3.connect(path)) as database:
        before = database.execute("SELECT * FROM answers ORDER BY answer").fetchall()
        assert database.execute("PRAGMA user_version").fetchone() == (2,)
    for _ in range(2):
        with Storage.open(path) as campaign:
            database = campaign._database
            assert database.execute("SELECT * FROM answers ORDER BY answer").fetchall() == before
            assert database.execute("PRAGMA foreign_key_check").fetchall() == []
    with Storage.open(path) as campaign:
        first, other = campaign.ask_of("t")
        assert (first.mean, first.reason) == (1.0, "why")
        assert np.isnan([first.p_answer, first.cost]).all()
        assert campaign.add(table(("a", "b", NO)), source="test").silent == 1
        assert responses(campaign) == [("a", "a", True), ("a", "b", False)]
        for change in ("UPDATE answers SET value = 1", "DELETE FROM answers"):
            with pytest.raises(sqlite3.IntegrityError, match="only added to"):
                campaign._database.execute(change)
        with pytest.raises(sqlite3.IntegrityError, match="has this number"):
            campaign._database.execute("INSERT INTO answers VALUES (9, 1, 7, 7, 'value', 1.0, 0)")
        assert other.column == "b"


# The model.


def test_what_is_learned_from_is_what_was_asked():
    """Not the values of the first table; rows and columns may be swapped inside."""
    came = Responses(np.array([0, 0, 2]), np.array([1, 1, 0]), np.array([False, True, True]))
    asked = silence.asked_of((3, 2), came)
    np.testing.assert_array_equal(asked.times_seen(), [[0, 1], [0, 0], [1, 0]])
    np.testing.assert_array_equal(asked.times_refused(), [[0, 1], [0, 0], [0, 0]])


def test_the_matrix_has_asks_only_where_one_had_no_answer(create):
    campaign = grid(create(), columns="xy")  # more rows than columns
    ask(campaign, "t", ("a", "x"), ("b", "y"))
    campaign.add(table(("b", "x", 5.0), ("b", "y", 1.0)), source="test")
    assert matrix_of(campaign.state(0.0).log, maximise=True).asked is None
    campaign.add(table(("a", "x", NO)), source="test")
    log = campaign.state(0.0).log
    matrix = matrix_of(log, maximise=True)
    assert matrix.transposed
    np.testing.assert_array_equal(matrix.asked.times_seen(), [[0, 0, 0], [0, 1, 0]])
    np.testing.assert_array_equal(matrix.asked.times_refused(), [[1, 0, 0], [0, 0, 0]])
    assert not matrix.open[0, 0]
    assert matrix_of(log, maximise=True, retry_silent=True).open[0, 0]
    assert not matrix_of(log, maximise=True, retry_failed=True).open[0, 0]


def test_who_answers_is_found_by_row_and_by_column():
    """Column 0 never answers and column 1 always does; row 5 is asked in vain elsewhere."""
    answered, never = np.zeros((2, 6, 5))
    answered[:4, 1] = never[:4, 0] = never[5, 2:] = answered[4, 2:] = 1.0
    entries = np.argwhere(answered + never)
    which = answered[tuple(entries.T)] > 0
    asked = silence.asked_of((6, 5), Responses(entries[:, 0], entries[:, 1], which))
    chance = np.asarray(silence.response_program()(jax.random.key(0), asked))
    assert (chance[:4, 0] < chance[:4, 3]).all()
    assert (chance[:4, 3] < chance[:4, 1]).all()
    assert (chance[5] < chance[4]).all()
    assert ((chance > 0.0) & (chance < 1.0)).all()


# Campaigns.


def test_asks_heed_who_answers(new, tmp_path):
    """Whoever never answers is asked less, though the values that are expected are the same."""
    campaign = new()
    before = campaign.ask(6, columns=["t1", "t2", "t3"], refit=False)
    assert all(np.isnan(one.p_answer) for one in before)
    assert campaign._snapshot().worth(campaign._snapshot().offered(), None) is None
    outcomes = [
        (one.row, one.column, TRUTH[one.row, one.column] if one.column == "t1" else NO)
        for one in before
    ]
    asked = {one.column for one in before}
    assert len(asked & {"t2", "t3"}) > 0
    added = campaign.tell(outcomes)
    silent = [one[:2] for one in outcomes if one[2] == NO]
    assert added.silent == len(silent) > 0
    assert campaign.sizes()[NO] == campaign.status().silent == len(silent)
    assert campaign.status().closed == 0
    found = campaign.best(8)  # one size for all asks below: one program
    assert not set(pairs(found)) & set(silent)
    chance = campaign._snapshot().p_answer.mean(0)  # by column
    assert max(chance[int(column[1])] for _, column in silent) < chance[4:].min()
    assert all("expected value times P(answer)" in one.reason for one in found)
    # One forecast an entry, and one chance, whatever is offered with it.
    other = campaign.best(8, columns=[found[0].column])
    same = {pair: one.p_answer for pair, one in zip(pairs(found), found, strict=True)}
    both = [one for one in other if (one.row, one.column) in same]
    assert both
    assert all(one.p_answer == same[one.row, one.column] for one in both)
    # The chance is written with the ask.
    asked = campaign.ask(8, token="again")
    assert campaign.asked("again") == list(asked)
    asked.save(tmp_path / "next.csv")
    assert [float(line["p_answer"]) for line in read(tmp_path / "next.csv")] == [
        one.p_answer for one in asked
    ]
    # They may be asked again where the campaign is set so.
    left = campaign.sizes()["open"]
    campaign.set(retry_silent=True)
    assert campaign.sizes()["open"] == left + len(silent)
    # The report marks them; what is exported begins another campaign.
    now, survey, status = campaign._survey()
    page = report_html(report_data("lab", now, survey, status))
    assert "asked without an answer" in page
    assert f'No answer</dt><dd><span class="big">{len(silent)}</span>' in page
    assert "Probability of an answer, when asked" in page
    campaign.export(tmp_path / "now.csv")
    with Campaign.new(tmp_path / "other.db", tmp_path / "now.csv") as other:
        assert other.sizes()[NO] == len(silent)
        assert other._snapshot().matrix.asked is None


def test_an_earlier_sheet_that_takes_a_new_ask_is_pointed_out(new):
    """The sheet of the first ask is told twice, and between them its entry is asked again."""
    campaign = new(known=[])
    campaign.set(retry_silent=True)
    first = campaign.ask(2)
    sheet = [(first[0].row, first[0].column, NO)]
    assert campaign.tell(sheet).silent_again == 0
    assert not campaign.notes
    campaign.tell(sheet)
    assert not campaign.notes  # nobody asked since
    campaign.ask(60)
    added = campaign.tell([*sheet, (first[1].row, first[1].column, NO)])
    assert (added.silent, added.silent_again) == (2, 1)
    assert campaign.notes[0].startswith(
        "1 told as no answer had been told so before, and were asked again"
    )
    assert campaign.tell([(*sheet[0][:2], 1.0)]).values == 1


def test_where_only_entries_without_an_answer_are_left_the_setting_is_named(new):
    campaign = new()
    campaign.close([("d0", None), ("d1", None)])
    first = campaign.ask(100, refit=False)
    campaign.tell([(one.row, one.column, "failed") for one in first[:2]])
    campaign.tell([(one.row, one.column, NO) for one in first[2:]])
    silent = len(first) - 2
    said = f"28 of 56 are known, 0 pending, 2 failed, {silent} without an answer, 8 closed; "
    with refused(said, "smc-jax set --retry-silent"):
        campaign.ask(1)
    assert "smc-jax set CAMPAIGN --retry-silent" in campaign.status().advice
    step = hints.next_step(campaign, "c.db")
    assert step.endswith("; smc-jax set c.db --retry-silent opens those without an answer")
    campaign.set(retry_silent=True)
    assert hints.next_step(campaign, "c.db") == "smc-jax ask c.db"


def test_without_any_nothing_is_said_of_them(new):
    campaign = new()
    assert NO not in campaign.sizes()
    now, survey, status = campaign._survey()
    assert now.p_answer is None
    page = report_html(report_data("lab", now, survey, status))
    assert "without an answer" not in page
    assert "No answer" not in page


def test_a_designed_start_shows_the_chances(new):
    campaign = new(known=[])
    first = campaign.ask(4)
    campaign.tell([(one.row, one.column, NO) for one in first])
    found = campaign.best(4)
    assert not set(pairs(found)) & set(pairs(first))
    assert all(0.0 < one.p_answer < 0.6 for one in found)


@pytest.mark.usefixtures("elsewhere")
def test_the_commands(run, fail, copy):
    run("ask", copy, "--number=2", "--out=next.csv", "--norefit")
    lines = read("next.csv")
    first, second = ((line["drug"], line["target"]) for line in lines)
    before = dump(copy)
    other = write(
        pathlib.Path("other.csv"), ("drug", "target", "activity"), ("drug0", "target0", NO)
    )
    assert "has the value" in fail("tell", copy, other)
    assert dump(copy) == before
    header = ("drug", "target", "activity", "status")
    write(pathlib.Path("next.csv"), header, (*first, "", "No  Answer"), (*second, "no_answer", ""))
    printed = run("tell", copy, "next.csv")
    assert "next.csv: 2 without an answer." in printed
    assert "2 known already" in run("tell", copy, "next.csv")
    assert "retry_silent is True" in run("set", copy, "--retry-silent")
    run("export", copy, "--out=now.csv")
    assert {(line["drug"], line["target"]) for line in read("now.csv") if line["status"] == NO} == {
        first,
        second,
    }


def test_answers_and_refusals_that_one_table_announces_are_asks_alike(create):
    """Two of three that were asked by telephone answered: who answers is learned from all three."""
    campaign = grid(create())
    entries = [("a", "x"), ("a", "y"), ("b", "z")]
    told_of = [(*pair, "pending") for pair in entries]
    told_of += [(*pair, 1.5) for pair in entries[:2]] + [(*entries[2], NO)]
    campaign.add(table(*told_of), source="test")
    assert responses(campaign) == [("a", "x", True), ("a", "y", True), ("b", "z", False)]
    assert named(campaign.state(0.0).log, "pending") == []
