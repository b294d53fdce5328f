"""The file of a campaign: made, opened and copied, and the lines of its tables written and read."""

import contextlib
import difflib
import json
import os
import pathlib
import secrets
import sqlite3
import stat
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from smc_jax.campaign.scripts import APPLICATION_ID, MIGRATIONS
from smc_jax.campaign.troubles import WAIT, in_one_line
from smc_jax.campaign.types import NAN, CampaignError, Suggestion

# The numbers of a suggestion, as a line of `suggestions` has them.
OF_SUGGESTION = ("mean", "sd", "low", "high", "probability", "gain", "p_answer", "cost")
COLUMN_OF = {"p_answer": "chance"}  # the columns that are called otherwise in the file
MOST_ENTRIES = 200_000_000  # the model has a dozen bytes an entry and more in memory


@contextlib.contextmanager
def transaction(database: sqlite3.Connection, kind: str) -> Iterator[None]:
    """All of the block or nothing: IMMEDIATE to write, DEFERRED to read one state of the file."""
    database.execute(f"BEGIN {kind}")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


def _connect(path: pathlib.Path, mode: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    database = sqlite3.connect(uri, uri=True, timeout=WAIT, isolation_level=None)
    try:
        # An acknowledged answer survives the loss of power; macOS needs `fullfsync` for it. With
        # `recursive_triggers`, INSERT OR REPLACE is refused like any other deletion.
        for pragma in ("foreign_keys", "fullfsync", "checkpoint_fullfsync", "recursive_triggers"):
            database.execute(f"PRAGMA {pragma} = ON")
        database.execute("PRAGMA synchronous = FULL")
    except BaseException:
        database.close()
        raise
    return database


def _statements(script: str) -> Iterator[str]:
    """The statements of a script: `executescript` would end the transaction it runs in."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        raise ValueError(f"the migration ends inside a statement: {statement!r}")


def _migrate(database: sqlite3.Connection) -> None:
    """Runs the scripts that the file has not seen, inside the caller's transaction."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    for script in MIGRATIONS[version:]:
        for statement in _statements(script):
            database.execute(statement)
    # Another process may have brought the file further while this one waited.
    database.execute(f"PRAGMA user_version = {max(version, len(MIGRATIONS))}")


def _check_version(database: sqlite3.Connection, path: pathlib.Path) -> int:
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > len(MIGRATIONS):
        raise CampaignError(
            f"The campaign {path} has format {version}, and this smc_jax reads formats up to"
            f" {len(MIGRATIONS)}; install a newer smc_jax."
        )
    return version


def open_file(path: pathlib.Path) -> sqlite3.Connection:
    """A connection to an existing campaign, of this version's format."""
    _check_there(path)
    with in_one_line(path), contextlib.ExitStack() as on_failure:
        database = _connect_campaign(path)
        on_failure.callback(database.close)
        if _check_version(database, path) < len(MIGRATIONS):
            with transaction(database, "IMMEDIATE"):
                _check_version(database, path)
                _migrate(database)
        database.execute("SELECT max(event) FROM events").fetchone()
        on_failure.pop_all()
    return database


def open_copy(path: pathlib.Path) -> sqlite3.Connection:
    """A connection to a copy of a campaign, of this version's format; nothing is written to it.

    The copy is a temporary file of SQLite, which ends with the connection.
    """
    _check_there(path)
    with in_one_line(path), contextlib.ExitStack() as on_failure:
        copy = sqlite3.connect("", isolation_level=None)
        on_failure.callback(copy.close)
        with contextlib.closing(_connect_campaign(path)) as database:
            database.backup(copy)
        _check_version(copy, path)
        with transaction(copy, "IMMEDIATE"):
            _migrate(copy)
        on_failure.pop_all()
    return copy


def _check_there(path: pathlib.Path) -> None:
    """Refuses a path at which there is no file."""
    try:
        folder = stat.S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise CampaignError(
            f"There is no campaign {path}; check the path, or create it (smc-jax new {path})."
        ) from None
    except OSError as error:
        raise CampaignError(
            f"The campaign {path} cannot be opened ({error.strerror}); check the path and its"
            " permissions."
        ) from error
    if folder:
        raise CampaignError(f"{path} is a folder; name the file of the campaign.")


def _connect_campaign(path: pathlib.Path) -> sqlite3.Connection:
    """A connection to an existing campaign, of whichever format it has."""
    with contextlib.ExitStack() as on_failure:
        database = _connect(path, "rw")
        on_failure.callback(database.close)
        if database.execute("PRAGMA application_id").fetchone() != (APPLICATION_ID,):
            raise CampaignError(f"{path} is no campaign of smc_jax; check the path.")
        on_failure.pop_all()
    return database


def create_file(path: pathlib.Path, fill: Callable[[sqlite3.Connection], None]) -> None:
    """Makes the file of a campaign, whole or not at all, and overwrites nothing.

    Args:
      path: where the campaign will be; its folder exists.
      fill: writes the first events, inside the transaction that makes the tables.
    """
    exists = f"{path} exists already; choose another name, or open it (smc-jax status {path})."
    if os.path.lexists(path):
        raise CampaignError(exists)
    for left in (f"{path}-wal", f"{path}-journal"):
        if os.path.lexists(left):  # SQLite would read it into the new campaign
            raise CampaignError(f"{left} is left of an earlier campaign; move it away first.")
    if not os.path.isdir(path.parent):
        raise CampaignError(f"There is no folder {path.parent}; create it first.")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        with in_one_line(path), contextlib.closing(_connect(draft, "rwc")) as database:
            database.execute("PRAGMA journal_mode = WAL")
            with transaction(database, "IMMEDIATE"):
                _migrate(database)
                fill(database)
        _publish(draft, path)
    except FileExistsError:
        raise CampaignError(exists) from None
    except OSError as error:
        raise CampaignError(
            f"The campaign {path} cannot be created ({error.strerror}); check the folder and its"
            " permissions."
        ) from error
    finally:
        for suffix in ("", "-wal", "-shm", "-journal"):
            with contextlib.suppress(OSError):
                os.unlink(f"{draft}{suffix}")


def _publish(draft: pathlib.Path, path: pathlib.Path) -> None:
    """Gives a finished file its name, if nothing has that name, and makes the name durable."""
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: take the name, then fill it
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        os.replace(draft, path)
    if os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_event(
    database: sqlite3.Connection, stamp: tuple[float, str, str], detail: dict[str, Any]
) -> int:
    """Adds an event, of which the stamp is time, kind and source; returns its number."""
    added = database.execute(
        "INSERT INTO events (time, kind, source, detail) VALUES (?, ?, ?, ?)",
        (*stamp, json.dumps(detail)),
    )
    assert added.lastrowid is not None
    return added.lastrowid


def write_settings(
    database: sqlite3.Connection, stamp: tuple[float, str, str], settings: dict[str, object]
) -> None:
    """Adds an event with settings; of one name, the last value holds."""
    event = write_event(database, stamp, {"names": list(settings)})
    for name, value in settings.items():
        try:
            text = json.dumps(value)
        except (TypeError, ValueError) as error:
            raise CampaignError(
                f"The setting {name!r} cannot be kept ({error}); give a number, text, true, false,"
                " or a list or a dictionary of them."
            ) from error
        database.execute("INSERT INTO settings VALUES (?, ?, ?)", (event, name, text))


def check_size(database: sqlite3.Connection, rows: int, columns: int) -> None:
    """Refuses a table that is too large, with the columns of history, which the model has too."""
    (past,) = database.execute("SELECT count(DISTINCT column) FROM history").fetchone()
    if rows * (columns + past) > MOST_ENTRIES:
        others = f" and {past:,} of history" if past else ""
        raise CampaignError(
            f"{rows:,} rows x {columns:,} columns{others} are more than the"
            f" {MOST_ENTRIES:,} entries that a campaign can have; leave out rows or columns."
        )


def write_ids(
    database: sqlite3.Connection, event: int, new: Mapping[str, Mapping[str, int]]
) -> None:
    """Adds new ids with their numbers, by axis."""
    database.executemany(
        "INSERT INTO ids (axis, number, id, event) VALUES (?, ?, ?, ?)",
        ((axis, number, id, event) for axis, ids in new.items() for id, number in ids.items()),
    )


def write_ask(
    database: sqlite3.Connection,
    ask: tuple[int, str | None, float | None, int, int | None],
    suggestions: list[tuple[Any, ...]],
) -> None:
    """Adds a line of `asks`, and lines of `suggestions`: row, column, OF_SUGGESTION, reason."""
    database.execute("INSERT INTO asks VALUES (?, ?, ?, ?, ?)", ask)
    forecast = [COLUMN_OF.get(name, name) for name in OF_SUGGESTION]
    names = ("event", "place", "row", "column", *forecast, "reason")
    database.executemany(
        f"INSERT INTO suggestions ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})",
        ((ask[0], place, *suggestion) for place, suggestion in enumerate(suggestions)),
    )


def read_settings(database: sqlite3.Connection) -> dict[str, Any]:
    """The settings that hold now."""
    found = database.execute("SELECT name, value FROM settings ORDER BY event, rowid")
    return {name: json.loads(text) for name, text in found}


def read_position(database: sqlite3.Connection) -> int:
    """The number of the last event."""
    return database.execute("SELECT max(event) FROM events").fetchone()[0]


def read_number_of(database: sqlite3.Connection, axis: str, id: str) -> int:
    """The number of an id; an unknown one is refused with the ids that look like it."""
    found = database.execute("SELECT number FROM ids WHERE axis = ? AND id = ?", (axis, id))
    number = found.fetchone()
    if number is None:
        alike = difflib.get_close_matches(id, read_ids(database, axis))
        fix = f"did you mean {' or '.join(map(repr, alike))}?" if alike else "check its spelling."
        raise CampaignError(f"The campaign has no {axis} {id!r}; {fix}")
    return number[0]


def read_ids(database: sqlite3.Connection, axis: str) -> list[str]:
    """The ids of the rows or of the columns, in the order of their numbers."""
    found = database.execute("SELECT id FROM ids WHERE axis = ? ORDER BY number", (axis,))
    return [name for (name,) in found]


def read_numbers(
    database: sqlite3.Connection, axis: str, named: list[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """The numbers of all ids of an axis, with the named ones, and the numbers of the new ones."""
    known = {id: number for number, id in enumerate(read_ids(database, axis))}
    new: dict[str, int] = {}
    for id in named:
        if id not in known:
            # A lone surrogate is what is left of bytes that are no text.
            if not id or any("\ud800" <= character <= "\udfff" for character in id):
                raise CampaignError(f"A {axis} has the id {id!r}; give it a readable name.")
            new[id] = known[id] = len(known)
    return known, new


def read_suggestions(database: sqlite3.Connection, event: int) -> list[Suggestion]:
    """The suggestions of one ask, in their order."""
    found = database.execute(
        "SELECT r.id, c.id, mean, sd, low, high, probability, gain, reason, chance, cost"
        " FROM suggestions s"
        " JOIN ids r ON r.axis = 'row' AND r.number = s.row"
        " JOIN ids c ON c.axis = 'column' AND c.number = s.column"
        " WHERE s.event = ? ORDER BY place",
        (event,),
    )
    return [
        # SQLite keeps NaN as NULL.
        Suggestion._make(NAN if field is None else field for field in line)
        for line in found
    ]


def read_closed(database: sqlite3.Connection, target: tuple[int | None, int | None]) -> bool:
    """Whether the last closure of exactly this entry, row or column closed it."""
    found = database.execute(
        "SELECT closed FROM closures WHERE row IS ? AND column IS ? ORDER BY closure DESC LIMIT 1",
        target,
    ).fetchone()
    return found is not None and bool(found[0])


def is_closed(database: sqlite3.Connection, row: int, column: int) -> bool:
    """Whether an entry is closed by itself, with its row, or with its column."""
    targets = ((row, column), (row, None), (None, column))
    return any(read_closed(database, target) for target in targets)
