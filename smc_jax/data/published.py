"""Published matrices from outside recommender systems: files that the user puts into a folder.

Nothing is downloaded. Each file is a matrix with ids on both sides, made from what its authors
published, and is used only with the right checksum.
"""

import os
from pathlib import Path
from typing import NamedTuple

import pooch

from smc_jax.data.download import data_folder
from smc_jax.data.ratings import DataError, Ratings
from smc_jax.data.wide import read_wide


class Published(NamedTuple):
    """A matrix, and where it comes from."""

    path: str  # under the data folder
    checksum: str  # SHA-256
    publisher: str
    turned: bool = False  # whether the lines of the file are columns of the matrix
    one_minus: bool = False  # whether the file holds an error, of which the value is 1 - error


PUBLISHED = {
    "davis": Published(
        "davis/davis_matrix_pKd.csv",
        "72921f56851d5fcada09d856b5bad39eaa85c16c2a7ec5dcb442cf1ea240fba5",
        "Davis et al., Nature Biotechnology 29:1046 (2011)"
        "; see data/davis of hkmztrk/DeepDTA on GitHub",
        turned=True,
    ),
    "pkis1": Published(
        "pkis1/pkis1_matrix_pct_inhibition_1uM_clipped.csv",
        "7972ecdb9fc08ac96049c1d06e3d10c2c0b11b10ccb0bf208083a404fa47fe21",
        "Drewry et al., PLoS ONE e0181585 (2017)"
        "; see data/pkis1_continuous_labels.csv of SpencerEricksen/informers on GitHub",
        turned=True,
    ),
    "arylation": Published(
        "direct_arylation/matrix_ligand-base_x_solvent-conc-temp.csv",
        "064725fdb1fdf1604c1315dd4d255dad5fa9be9e415edaedf3f13537e672d840",
        "Shields et al., Nature 590:89 (2021)"
        "; see experiments/data/direct_arylation of b-shields/edbo on GitHub",
    ),
    "buchwald": Published(
        "buchwald_hartwig/matrix_45x88_halide-base_x_additive-ligand.csv",
        "b9c987ef2e178964974ca34216d7fd41f9e1dd3fc3514ab6708b15a930535238",
        "Ahneman, Estrada, Lin, Dreher and Doyle, Science 360:186 (2018)"
        "; see data/Buchwald-Hartwig of rxn4chemistry/rxn_yields on GitHub",
    ),
    "oboe": Published(
        "oboe/oboe_matrix_balanced_error.csv",
        "45ea7ccb5cf74e09d06a871baf1687c70c1a6dcdc6f153fb032f45174fe535ee",
        "Yang, Akimoto, Kim and Udell, KDD (2019)"
        "; see oboe/defaults/Oboe of oboe 0.2.0 on PyPI, and udellgroup/oboe on GitHub",
        turned=True,
        one_minus=True,
    ),
}


def read_published(name: str, folder: str | os.PathLike[str] | None = None) -> Ratings:
    """A published matrix, rows and columns in the order of its file.

    Args:
      name: a name of `PUBLISHED`.
      folder: where the files are; None is `data_folder()`.
    """
    if name not in PUBLISHED:
        raise ValueError(f"name: unknown {name!r}; choose from {', '.join(PUBLISHED)}")
    source = PUBLISHED[name]
    path = Path(folder or data_folder()) / source.path
    try:
        found = pooch.file_hash(str(path), "sha256")
        trouble = "" if found == source.checksum else "the file has another checksum"
    except OSError as error:
        trouble = error.strerror or type(error).__name__
    if trouble:
        raise DataError(
            f"{path}: {trouble}; put {source.path}, with the SHA-256 {source.checksum}, into the"
            f" folder that SMC_DATA_DIR names; its values were published by {source.publisher}"
        )
    ratings = read_wide(path, turned=source.turned)
    return ratings._replace(value=1 - ratings.value) if source.one_minus else ratings
