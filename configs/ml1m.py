"""MovieLens 1M whole: 3,706 films x 6,040 users, 22.4 million entries of which a million exist.

Commands:
  python -m launch.run --config=configs/ml1m.py --workdir=results/ml1m
  python -m launch.run --config=configs/ml1m.py:completed --workdir=results/ml1m_completed

The first chooses among the ratings that exist, as configs/replay.py does; the second among all
entries, those that are missing completed by OptSpace and taken as true. The model is fitted by SVI,
of which a step takes the likelihood of 1,024 users at random. With more devices,
`--config.shard=columns` shares out the users over them.

Time: with `--config.policies=ids` three quarters of an hour of the processor each, which is half an
hour on two idle cores; the second completes the matrix before, which takes ten minutes, once.
"""

from ml_collections import config_dict

from configs import movielens, replay

DATA = {"replay": replay, "completed": movielens}


def get_config(entries: str = "replay") -> config_dict.ConfigDict:
    """The experiment on films without the choice of a block."""
    if entries not in DATA:
        raise ValueError(f"config: unknown entries {entries!r}; choose from {', '.join(DATA)}")
    config = DATA[entries].get_config()
    config.policies = "ids,greedy,random"
    config.seeds = 1
    config.rows = 3706
    config.columns = 6040
    config.inference.method, config.inference.columns = "svi", 1024
    return config
