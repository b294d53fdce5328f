"""What all commands share: flags parsed and complaints made in one line, compilation timed."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar

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
        unknown = isinstance(error, KeyError | AttributeError)
        # A KeyError quotes its message, ml_collections once more: undo both.
        text = str(error.args[0]).replace("\\n", " ").replace("\\'", "'").strip("'\"")
        fail(f"no such config field: '{text}" if unknown else str(error))


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
