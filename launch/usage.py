"""The text that --help prints: the command, its flags, and every field of a config."""

import sys
import textwrap
from typing import Any, NamedTuple

from absl import flags
from ml_collections import ConfigDict

from configs import base, figure1, synthetic, table
from launch.config import EXPERIMENT, GROUPS, documented
from smc_jax.data.synthetic import synthetic as synthetic_data

WIDTH = 100


class Field(NamedTuple):
    """A field of a config."""

    name: str
    default: Any
    meaning: str


def describe_fields(config: ConfigDict | None = None) -> list[Field]:
    """Every field of a config, by default of configs/synthetic.py, with its value and meaning.

    The meaning of a setting is what the docstring of its factory says, that of a field of the
    launcher's own what the docstring of the config that has it says.
    """
    config = synthetic.get_config() if config is None else config
    own: dict[str, str] = documented(synthetic_data.__doc__ or "")
    for module in (base, figure1) if config.get("data") != "table" else (base, figure1, table):
        own |= documented(module.get_config.__doc__ or "", "Fields")
    found = []
    for name, value in config.items():
        if not isinstance(value, ConfigDict):
            found.append(Field(name, value, own.get(name) or EXPERIMENT.meaning(name)))
    for group, fields in config.items():
        if isinstance(fields, ConfigDict):
            for name, value in fields.items():
                full = f"{group}.{name}"
                meaning = own.get(full, "")
                if not meaning and group in GROUPS:
                    meaning = GROUPS[group].meaning(name)
                found.append(Field(full, value, meaning))
    return found


def usage(config: ConfigDict | None = None) -> str:
    """What the command does, and the flags it takes."""
    main = sys.modules["__main__"]
    return f"{(main.__doc__ or '').strip()}\n\n{flags.FLAGS.main_module_help().strip()}"


def usage_with_fields(config: ConfigDict | None = None) -> str:
    """The usage, and the fields of a config, each with its value."""
    lines = [usage(), "", "Fields of the config, --config.FIELD=VALUE, with their values:"]
    for field in describe_fields(config):
        value = "none" if field.default is None else field.default
        lines.append(f"  {field.name} ({value})")
        lines += textwrap.wrap(
            field.meaning, WIDTH, initial_indent="      ", subsequent_indent="      "
        )
    return "\n".join(lines)
