"""Held-out values of published tables, beside the lines that peers left on the same splits.

python -m benchmarks.heldout --split=5 --rank=16 --seeds=3 \
    --out=results/benchmarks/heldout.jsonl --peers=peers.jsonl

The splits are the four of MovieLens 1M in `benchmarks/heldout_movielens.py`, and `coat` and `davis`
in `benchmarks/heldout_tables.py`; both say which files they need. The peers are run by
`benchmarks/heldout_peer.py`, in an environment of its own. The model is that of
`presets.ratings`, fitted once by its Gibbs chains to the training values, which are centred and
scaled. A prediction is the mean over the stored draws of b_d + w_d' m_n, m_n the mean of the
column's latents given the draw.

Peers average 400 and 500 samples: with 64 draws, the default of earlier versions, what is left of
chance in the mean costs 0.004 on the split 5. Where less than 5 % of a large table was seen, what
was seen is a list; a dense matrix of MovieLens would take 90 MB, and a fit several of them. Draws
are predicted one at a time, and only where a value is held out.

Of several settings of the model, --model="offsets=True | common=0.0 | ", those are taken that
predict a tenth of the training values best, or several tenths in turn, which are held out for that
as the split holds out its test part: ratings, or all ratings of some users or films; those of coats
are weighted, since people chose what to rate. The test part is then predicted with one
setting alone.

A line of JSON is appended to --out for every finished seed; seeds that are there already, with the
same settings, are skipped. Develop on seeds from 1000 up: --first=1000.
"""

import ast
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from absl import app, flags
from jax import Array, lax
from tqdm import tqdm

from benchmarks import heldout_data, heldout_movielens, heldout_tables
from benchmarks.heldout_data import Split, Task, Values
from launch import commits
from smc_jax import presets
from smc_jax.beliefs.base import Belief
from smc_jax.looks import Looks, Seen
from smc_jax.model import gaussian
from smc_jax.model.features import Features, coordinates
from smc_jax.model.parameters import Parameters
from smc_jax.observations import Observations

TASKS = heldout_movielens.TASKS | heldout_tables.TASKS

DATA = flags.DEFINE_string("data", None, "The folder of the data; its own in SMC_DATA_DIR if none.")
SPLIT = flags.DEFINE_enum("split", "5", [*TASKS], "Which values are held out.")
RANK = flags.DEFINE_integer("rank", 16, "The bound on the rank.")
SEEDS = flags.DEFINE_integer("seeds", 3, "How many seeds.")
FIRST = flags.DEFINE_integer("first", 0, "The first seed.")
DRAWS = flags.DEFINE_integer("draws", 400, "Draws that are stored.")
SWEEPS = flags.DEFINE_integer("sweeps", 2, "Gibbs sweeps before each draw.")
FIRST_SWEEPS = flags.DEFINE_integer("first_sweeps", 200, "Gibbs sweeps before the first draw.")
FEATURES = flags.DEFINE_bool("features", False, "Whether rows and columns have their features.")
MODEL = flags.DEFINE_string(
    "model",
    "",
    'Settings of the model: "noise_spread=0.5 common=1.0"; several have | between them.',
)
PARTS = flags.DEFINE_integer("parts", 1, "Tenths that settings are chosen by, in turn.", 1, 10)
OUT = flags.DEFINE_string("out", "results/benchmarks/heldout.jsonl", "Where lines are appended.")
PEERS = flags.DEFINE_list("peers", [], "Files of lines that peers left, to be compared with.")
TOOL = "smc_jax"
LARGE, SPARSE = 10**6, 0.05  # entries, and the part seen below which they are lists
NOTHING = "nothing"
DEVELOPMENT = 1000  # the seed of the fits that settings are chosen by


class Data(NamedTuple):
    """The training values as the model sees them: (value - centre) / scale."""

    observations: Seen
    centre: float
    scale: float


def parse_settings(text: str) -> dict[str, Any]:
    """Settings from `name=value` between blanks; a value that is no literal is a string."""
    found: dict[str, Any] = {}
    for word in text.split():
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise ValueError(f"model: {word!r} is not a name=value")
        try:
            found[name] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[name] = value
    return found


