"""Files of a campaign that a person reads: written whole or not at all."""

import csv
import errno
import gzip
import io
import os
import secrets
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from smc_jax.campaign import cells
from smc_jax.campaign.types import CampaignError

REPORTS, PICTURES = (".html", ".htm"), (".png",)
TABLES = (".csv", ".csv.gz", ".parquet")


def check_writable(path: str | os.PathLike[str], *, table: bool = True) -> None:
    """Refuses a file that could not be written, before there is something to write into it.

    Args:
      path: the file.
      table: whether it will be a table, for which the end of the name says which kind.
    """
    source = cells.source_of(path)
    if table:
        _check_kind(path)
    real = os.path.realpath(path)
    draft = os.path.join(os.path.dirname(real), f".{secrets.token_hex(8)}.tmp")
    try:
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(real).st_mode):  # or a name that is too long
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        open(draft, "xb").close()
        os.unlink(draft)
    except OSError as error:
        raise _unwritable(source, error) from None


def _check_kind(path: str | os.PathLike[str]) -> None:
    """Refuses a name that does not end as that of a table does, or Parquet without pyarrow."""
    source, name = cells.source_of(path), os.fspath(path)
    if not name.endswith(TABLES):
        raise CampaignError(f"{source}: end the name in .csv, .csv.gz or .parquet")
    if name.endswith(".parquet"):
        cells.import_parquet(source)


def check_ending(
    path: str | os.PathLike[str], endings: Sequence[str], what: str, flag: str = ""
) -> None:
    """Refuses a name that does not end as such a file does, which may be a table of the user.

    Args:
      path: the file.
      endings: those that the name may have, in any case of their letters.
      what: the file will be, for the complaint.
      flag: the flag that gives the name, if one does.
    """
    if not os.fspath(path).lower().endswith(tuple(endings)):
        named = f"{flag}={os.fspath(path)}" if flag else cells.source_of(path)
        raise CampaignError(f"{named}: {what} is written; end the name in {' or '.join(endings)}")


def _unwritable(source: str, error: OSError) -> CampaignError:
    reason = error.strerror
    return CampaignError(f"{source}: the file cannot be written ({reason}): choose another place")


def write_table(
    path: str | os.PathLike[str], header: Sequence[str], lines: Iterable[Sequence[Any]]
) -> None:
    """Writes a table whole or not at all; None and NaN become empty cells.

    Of two columns of one name, the later one is renamed.

    Args:
      path: the file; its name ends in .csv, .csv.gz or .parquet.
      header: the names of the columns.
      lines: the cells of each line: texts, numbers or None.
    """
    _check_kind(path)
    source, name = cells.source_of(path), os.fspath(path)
    header = [f"{one}_2" if one in header[:j] else one for j, one in enumerate(header)]
    # NaN is the one value that differs from itself.
    fields = [[None if cell is None or cell != cell else cell for cell in line] for line in lines]
    if name.endswith(".parquet"):
        arrow, sink = cells.import_parquet(source), io.BytesIO()
        columns = [arrow.array([line[j] for line in fields]) for j in range(len(header))]
        arrow.parquet.write_table(arrow.table(columns, names=header), sink)
        data = sink.getvalue()
    else:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([header, *fields])
        data = text.getvalue().encode()
        data = gzip.compress(data, mtime=0) if name.endswith(".gz") else data
    write_whole(path, data)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file whole or not at all."""
    source, path = cells.source_of(path), os.path.realpath(path)
    temporary = os.path.join(os.path.dirname(path), f".{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise _unwritable(source, error) from None
    finally:
        with suppress(OSError):
            os.unlink(temporary)
