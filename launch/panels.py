"""The experiments of a figure, one a panel, to one picture and one table."""

from pathlib import Path

from ml_collections import ConfigDict

from launch import files, plans, plot, tables, validation
from launch.settings import ConfigError

HORIZON_READINGS = ("bound", "true_rank")
FIGURE = ("horizon_reading", "panel_field", "panel_values")  # fields of a figure alone


def panels(config: ConfigDict) -> dict[str, ConfigDict]:
    """The experiments of a figure, by title: one for each value of its panel field."""
    for name in FIGURE:
        if name not in config:
            raise ConfigError(f"config.{name}: missing; a figure's config is configs/figure1.py")
    field, values, reading = config.panel_field, config.panel_values, config.horizon_reading
    if field not in config or field in FIGURE:
        raise ConfigError(f"config.panel_field: no such field of an experiment as {field!r}")
    if not isinstance(values, list | tuple) or not values or len(set(values)) < len(values):
        raise ConfigError(f"config.panel_values: must be different values of {field}, got {values}")
    if reading not in HORIZON_READINGS:
        known = ", ".join(HORIZON_READINGS)
        raise ConfigError(f"config.horizon_reading: must be one of {known}, got {reading!r}")
    if reading == "true_rank" and not (config.horizon is config.horizon_rank is None):
        raise ConfigError("config.horizon_reading: true_rank leaves horizon and horizon_rank unset")
    made = {}
    for value in values:
        panel = ConfigDict({name: config[name] for name in config if name not in FIGURE})
        with panel.ignore_type():  # `validate` judges it
            panel[field] = value
        if reading == "true_rank":
            if "true_rank" not in panel:
                raise ConfigError("config.horizon_reading: these data have no true rank")
            panel.horizon_rank = panel.true_rank
        title = value if field == "data" else f"{field.replace('_', ' ')} {value}"
        made[str(title)] = panel
    return made


def resolve(config: ConfigDict) -> dict[str, ConfigDict]:
    """The panels, each resolved so that it can be run; ConfigError at the first that cannot."""
    made, field = {}, config.get("panel_field")
    for title, panel in panels(config).items():
        try:
            made[title] = validation.resolve(panel)
        except ConfigError as error:
            named, _, reason = str(error).partition(": ")
            if named != f"config.{field}":
                raise
            told = f"config.panel_values: with {field} = {panel[field]}: {reason}"
            raise ConfigError(told) from error
    return made


def plan_of(made: dict[str, ConfigDict], workdir: Path) -> plans.Plan:
    """Resolved experiments by title, each to a folder of its own, and to one picture and table."""
    folders = {title: workdir / title.replace(" ", "_") for title in made}

    def report(summaries: plans.Summaries) -> None:
        stamp = plans.stamp(summaries)
        curves = {title: files.load_curves(folders[title]) for title in summaries}
        plot.panels_plot(workdir / "figure.png", curves, stamp=stamp)
        texts = {
            "table.csv": tables.rows(summaries),
            "table.md": tables.markdown(summaries, stamp),
        }
        for name, text in texts.items():
            files.write_text(workdir / name, text)

    return plans.Plan(made, folders, report)


def make(config: ConfigDict, workdir: Path) -> plans.Summaries:
    """Runs what is not finished of each panel; returns their summaries by title."""
    return plans.run([plan_of(resolve(config), workdir)])[0]