def make_belief(
    rank: int, model: dict[str, Any], gibbs: dict[str, int], features: Features | None = None
) -> Belief:
    """The belief of the preset for ratings, on values that are centred and scaled already."""
    preset = presets.ratings(rank=rank)
    own = {**preset.model, **model}
    known = Features() if features is None else features
    return preset._replace(model=own, gibbs=gibbs, standardise=False, features=known).belief()


def make_features(folder: pathlib.Path, task: Task, split: Split) -> Features:
    """What is known of rows and of columns."""
    rows, columns = task.row_features(folder, split), task.column_features(folder, split)
    return Features(coordinates(rows.matrix, "rows"), coordinates(columns.matrix, "columns"))


def standardise(train: Values) -> Data:
    """The training values, centred and scaled by their mean and deviation.

    Where few entries of a large table were seen they are lists of looks, else a dense matrix.
    """
    centre, scale = float(train.values.mean()), float(train.values.std())
    found = (train.values - centre) / scale
    rows, columns = train.row_ids.size, train.column_ids.size
    if rows * columns > LARGE and found.size < SPARSE * rows * columns:
        return Data(
            Looks.of(train.row, train.column, found, rows=rows, columns=columns), centre, scale
        )
    values, mask = np.zeros((rows, columns), np.float32), np.zeros((rows, columns), bool)
    values[train.row, train.column], mask[train.row, train.column] = found, True
    return Data(Observations.from_matrix(values, mask), centre, scale)


def make_fit(belief: Belief) -> Callable[[Array, Seen], Parameters]:
    """The program from a key and what was seen to the stored draws, leading axis S."""
    store = belief.store
    if store is None:
        raise ValueError("belief: it stores no draws")

    @jax.jit
    def fit(key: Array, observations: Seen) -> Parameters:
        start_key, refit_key = jax.random.split(key)
        begun = belief.init(start_key, observations)
        return store(belief.refit(refit_key, begun, observations))

    return fit


@jax.jit
def predict(draws: Parameters, observations: Seen, row: Array, column: Array) -> Array:
    """The mean [T] over draws of b_d + w_d' m_n at T entries, one draw at a time.

    No array is larger than [D, N], [N, K, K] or [S, T].
    """

    def of_draw(draw: Parameters) -> Array:
        latents = gaussian.latent_posterior(draw, observations).mean
        return draw.intercepts[row] + (draw.factors()[row] * latents[column]).sum(1)

    return lax.map(of_draw, draws).mean(0)


def predict_values(
    seed: int, fit: Callable[[Array, Seen], Parameters], data: Data, test: Values
) -> np.ndarray:
    """Fits the model to the training values, and predicts the others in their units."""
    draws = fit(jax.random.key(seed), data.observations)
    found = predict(draws, data.observations, test.row, test.column)
    return data.centre + data.scale * np.asarray(found, float)


def table(runs: Sequence[Sequence[dict[str, Any]]]) -> str:
    """A line for every list of lines that differ in the seed alone.

    Args:
      runs: for each tool and its settings the lines of its seeds; empty lists are left out.
    """
    width = 24
    head = "     split  rank  samples  seeds    RMSE    s.e.     MSE  seconds  processor    MiB"
    text = [f"{'':<{width}}{head}"]
    for lines in filter(None, runs):
        one, errors = lines[0], np.array([line["rmse"] for line in lines])
        spread = errors.std(ddof=1) / len(errors) ** 0.5 if len(errors) > 1 else np.nan
        seconds, busy = (np.mean([x[name] for x in lines]) for name in ("seconds", "cpu_seconds"))
        text.append(
            f"{one['tool'] + (', features' if one['features'] else ''):<{width}}"
            f"{one['split']:>10}{one['rank']:>6}{one['samples']:>9}{len(lines):>7}"
            f"{errors.mean():>8.4f}{spread:>8.4f}{(errors**2).mean():>8.4f}"
            f"{seconds:>9.0f}{busy:>11.0f}"
            f"{max(line['peak_MiB'] for line in lines):>7}"
        )
    return "\n".join(text)


