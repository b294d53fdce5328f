"""What all commands share: flags parsed and complaints made in one line, the device, the clock."""

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import jax
from absl import flags
from ml_collections import ConfigDict

from launch.settings import ConfigError
from smc_jax.simulation.sweep import ClosedChoiceError

Result = TypeVar("Result")
HELP = ("-h", "-help", "--help", "-?", "--helpfull", "-helpfull")
NONE = re.compile(r"--config\.([\w.]+)=None")


def fail(message: str) -> NoReturn:
    """Ends with one line on standard error."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)


def parse(arguments: Sequence[str], usage: Callable[[ConfigDict | None], str]) -> list[str]:
    """Parses flags with absl, whose complaints become one line.

    Args:
      arguments: of the command, its name first.
      usage: the text for --help, given the config that was named beside it, if any.
    """
    asked = [argument for argument in arguments if argument not in HELP]
    helps = len(asked) < len(arguments)
    # The parser of a number does not know None, which has a meaning for some fields.
    last = {argument.partition("=")[0]: argument for argument in asked}  # of a flag, it counts
    none = [found[1] for argument in last.values() if (found := NONE.fullmatch(argument))]
    asked = [argument for argument in asked if not NONE.fullmatch(argument)]
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # where policies from outside are looked for
    config = None
    try:
        rest = flags.FLAGS(asked)
        if "config" in flags.FLAGS and flags.FLAGS.config is not None:
            flags.FLAGS.config.policies  # noqa: B018  a missing file is reported at first use
            config = flags.FLAGS.config
            config.update_from_flattened_dict(dict.fromkeys(none))
    except Exception as error:  # a config file is Python: reading it can raise anything
        if not helps:
            fail(_complaint(error))
    if helps:
        print(usage(config))
        sys.exit(0)
    return rest


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
        if "get_config() takes 0 positional arguments" in last:
            return f"{flag}this config has no variants; leave out what is behind the colon"
        return flag + (last.partition(": ")[2] or last)
    if unknown := re.match(r"Unknown command line flag '(\w+)'", text):
        return f"no such flag: --{unknown[1]}; a field of the config is --config.FIELD=VALUE"
    return text


def check_platform() -> None:
    """Refuses a platform that JAX was told to use and that is not there."""
    asked = os.environ.get("JAX_PLATFORMS")
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # the latter where no plugin is installed
        if not asked:
            raise
        raise ConfigError(
            f"JAX_PLATFORMS: JAX finds no {asked!r} here; install what it needs,"
            " or unset JAX_PLATFORMS"
        ) from error


def announce(devices: Sequence[jax.Device]) -> None:
    """Prints what the experiment runs on."""
    first = devices[0]
    kind = "" if first.device_kind == first.platform else f" ({first.device_kind})"
    print(f"running on {len(devices)} x {first.platform}{kind}", flush=True)


@contextlib.contextmanager
def one_line() -> Iterator[None]:
    """Whatever the user can mend costs one line and exit status 2."""
    try:
        check_platform()
        yield
    except (ConfigError, FloatingPointError, ClosedChoiceError) as error:
        fail(str(error))


def run_in_workdir(
    arguments: Sequence[str],
    config: ConfigDict | None,
    workdir: str | None,
    action: Callable[[ConfigDict, Path], Result],
) -> Result:
    """Runs the action on a config in a working directory."""
    if len(arguments) > 1:
        fail(f"unexpected argument {arguments[1]!r}; settings are given as --config.FIELD=VALUE")
    if config is None:
        fail("give --config=configs/NAME.py")
    if not workdir:
        fail("give --workdir=DIR")
    try:
        with one_line():
            return action(config, Path(workdir))
    except KeyboardInterrupt:
        print(f"\ninterrupted; the same command resumes what is in {workdir}", file=sys.stderr)
        sys.exit(130)


class CompileClock:
    """Adds up the seconds that JAX spends on tracing, lowering and compiling."""

    def __init__(self) -> None:
        self.seconds = 0.0
        jax.monitoring.register_event_duration_secs_listener(self._listen)

    def _listen(self, event: str, duration_secs: float, **_: str | int) -> None:
        if event.startswith("/jax/core/compile/"):
            self.seconds += duration_secs
