"""A campaign in Python: what is wrong is said, and nothing is written."""

import numpy as np
import pytest
from campaigning import COLUMNS, KNOWN, ROWS, dump, refused, write

from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.plates import Plates


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A campaign that no test changes."""
    path = tmp_path_factory.mktemp("shared") / "campaign.db"
    with Campaign.new(path, rank=2) as campaign:
        campaign.add(rows=ROWS, columns=COLUMNS)
        campaign.tell(KNOWN)
        yield campaign


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda c: c.ask(0), ["number", "at least 1"]),
        (lambda c: c.ask(True), ["number"]),
        (lambda c: c.ask(2.5), ["number"]),
        (lambda c: c.best(-1), ["number"]),
        (lambda c: c.ask(1, expires=0.0), ["expires"]),
        (lambda c: c.ask(1, expires="x"), ["expires: must be a number, got 'x'"]),
        (lambda c: c.ask(1, expires=True), ["expires: must be a number, got True"]),
        (
            lambda c: c.describe(prediction=np.ones((9, 9))),
            ["prediction: must be"],
        ),
        (lambda c: c.ask(1, expires=float("nan")), ["expires"]),
        (lambda c: c.ask(1, token=" "), ["token"]),
        (lambda c: c.ask(1, columns=["T1"]), ["column 'T1'"]),
        (lambda c: c.ask(1, rows=[1]), ["row '1'"]),
        (lambda c: c.tell([("d0", "t1")]), ["answer 1", "row, column, value"]),
        (lambda c: c.tell([("d0", "t1", "faild")]), ["answer 1", "'faild'"]),
        (lambda c: c.tell([("d0", "t1", None)]), ["answer 1", "finite"]),
        (lambda c: c.tell([("d0", "t1", 1.0), ("d0", "t3", np.nan)]), ["answer 2", "finite"]),
        (lambda c: c.tell([("d0", "t1", 1e31)]), ["answer 1", "1e30"]),
        (lambda c: c.tell([("", "t1", 1.0)]), ["answer 1", "empty"]),
        (lambda c: c.add(rows=[" "]), ["empty"]),
        (lambda c: c.close([("d0", "t99")]), ["'t99'"]),
        (lambda c: c.close([(None, None)]), ["Neither"]),
        (lambda c: c.predict([]), ["pairs", "at least one"]),
        (lambda c: c.predict([("d0", "x")]), ["column 'x'"]),
        (lambda c: c.set(noise=True), ["noise"]),
        (lambda c: c.set(noise=0.0), ["noise"]),
        (lambda c: c.set(rank=2.0), ["rank"]),
        (lambda c: c.set(seed=3), ["seed", "keeps"]),
        (lambda c: c.set(seed=None), ["seed", "whole number"]),
        (lambda c: c.set(policy=None), ["policy"]),
        (lambda c: c.set(value="x"), ["value", "keeps"]),
        (lambda c: c.set(colour="red"), ["colour", "no such setting"]),
        (lambda c: c.set(policy=["ids"]), ["policy"]),
        (lambda c: c.set(repeats="yes"), ["repeats", "true or false"]),
    ],
    ids=lambda given: None if callable(given) else "-".join(given).replace(" ", "-"),
)
def test_what_is_wrong_is_said_and_nothing_is_written(shared, call, parts):
    before = dump(shared._storage.path)
    with refused(*parts):
        call(shared)
    assert dump(shared._storage.path) == before


def test_an_empty_campaign(tmp_path):
    with Campaign.new(tmp_path / "empty.db") as campaign:
        assert set(campaign.sizes().values()) == {0}
        assert campaign.status().open == 0
        assert campaign.progress().value.size == 0
        campaign.report(tmp_path / "empty.html")
        campaign.export(tmp_path / "empty.csv")
        with refused("no entry is open"):
            campaign.ask(1)
        with refused("no entry is open"):
            campaign.ask(1, plate=Plates("row", {"a": "b"}))
        with refused("predict"):
            campaign.predict([("a", "b")])
        campaign.add(rows=["a"])
        with refused("no entry is open"):
            campaign.ask(1)


@pytest.mark.parametrize("value", ["mean", "why", "Low"])
def test_a_value_may_be_called_like_a_forecast(tmp_path, value):
    with Campaign.new(tmp_path / "c.db", value=value) as campaign:
        campaign.add(rows=["a"], columns=["x", "y"])
        campaign.ask(2).save(tmp_path / "next.csv")
        header, *lines = (tmp_path / "next.csv").read_text().splitlines()
        fields = [line.split(",") for line in lines]
        for number, field in enumerate(fields):
            field[2] = str(number + 0.5)
        write(tmp_path / "told.csv", fields, header.split(","))
        assert campaign.tell(tmp_path / "told.csv").values == 2
        campaign.export(tmp_path / "out.csv", history=True)
