"""The scripts that make the tables of a campaign's file, one for each version of its format."""

APPLICATION_ID = 0x534D4343  # "SMCC" in the header of the file
_FIRST = ["events", "settings", "ids", "asks", "suggestions", "answers", "closures", "features"]
LOG_TABLES = [*_FIRST, "history", "predictions"]  # the later ones are of later scripts

_TABLES = """
CREATE TABLE events (event INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL,
    kind TEXT NOT NULL, source TEXT NOT NULL, detail TEXT NOT NULL);
CREATE TABLE settings (event INTEGER NOT NULL REFERENCES events, name TEXT NOT NULL,
    value TEXT NOT NULL, PRIMARY KEY (event, name));
CREATE TABLE ids (axis TEXT NOT NULL CHECK (axis IN ('row', 'column')),
    number INTEGER NOT NULL CHECK (number >= 0), id TEXT NOT NULL,
    event INTEGER NOT NULL REFERENCES events, PRIMARY KEY (axis, number), UNIQUE (axis, id));
CREATE TABLE asks (event INTEGER PRIMARY KEY REFERENCES events, token TEXT UNIQUE, expires REAL,
    position INTEGER NOT NULL, fitted_at INTEGER);
CREATE TABLE suggestions (event INTEGER NOT NULL REFERENCES asks, place INTEGER NOT NULL,
    row INTEGER NOT NULL, column INTEGER NOT NULL, mean REAL, sd REAL, low REAL, high REAL,
    probability REAL, gain REAL, reason TEXT NOT NULL, PRIMARY KEY (event, place));
CREATE UNIQUE INDEX suggestions_of_entry ON suggestions (row, column, event);
CREATE TABLE answers (answer INTEGER PRIMARY KEY, event INTEGER NOT NULL REFERENCES events,
    row INTEGER NOT NULL, column INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('value', 'failed', 'withdrawn')), value REAL,
    correction INTEGER NOT NULL CHECK (correction IN (0, 1)),
    CHECK ((kind = 'value') = (value IS NOT NULL)));
CREATE INDEX answers_of_entry ON answers (row, column);
CREATE TABLE closures (closure INTEGER PRIMARY KEY, event INTEGER NOT NULL REFERENCES events,
    row INTEGER, column INTEGER, closed INTEGER NOT NULL CHECK (closed IN (0, 1)),
    CHECK (row IS NOT NULL OR column IS NOT NULL));
CREATE INDEX closures_of_entry ON closures (row, column);
CREATE TABLE features (event INTEGER NOT NULL REFERENCES events,
    axis TEXT NOT NULL CHECK (axis IN ('row', 'column')), number INTEGER NOT NULL,
    name TEXT NOT NULL, value REAL, category TEXT, PRIMARY KEY (event, axis, number, name));
"""
_HISTORY = """CREATE TABLE history (event INTEGER NOT NULL REFERENCES events,
    place INTEGER NOT NULL, row TEXT NOT NULL, column TEXT NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (event, place));\n"""
# An answer may also be that none came. SQLite cannot change what a column may hold: the table is
# made anew, and everything in it is copied.
_NO_ANSWER = """
CREATE TABLE more_answers (answer INTEGER PRIMARY KEY, event INTEGER NOT NULL REFERENCES events,
    row INTEGER NOT NULL, column INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('value', 'failed', 'withdrawn', 'no answer')), value REAL,
    correction INTEGER NOT NULL CHECK (correction IN (0, 1)),
    CHECK ((kind = 'value') = (value IS NOT NULL)));
INSERT INTO more_answers (answer, event, row, column, kind, value, correction)
    SELECT answer, event, row, column, kind, value, correction FROM answers ORDER BY answer;
DROP TABLE answers;
ALTER TABLE more_answers RENAME TO answers;
CREATE INDEX answers_of_entry ON answers (row, column);
ALTER TABLE suggestions ADD COLUMN chance REAL;
ALTER TABLE suggestions ADD COLUMN cost REAL;
CREATE TABLE predictions (event INTEGER NOT NULL REFERENCES events,
    place INTEGER NOT NULL, row TEXT NOT NULL, column TEXT NOT NULL, value REAL NOT NULL,
    PRIMARY KEY (event, place));
"""


def _only_added(*tables: str) -> str:
    """The triggers that refuse to change or delete a line."""
    return "\n".join(
        f"CREATE TRIGGER {table}_{change} BEFORE {change} ON {table} BEGIN"
        f" SELECT RAISE(ABORT, 'a campaign is only added to'); END;"
        for table in tables
        for change in ("UPDATE", "DELETE")
    )


def _numbered(*tables: str) -> str:
    """The triggers that refuse a line of a row or column that there is not."""
    return "\n".join(
        f"CREATE TRIGGER {table}_numbered BEFORE INSERT ON {table} WHEN"
        f" NOT EXISTS (SELECT 1 FROM ids WHERE axis = 'row' AND number = NEW.row) OR"
        f" NOT EXISTS (SELECT 1 FROM ids WHERE axis = 'column' AND number = NEW.column)"
        f" BEGIN SELECT RAISE(ABORT, 'no row or column has this number'); END;"
        for table in tables
    )


# `user_version` of a file is how many of these scripts made it. A script that was ever released
# never changes; a new version adds one.
MIGRATIONS: tuple[str, ...] = (
    f"PRAGMA application_id = {APPLICATION_ID};\n{_TABLES}{_only_added(*_FIRST)}\n"
    f"{_numbered('suggestions', 'answers')}\n",
    f"{_HISTORY}{_only_added('history')}\n",
    f"{_NO_ANSWER}{_only_added('answers', 'predictions')}\n{_numbered('answers')}\n",
)
