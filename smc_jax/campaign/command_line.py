"""The entry point `smc-jax`: flags are parsed with absl, and complaints are one line."""

import io
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from absl import flags

from smc_jax.campaign.commands import COMMANDS
from smc_jax.campaign.compiled import keep_compiled_programs
from smc_jax.campaign.types import CampaignError

HELP = ("-h", "-help", "--help", "--helpfull", "help")
DEFINE: dict[type, Any] = {
    str: flags.DEFINE_string,
    bool: flags.DEFINE_boolean,
}


PARSERS: dict[type, Any] = {
    int: (flags.IntegerParser, "a whole number"),
    float: (flags.FloatParser, "a number"),
}


class Number(flags.ArgumentParser):
    """Parses a number, and where it is allowed the word none; complaints are in plain words."""

    def __init__(self, kind: type, or_none: bool):
        super().__init__()
        parser, word = PARSERS[kind]
        self.parser, self.or_none = parser(), or_none
        self.word = f"{word} or none" if or_none else word

    def parse(self, argument: Any) -> Any:
        """The number; None of the word none, in any case of its letters."""
        if self.or_none and isinstance(argument, str) and argument.strip().lower() == "none":
            return None
        try:
            return self.parser.parse(argument)
        except (TypeError, ValueError):
            raise ValueError(f"must be {self.word}") from None

    def flag_type(self) -> str:
        """The kind of the value, for a complaint."""
        return self.word


def usage(name: str | None = None) -> str:
    """What --help prints: of all commands, or of one."""
    if name is None:
        lines = ["usage: smc-jax COMMAND CAMPAIGN ... [--FLAG=VALUE ...]", ""]
        for title, command in COMMANDS.items():
            lines.append(f"  {title:<8} {' '.join(command.arguments):<19} {command.meaning}")
        return "\n".join([*lines, "", "smc-jax COMMAND --help lists the flags of a command."])
    command = COMMANDS[name]
    lines = [f"usage: smc-jax {name} {' '.join(command.arguments)} [--FLAG=VALUE ...]", ""]
    lines += [f"It {command.meaning}.", ""]
    for flag in command.flags:
        spelt = flag.name.replace("_", "-")
        spelt = f"[no]{spelt}" if flag.kind is bool else f"{spelt}=..."
        default = "" if flag.default in (None, False) else f" (default: {flag.default})"
        lines.append(f"  --{spelt:<18} {flag.meaning}{default}")
    return "\n".join(lines)


def parse(arguments: Sequence[str]) -> tuple[str, flags.FlagValues, list[str]]:
    """The command, its flags, and its other arguments."""
    if not arguments or arguments[0] in HELP:
        print(usage())
        raise SystemExit(0)
    name, *rest = arguments
    if name not in COMMANDS:
        raise CampaignError(f"{name}: no such command; choose from {', '.join(COMMANDS)}")
    if any(one in HELP[:-1] for one in rest):  # a file, or a token, may be called help
        print(usage(name))
        raise SystemExit(0)
    command, values = COMMANDS[name], flags.FlagValues()
    for flag in command.flags:
        told = (flag.name, flag.default, flag.meaning)
        if flag.kind in PARSERS:
            flags.DEFINE(Number(flag.kind, flag.or_none), *told, flag_values=values)
        else:
            DEFINE[flag.kind](*told, flag_values=values)
    try:
        others = values([name, *map(_underscored, rest)])[1:]
    except flags.Error as error:
        raise CampaignError(f"{name}: {error}; smc-jax {name} --help lists the flags") from None
    wanted = command.arguments
    too_many = len(others) > len(wanted) and not wanted[-1].endswith("...")
    if len(others) < len(wanted) or too_many:
        got = " ".join(others) or "nothing"
        raise CampaignError(f"{name}: give {' '.join(wanted)}, got {got}{_meant(name, others)}")
    return name, values, others


def _meant(name: str, others: Sequence[str]) -> str:
    """What a wrong number of arguments was probably meant to be, for the end of a complaint."""
    if "PAIRS" in COMMANDS[name].arguments:
        return "; PAIRS is one CSV file of rows and columns, a line for each pair"
    if len(others) == 2 and name == "new":
        return f"; a table is given as --table={others[1]}"
    if len(others) == 2 and name == "ask" and others[1].isdecimal():
        return f"; how many entries is given as --number={others[1]}"
    return ""


def _underscored(argument: str) -> str:
    """Both spellings of a flag are taken: --only-columns and --only_columns."""
    if not argument.startswith("--"):
        return argument
    name, equals, value = argument.partition("=")
    return f"--{name[2:].replace('-', '_')}{equals}{value}"


def fail(message: str) -> NoReturn:
    """Ends with one line on standard error."""
    print(f"error: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(2)


def main() -> None:
    """Runs one command."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # ids that a terminal cannot show are spelt out
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        name, values, arguments = parse(sys.argv[1:])
        with keep_compiled_programs():
            COMMANDS[name].run(values, arguments)
        sys.stdout.flush()
    except (CampaignError, FloatingPointError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        print("\ninterrupted; everything that was told before is kept", file=sys.stderr)
        raise SystemExit(130) from None
    except BrokenPipeError:  # of `smc-jax ... | head`
        sys.stderr.close()
        raise SystemExit(0) from None


if __name__ == "__main__":
    main()
