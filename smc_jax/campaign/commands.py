"""What each command of `smc-jax` does; every one prints what to do next."""

import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tqdm import tqdm

from smc_jax.campaign import hints, show
from smc_jax.campaign.campaign import Campaign
from smc_jax.campaign.command_flags import CHANGEABLE, FLAGS, NEW_SETTINGS, Flag
from smc_jax.campaign.exporting import open_ask_lines
from smc_jax.campaign.picture import progress_png
from smc_jax.campaign.plates import Plates
from smc_jax.campaign.sheets import check_out, check_sheet
from smc_jax.campaign.tables import read_ids, read_pairs
from smc_jax.campaign.taking import PAST
from smc_jax.campaign.types import COLUMN, ROW, CampaignError
from smc_jax.campaign.writing import (
    PICTURES,
    REPORTS,
    check_ending,
    write_table,
    write_whole,
)


class Command(NamedTuple):
    """One command."""

    run: Callable[[Any, list[str]], None]  # (flags by name, arguments)
    arguments: tuple[str, ...]  # their names; one that ends in ... may be there several times
    meaning: str  # what it does
    flags: tuple[Flag, ...] = ()


def _open(path: str) -> Campaign:
    """The campaign, with a bar while its model is fitted."""
    bar: list[Any] = []

    def on_fit(done: int, total: int) -> None:
        if not bar:
            bar.append(tqdm(total=total, desc="fitting", unit="fit", file=sys.stderr, leave=False))
        bar[0].update(done - bar[0].n)
        if done == total:
            bar.pop().close()

    return Campaign(path, on_fit=on_fit)


def _new(given: Any, arguments: list[str]) -> None:
    (path,) = arguments
    wanted: dict[str, Any] = {
        flag.name: getattr(given, flag.name)
        for flag in NEW_SETTINGS
        if getattr(given, flag.name) is not None
    }
    if given.maximise is not None and given.minimise is not None:
        raise CampaignError("--maximise and --minimise: give one of them")
    wanted["maximise"] = given.minimise is None
    value = given.maximise if given.minimise is None else given.minimise
    if value:
        wanted["value"] = value
    files = ("row_features", "column_features", "prediction", *PAST)
    wanted |= {name: getattr(given, name) for name in files}
    with Campaign.new(path, given.table, **wanted) as campaign:
        for note in campaign.notes:
            print(note)
        print(f"{path}: {show.counted(campaign.sizes())}.")
        step = hints.next_sheet(campaign, path)
    print(show.direction(wanted["maximise"]))
    print(f"Next: {step}")


def _ask(given: Any, arguments: list[str]) -> None:
    (path,) = arguments
    with _open(path) as campaign:
        inputs = (given.only_rows, given.only_columns, given.closed, given.plate, given.costs)
        check_sheet(campaign, path, given.out, given.token, inputs)
        rows, columns, _ = campaign.names
        named = {"rows": rows, "columns": columns}
        closed = [] if given.closed is None else read_pairs(given.closed, partial=True, **named)
        found = campaign.ask(
            given.number,
            rows=None if given.only_rows is None else read_ids(given.only_rows, name=rows),
            columns=None
            if given.only_columns is None
            else read_ids(given.only_columns, name=columns),
            closed=closed,
            plate=None if given.plate is None else _plate(given.plate, **named),
            token=given.token,
            expires=given.expires,
            refit=given.refit,
            costs=given.costs,
            overhead=given.overhead,
            worthless=given.worthless,
        )
        settings = campaign.settings
    print(show.suggestions(found, found.names))
    if told := show.worth(found, settings, given.overhead, given.worthless):
        print(told)
    if len(found) < given.number:
        print(f"Only {len(found)} entries were open.")
    print(f"\nThey are pending now, and stand in the order in which they were chosen. Asked again"
          f" with --token={found.token}, the same entries come; smc-jax withdraw {path}"
          f" {found.token} takes them back.")  # fmt: skip
    if given.out is not None:
        found.save(given.out)
        print(f"Next: measure, fill in the column {found.names[2]!r} of {given.out} (or write"
              " failed, or no answer, into its status), then:"
              f" smc-jax tell {path} {given.out}")  # fmt: skip
    else:
        row, column, value = found.names
        print(f"Next: measure, write a CSV with {row}, {column} and {value}, then:"
              f" smc-jax tell {path} answers.csv")  # fmt: skip


