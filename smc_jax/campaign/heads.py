"""The first line of a table that is there already, which says what kind of table it is."""

import gzip
import os
import re
import zlib

from smc_jax.campaign.cells import import_parquet, source_of
from smc_jax.campaign.types import CampaignError

HEAD = 1 << 16  # bytes of a file in which its first line is looked for


def head_of(path: str | os.PathLike[str]) -> list[str]:
    """The names in the first line, in small letters; refuses a file that cannot be read."""
    try:
        return _names(os.fspath(path))
    except (OSError, EOFError, ValueError, zlib.error):
        raise CampaignError(
            f"{source_of(path)}: the file exists and is no table that can be read; name another"
            " file, or delete this one first"
        ) from None


def split_names(line: str) -> list[str]:
    """The names in a line, in small letters, parted by tabs, semicolons or commas."""
    return [name.strip(' "').lower() for name in re.split("[\t;,]", line)]


def _names(path: str) -> list[str]:
    """The names in the first line of a table, in small letters; the rest is not read."""
    with open(path, "rb") as stream:
        if path.endswith(".parquet"):
            schema = import_parquet(path).parquet.read_schema(stream)
            return [name.strip().lower() for name in schema.names]
        packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
        head = gzip.GzipFile(fileobj=stream).read(HEAD) if packed else stream.read(HEAD)
    wide = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    text = head.decode("utf-16" if wide else "utf-8-sig", errors="replace")
    first = next((line for line in text.splitlines() if re.search(r"\w", line)), "")
    return split_names(first)
