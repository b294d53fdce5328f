"""What SQLite says of the file of a campaign, in one line that names the file and the fix."""

import contextlib
import pathlib
import sqlite3
from collections.abc import Iterator

from smc_jax.campaign.types import CampaignError

WAIT = 60.0  # seconds that a command waits for another process
_TROUBLES = {
    sqlite3.SQLITE_BUSY: f"was in use by another process for {WAIT:.0f} s; try again later.",
    sqlite3.SQLITE_READONLY: "cannot be written; allow writing to the file and to its folder.",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; allow reading and writing of it and of its folder.",
    sqlite3.SQLITE_PERM: "cannot be opened; allow reading and writing of it and of its folder.",
    sqlite3.SQLITE_FULL: "cannot grow, because the disk is full; nothing was added: free some"
    " space and repeat the command.",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore it from a copy.",
    sqlite3.SQLITE_NOTADB: "is no campaign (it is no SQLite file); check the path.",
}


@contextlib.contextmanager
def in_one_line(path: pathlib.Path) -> Iterator[None]:
    """Turns what SQLite says of the file into a `CampaignError` that names the file and the fix."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise  # a mistake in this package, which nobody but its authors can mend
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        trouble = _TROUBLES.get(code, f"cannot be used ({error}); check the file and its disk.")
        raise CampaignError(f"The campaign {path} {trouble}") from error