def _plate(text: str, **named: str) -> Plates:
    """`row`, `column`, or a CSV of ids and their groups whose header names the axis."""
    axes = {ROW: ROW, COLUMN: COLUMN, named["rows"]: ROW, named["columns"]: COLUMN}
    return Plates(axes[text]) if text in axes else Plates.read(text, **named)


def _tell(given: Any, arguments: list[str]) -> None:
    path, *tables = arguments
    with _open(path) as campaign:
        added = campaign.tell(*tables, correct=given.correct)
        for note in campaign.notes:
            print(note)
        step = hints.after_tell(campaign, path, tables, added)
    print(f"{', '.join(tables)}: {show.added(added)}.")
    print(f"Next: {step}")


def _withdraw(given: Any, arguments: list[str]) -> None:
    path, token = arguments
    with _open(path) as campaign:
        added = campaign.withdraw(token)
        step = hints.next_step(campaign, path)
    print(f"{token}: {show.added(added)}.\nNext: {step}")


def _predict(given: Any, arguments: list[str]) -> None:
    path, table = arguments
    with _open(path) as campaign:
        check_out(path, given.out, inputs=[table])
        rows, columns, _ = campaign.names
        pairs = read_pairs(table, rows=rows, columns=columns)
        found = campaign.predict(pairs)  # type: ignore[arg-type]
        names, answered = campaign.names, campaign.answered()
        step = hints.next_step(campaign, path)
    if given.out is not None:
        header = [rows, columns, "mean", "sd", "low", "high", "known"]
        write_table(given.out, header, map(show.rounded, found))
    print(show.predictions(found, names))
    print(show.coverage(answered))
    print(f"Next: {step}" + ("" if given.out else "; --out=FILE.csv keeps the table"))


def _status(given: Any, arguments: list[str]) -> None:
    (path,) = arguments
    with _open(path) as campaign:
        if given.png is not None:
            check_out(path, given.png, table=False)
            check_ending(given.png, PICTURES, "a picture", "--png")
        check_out(path, given.open_asks)
        status, progress, names = campaign.status(), campaign.progress(), campaign.names
        maximise, asks = campaign.settings["maximise"], campaign.open_asks()
        step = hints.after_status(campaign, path, status)
    print(show.status(status, names, maximise=maximise))
    if asks:
        print(show.open_asks(asks, time.time()))
    if progress.value.size:
        print(show.plot(progress.best, f"best {names[2]} so far, in the order told"))
    if given.png is not None:
        write_whole(given.png, progress_png(progress, value_name=names[2], maximise=maximise))
        print(f"{given.png} has the picture.")
    if given.open_asks is not None:
        write_table(given.open_asks, *open_ask_lines(asks))
        print(f"{given.open_asks} has the open asks.")
    print(f"Next: {step}")


def _report(given: Any, arguments: list[str]) -> None:
    (path,) = arguments
    out = given.out or str(pathlib.Path(path).with_suffix(".html"))
    with _open(path) as campaign:
        check_out(path, out, table=False)
        check_ending(out, REPORTS, "a page of HTML", "--out")
        campaign.report(out)
        step = hints.next_step(campaign, path)
    print(f"{out}: one file, to be opened in any browser.\nNext: {step}")


def _close(given: Any, arguments: list[str], closed: bool = True) -> None:
    path, table = arguments
    with _open(path) as campaign:
        rows, columns, _ = campaign.names
        pairs = read_pairs(table, rows=rows, columns=columns, partial=True)
        changed = campaign.close(pairs) if closed else campaign.reopen(pairs)
        step = hints.next_step(campaign, path)
    print(f"{table}: {changed} of {len(pairs)} were {'open' if closed else 'closed'} before.")
    print(f"Next: {step}")


