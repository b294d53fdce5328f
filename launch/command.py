"""What all commands share: flags parsed and complaints made in one line, compilation timed."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import jax
from absl import flags
from ml_collections import ConfigDict

from launch.settings import ConfigError

Result = TypeVar("Result")


def fail(message: str) -> NoReturn:
    """Ends with one line on standard error."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)


def parse(arguments: Sequence[str]) -> list[str]:
    """Absl's parser, whose complaints become one line."""
    try:
        rest = flags.FLAGS(arguments)
        if "config" in flags.FLAGS and flags.FLAGS.config is not None:
            flags.FLAGS.config.policies  # noqa: B018  a missing file is reported at first use
        return rest
    except Exception as error:  # a config file is Python: reading it can raise anything
        fail(_complaint(error))


def _complaint(error: Exception) -> str:
    """What was found wrong with the flags, without tracebacks and the paths that were tried."""
    told: Any = error
    while isinstance(told, KeyError | AttributeError) and told.args:
        told = told.args[0]  # as text, each would quote the other
    text = str(told)
    if unknown := re.fullmatch(r"""'(\w+)'(\nDid you mean "(\w+)".*)?""", text):
        hint = f"; did you mean {unknown[3]}?" if unknown[3] else ""
        return f"no such config field: {unknown[1]}{hint}"
    if unread := re.search(r"\[Errno \d+\] (.+): '(.+)'", text):
        return f"config: cannot read {unread[2]}: {unread[1]}"
    flag, raised, trace = text.partition("Error whilst parsing config file:")
    if raised:
        last = trace.strip().splitlines()[-1]
        return flag + (last.partition(": ")[2] or last)
    return text


def run_in_workdir(
    arguments: Sequence[str],
    config: ConfigDict | None,
    workdir: str | None,
    action: Callable[[ConfigDict, Path], Result],
) -> Result:
    """Runs the action; one line and exit status 2 for whatever the user can mend."""
    if len(arguments) > 1:
        fail(f"unexpected argument {arguments[1]!r}; settings are given as --config.FIELD=VALUE")
    if config is None:
        fail("give --config=configs/NAME.py")
    if not workdir:
        fail("give --workdir=DIR")
    try:
        return action(config, Path(workdir))
    except (ConfigError, FloatingPointError, RuntimeError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        print(f"\ninterrupted; the same command goes on from what is in {workdir}", file=sys.stderr)
        sys.exit(130)


class CompileClock:
    """Adds up the seconds that JAX spends on tracing, lowering and compiling."""

    def __init__(self) -> None:
        self.seconds = 0.0
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration_secs: float, **_: str | int) -> None:
        if event.startswith("/jax/core/compile/"):
            self.seconds += duration_secs