def grouped(lines: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Lists of the lines that differ in the seed alone, in the order of their first lines."""
    left, groups = list(lines), []
    while left:
        groups.append(heldout_data.same_runs(left, left[0]))
        left = [line for line in left if line not in groups[-1]]
    return groups


class Study(NamedTuple):
    """One table, and the fits of it that are asked for."""

    task: Task
    folder: pathlib.Path
    split: Split
    name: str  # of the split, in the lines
    out: pathlib.Path
    weights: np.ndarray | None = None  # of the values that are held out

    def inner(self, part: int) -> "Study":
        """The same for most of the training values, the others held out in place of the test."""
        split = heldout_data.inner(self.task, self.split.train, part)
        weights = self.task.weights(self.folder, split.test)
        return self._replace(split=split, name=f"{self.name} inner {part}", weights=weights)

    def runs(self, model: dict[str, Any], seeds: Sequence[int]) -> list[dict[str, Any]]:
        """The lines of some seeds with these settings of the model; what is missing is run."""
        gibbs = {"draws": DRAWS.value, "sweeps": SWEEPS.value, "first_sweeps": FIRST_SWEEPS.value}
        run = {
            "tool": TOOL,
            "split": self.name,
            "features": FEATURES.value,
            "rank": RANK.value,
            "samples": gibbs["draws"],
            "settings": {"model": model, "gibbs": gibbs},
        }
        made = heldout_data.versions(["smc_jax", "jax", "jaxlib", "numpy"])
        made["commit"] = commits.current()
        missing = heldout_data.missing_seeds(self.out, run, seeds)
        if missing:
            known = make_features(self.folder, self.task, self.split) if FEATURES.value else None
            fit = make_fit(make_belief(RANK.value, model, gibbs, known))
            data, test = standardise(self.split.train), self.split.test
            for seed in tqdm(missing, unit="seed", desc=self.name):
                found = heldout_data.measured(
                    lambda seed=seed: predict_values(seed, fit, data, test),  # type: ignore[misc]
                    test.values,
                    self.task.bounds,
                    self.weights,
                )
                heldout_data.append(self.out, {**run, "seed": seed, **found, "versions": made})
        lines = heldout_data.same_runs(heldout_data.read_lines(self.out), run)
        return [line for line in lines if line["seed"] in seeds]


def best_settings(study: Study, models: Sequence[str]) -> str:
    """The settings that predict held-out parts of the training values best; says so."""
    if len(models) == 1:
        return models[0]
    errors = []
    for model in models:
        inner = [study.inner(part) for part in range(PARTS.value)]
        lines = [one.runs(parse_settings(model), [DEVELOPMENT])[0] for one in inner]
        errors.append(float(np.mean([line["rmse"] ** 2 for line in lines])) ** 0.5)
        print(f"inner RMSE {errors[-1]:.4f}  {model or NOTHING}", flush=True)
    return models[int(np.argmin(errors))]


def main(arguments: Sequence[str]) -> None:
    """Runs the seeds that are missing, and prints the table."""
    del arguments
    name, task = SPLIT.value, TASKS[SPLIT.value]
    folder = heldout_data.data_folder(DATA.value, task)
    study = Study(task, folder, task.read(folder), name, pathlib.Path(OUT.value))
    model = best_settings(study, [one.strip() for one in MODEL.value.split("|")])
    done = study.runs(parse_settings(model), range(FIRST.value, FIRST.value + SEEDS.value))
    biases = {"tool": "biases only", "features": False, "rank": 0, "samples": 1, "settings": {}}
    base = heldout_data.measured(
        lambda: heldout_data.biases_only(study.split), study.split.test.values, task.bounds
    )
    peers = [line for path in PEERS.value for line in heldout_data.read_lines(pathlib.Path(path))]
    beside = [line for line in peers if line["split"] == name]
    own = [{**biases, "split": name, **base, "peak_MiB": 0}]
    print(f"the model of presets.ratings, but for: {model or NOTHING}")
    print(table([own, done, *grouped(beside)]))


if __name__ == "__main__":
    app.run(main)