def _reopen(given: Any, arguments: list[str]) -> None:
    _close(given, arguments, closed=False)


def _add(given: Any, arguments: list[str]) -> None:
    (path,) = arguments
    if given.rows is None and given.columns is None:
        raise CampaignError("add: give --rows=FILE, --columns=FILE or both, one id a line")
    with _open(path) as campaign:
        rows, columns, _ = campaign.names
        added = campaign.add(
            rows=[] if given.rows is None else read_ids(given.rows, name=rows),
            columns=[] if given.columns is None else read_ids(given.columns, name=columns),
        )
        step = hints.next_step(campaign, path)
    print(f"{path}: {show.added(added)}.\nNext: {step}")


def _set(given: Any, arguments: list[str]) -> None:
    (path,) = arguments
    wanted = {name: getattr(given, name) for name in CHANGEABLE if given[name].present}
    if not wanted:
        raise CampaignError(f"set: give one of {', '.join(f'--{name}' for name in CHANGEABLE)}")
    with _open(path) as campaign:
        campaign.set(**wanted)
        step = hints.next_step(campaign, path)
    changes = (f"{name} is {'none' if value is None else value}" for name, value in wanted.items())
    print(f"{path}: {', '.join(changes)} from here on.")
    print(f"Next: {step}")


def _export(given: Any, arguments: list[str]) -> None:
    (path,) = arguments
    if given.out is None:
        raise CampaignError("export: give --out=FILE.csv, FILE.csv.gz or FILE.parquet")
    with _open(path) as campaign:
        check_out(path, given.out)
        campaign.export(given.out, history=given.history)
        rows, columns, value = campaign.names
        goal = "maximise" if campaign.settings["maximise"] else "minimise"
        step = hints.next_step(campaign, path)
    print(f"{given.out}: {'everything that was ever told' if given.history else 'what holds now'}.")
    if given.history:
        print(f"Next: {step}")
    else:
        print(f"Next: smc-jax new OTHER.db --table={given.out} --rows={rows} --columns={columns}"
              f" --{goal}={value} begins another campaign with it.")  # fmt: skip


def _describe(given: Any, arguments: list[str]) -> None:
    (path,) = arguments
    with _open(path) as campaign:
        campaign.describe(rows=given.rows, columns=given.columns, prediction=given.prediction)
        for note in campaign.notes:
            print(note)
        print(f"{path}: {show.counted(campaign.sizes())}.")
        step = hints.next_step(campaign, path)
    print(f"Next: {step}")


# How each command is called, and what it does.
_CALLED: dict[str, tuple[Callable[[Any, list[str]], None], tuple[str, ...], str]] = {
    "new": (_new, (), "makes a campaign, from a table of what is known or empty"),
    "ask": (_ask, (), "suggests which entries to measure next"),
    "tell": (_tell, ("TABLE...",), "adds answers: values, failures, withdrawals, asks in vain"),
    "withdraw": (_withdraw, ("TOKEN",), "takes an ask back: what is pending of it is free again"),
    "predict": (_predict, ("PAIRS",), "forecasts any entries"),
    "status": (_status, (), "says where the campaign stands, and whether more still pays"),
    "report": (_report, (), "writes one HTML page to pass on"),
    "close": (_close, ("PAIRS",), "closes pairs, rows or columns for good"),
    "reopen": (_reopen, ("PAIRS",), "opens them again"),
    "add": (_add, (), "adds rows and columns of which nothing is known"),
    "describe": (_describe, (), "adds features of rows and columns, or a prediction of the values"),
    "set": (_set, (), "changes settings from here on"),
    "export": (_export, (), "writes a table of everything known"),
}
COMMANDS = {
    name: Command(run, ("CAMPAIGN", *arguments), meaning, FLAGS.get(name, ()))
    for name, (run, arguments, meaning) in _CALLED.items()
}
