"""The flags of the commands of `smc-jax`."""

from typing import Any, NamedTuple

from smc_jax.campaign.settings import SETTINGS
from smc_jax.campaign.taking import PAST

CHANGEABLE = ("policy", "rank", "budget", "noise", "repeats", "retry_failed", "retry_silent")


class Flag(NamedTuple):
    """One flag of a command."""

    name: str
    meaning: str
    default: Any = None
    kind: type = str
    or_none: bool = False  # whether the word none may be given in place of a value


def _setting_flag(name: str) -> Flag:
    """A flag for a setting of the campaign; it has no default, so that what is given is known."""
    kinds = {"rank": int, "budget": int, "seed": int, "noise": float}
    default, meaning = SETTINGS[name]
    kind = bool if isinstance(default, bool) else kinds.get(name, str)
    return Flag(name, meaning, None, kind, or_none=default is None)


NEW_SETTINGS = tuple(_setting_flag(name) for name in SETTINGS if name not in ("maximise", "value"))
PREDICTION = "a prediction of the values: a matrix with ids, or a table row,column,prediction"
OUT = Flag("out", "the file to write")
FLAGS = {
    "new": (
        Flag("table", "what is known: a long or a wide table, CSV or Parquet"),
        Flag("maximise", "the column of the values, of which high ones are wanted"),
        Flag("minimise", "the column of the values, of which low ones are wanted"),
        Flag("row_features", "what is known of rows: a table by id, CSV or Parquet"),
        Flag("column_features", "what is known of columns: a table by id"),
        Flag("prediction", PREDICTION),
        *(Flag(name, told, None, kind) for name, (told, kind) in PAST.items()),
        *NEW_SETTINGS,
    ),
    "ask": (
        Flag("number", "how many entries", 10, int),
        Flag("out", "a .csv, .csv.gz or .parquet file for the suggestions"),
        Flag("only_rows", "a file with the only rows that are wanted, one id a line"),
        Flag("only_columns", "a file with the only columns that are wanted"),
        Flag("closed", "a CSV of pairs, rows or columns that are closed for now"),
        Flag("costs", "a table of what asks cost, by row, column or entry: value per cost counts"),
        Flag("overhead", "what every ask costs on top of --costs (default: 0)", None, float),
        Flag("worthless", "a value worth nothing (default: a low known one)", None, float),
        Flag("plate", "what the entries must share: row, column, or a CSV of ids and groups"),
        Flag("token", "a name for this ask; asked again with it, the same entries come"),
        Flag("expires", "hours after which the entries are free again", None, float),
        Flag("refit", "whether the model is fitted to all that was told", True, bool),
    ),
    "tell": (Flag("correct", "whether other values replace the earlier ones", False, bool),),
    "predict": (OUT,),
    "status": (
        Flag("png", "a file for a picture of the progress"),
        Flag("open_asks", "a .csv, .csv.gz or .parquet file for the asks with pending entries"),
    ),
    "report": (OUT,),
    "add": tuple(
        Flag(name, f"a file with new {name}, one id a line") for name in ("rows", "columns")
    ),
    "describe": (
        *(Flag(name, f"a table of {name} by id") for name in ("rows", "columns")),
        Flag("prediction", f"more entries, or other values, of {PREDICTION}"),
    ),
    "set": tuple(_setting_flag(name) for name in CHANGEABLE),
    "export": (OUT, Flag("history", "whether every answer ever told is written", False, bool)),
}
