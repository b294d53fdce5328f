"""Fixtures that several files of tests of campaigns share."""

import contextlib
import shutil
import sys

import campaigning
import commanding
import pytest
from storing import Clock

from smc_jax.campaign import command_line
from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.storage import Storage

# The file of a campaign; see `storing`.


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def create(tmp_path, clock):
    """Makes files of campaigns."""
    with contextlib.ExitStack() as stack:

        def make(**settings):
            path = tmp_path / f"{len(list(tmp_path.iterdir()))}.campaign"
            return stack.enter_context(Storage.create(path, settings, "test", clock=clock))

        yield make


# Tables; see `tabling`.


@pytest.fixture
def save(tmp_path):
    def write(content, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


# Campaigns in Python; see `campaigning`.


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """A campaign with a model, whose fit is in its cache; tests work on copies."""
    path = tmp_path_factory.mktemp("fitted") / "campaign.db"
    with Campaign.new(path, rank=2) as campaign:
        campaign.add(rows=campaigning.ROWS, columns=campaigning.COLUMNS)
        campaign.tell(campaigning.KNOWN)
        campaign.best(8)
    return path


@pytest.fixture
def new(tmp_path, request):
    """Makes campaigns, and ends their connections; by default, copies of one that was fitted."""
    with contextlib.ExitStack() as stack:

        def make(
            known=None,
            *,
            name="campaign.db",
            rows=campaigning.ROWS,
            columns=campaigning.COLUMNS,
            **settings,
        ):
            path = tmp_path / name
            if known is None and not settings:
                template = request.getfixturevalue("fitted")
                for suffix in ("", "-fit.npz"):
                    shutil.copy(f"{template}{suffix}", f"{path}{suffix}")
                return stack.enter_context(Campaign(path))
            campaign = stack.enter_context(Campaign.new(path, **({"rank": 2} | settings)))
            campaign.add(rows=rows, columns=columns)
            known = campaigning.KNOWN if known is None else known
            if known:
                campaign.tell(known)
            return campaign

        yield make


# The command `smc-jax`; see `commanding`.


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Commands run in a folder of their own, and leave the user's cache alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "programs"))


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command that must succeed; returns what it prints."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["smc-jax", *map(str, arguments)])
        command_line.main()
        printed = capsys.readouterr().out
        assert any(line.startswith("Next:") for line in printed.splitlines())
        return printed

    return call


@pytest.fixture
def fail(monkeypatch, capsys):
    """Runs a command that must fail with one line; returns the line."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["smc-jax", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            command_line.main()
        printed = capsys.readouterr()
        assert stopped.value.code == 2
        assert "Traceback" not in printed.out + printed.err
        assert "Next:" not in printed.out
        assert printed.err.startswith("error: ")
        assert printed.err.count("\n") == 1
        assert printed.err.endswith("\n")
        return printed.err

    return call


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A campaign with a model, whose fit is in its cache; tests work on copies."""
    folder = tmp_path_factory.mktemp("made")
    table = commanding.write(folder / "assay.csv", commanding.NAMES, *commanding.KNOWN)
    settings = dict(zip(("rows", "columns", "value"), commanding.NAMES, strict=True))
    with Campaign.new(folder / "c.db", table, rank=2, **settings) as campaign:
        campaign.best(4)
    return folder


@pytest.fixture
def copy(made, tmp_path):
    """A copy of the campaign in the folder where commands run."""
    for path in made.iterdir():
        shutil.copy(path, tmp_path)
    return tmp_path / "c.db"


@pytest.fixture
def empty(tmp_path):
    """A campaign of which nothing but the ids is known."""
    with Campaign.new(tmp_path / "e.db") as campaign:
        campaign.add(rows=commanding.ROWS, columns=commanding.COLUMNS)
    return tmp_path / "e.db"
