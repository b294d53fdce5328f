"""Downloads of the public rating data: kept in a folder, and used only with the right checksum."""

import logging
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pooch

from smc_jax.data.ratings import DataError


class Archive(NamedTuple):
    """A file to download."""

    name: str
    checksum: str  # algorithm:digits
    urls: tuple[str, ...]  # mirrors, in the order in which they are tried
    copies: tuple[tuple[str, str], ...] = ()  # files that do as well, each with its checksum


def _movielens(name: str, checksum: str, *copies: tuple[str, str]) -> Archive:
    url = f"https://files.grouplens.org/datasets/movielens/{name}"
    return Archive(name, checksum, (url,), copies)


_JESTER = "https://eigentaste.berkeley.edu/dataset/archive/jester_dataset_1_1.zip"

ARCHIVES = {
    "jester": Archive(
        "jester_dataset_1_1.zip",
        "sha256:cb7841756ded125b15f3d95c9f8241224065e96354c132a46ae4214deeab7615",
        # `id_` asks the Wayback Machine for the bytes as they were.
        (_JESTER, f"https://web.archive.org/web/20250409222630id_/{_JESTER}"),
        (
            (
                "jester/jester-data-1.csv.gz",
                "sha256:112c3693e9f9ace7e824b309c0b9512832f5583aa0ec70da6e04ce7932ecfe7b",
            ),
            (
                "jester/jester-data-1.csv",
                "sha256:4692895acc91263ec11592cb94687725e28afdd451845ab46c2ac6ba3ebc414e",
            ),
        ),
    ),
    "ml-100k": _movielens(
        "ml-100k.zip", "sha256:50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229"
    ),
    "ml-1m": _movielens(
        "ml-1m.zip",
        "sha256:a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
        (
            "ml-1m/ratings.notime.dat.gz",
            "sha256:7604c1571bd4f7dbd7e8fe24cda38aa750caf78b844379a91f617168898ef46a",
        ),
    ),
    "ml-10m": _movielens("ml-10m.zip", "md5:ce571fd55effeba0271552578f2648bd"),
    "ml-20m": _movielens("ml-20m.zip", "md5:cd245b17a1ae2cc31bb14903e1204af3"),
    "ml-25m": _movielens("ml-25m.zip", "md5:6b51fb2759a8657d3bfcbfc42b592ada"),
    # The publisher gives no checksum and reserves changes: this is the edition of 9/2018, as
    # TensorFlow Datasets records it.
    "ml-latest-small": _movielens(
        "ml-latest-small.zip",
        "sha256:696d65a3dfceac7c45750ad32df2c259311949efec81f0f144fdfb91ebc9e436",
    ),
}


def data_folder() -> Path:
    """The folder named by the environment variable SMC_DATA_DIR, else one in the user's cache."""
    named = os.environ.get("SMC_DATA_DIR")
    if not named:
        return Path(pooch.os_cache("smc_jax"))
    folder = Path(named).expanduser()
    if not folder.is_dir():
        raise DataError(f"SMC_DATA_DIR: no such folder as {named}; make it, or unset SMC_DATA_DIR")
    return folder


def fetch(
    name: str, *, folder: str | os.PathLike[str] | None = None, progress: bool = True
) -> Path:
    """The file of a public data set, downloaded unless it is there already.

    Args:
      name: a name of `ARCHIVES`.
      folder: where files are kept; None is `data_folder()`.
      progress: whether a download shows a progress bar.
    """
    if name not in ARCHIVES:
        raise ValueError(f"name: unknown {name!r}; choose from {', '.join(ARCHIVES)}")
    return download(ARCHIVES[name], Path(folder or data_folder()), progress=progress)


def download(
    archive: Archive,
    folder: Path,
    *,
    progress: bool = True,
    attempts: int = 3,
    wait: float = 2.0,
    timeout: float = 30.0,
) -> Path:
    """The archive in `folder`, or one of its copies; downloaded where neither is there.

    Nothing is left behind by a download that breaks off or has another checksum.

    Args:
      archive: what to get.
      folder: where it is kept.
      progress: whether to show a progress bar.
      attempts: how often each mirror is tried.
      wait: seconds before the second round over the mirrors, doubled before each further one.
      timeout: seconds without an answer after which a mirror is given up.
    """
    for name, checksum in ((archive.name, archive.checksum), *archive.copies):
        if _matches(folder / name, checksum):
            return folder / name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise DataError(
            f"{folder}: cannot keep {archive.name} there ({error.strerror}); "
            "name another folder by the environment variable SMC_DATA_DIR"
        ) from None
    downloader = pooch.HTTPDownloader(progressbar=progress, chunk_size=1 << 16, timeout=timeout)
    failures = {}
    for attempt in range(attempts):
        if attempt:
            time.sleep(wait * 2 ** (attempt - 1))
        for url in archive.urls:
            try:
                with _quiet():
                    found = pooch.retrieve(
                        url, archive.checksum, archive.name, folder, downloader=downloader
                    )
                return Path(found)
            except OSError as error:  # the network's errors are OSErrors too
                status = getattr(getattr(error, "response", None), "status_code", "")
                failures[url] = error.strerror or f"{type(error).__name__} {status}".strip()
            except ValueError:
                failures[url] = "wrong checksum"
    reasons = "; ".join(f"{url}: {reason}" for url, reason in failures.items())
    hint = "" if os.environ.get("SMC_DATA_DIR") else ", or name its folder by SMC_DATA_DIR"
    present = " (the file there has another checksum)" if (folder / archive.name).exists() else ""
    raise DataError(
        f"could not download {archive.name} ({reasons}): "
        f"get it elsewhere and put it at {folder / archive.name}{present}{hint}"
    )


def _matches(path: Path, checksum: str) -> bool:
    algorithm, _, digits = checksum.partition(":")
    return path.is_file() and pooch.file_hash(str(path), algorithm) == digits


@contextmanager
def _quiet() -> Iterator[None]:
    """The progress bar says enough: no log lines on standard error beside it."""
    logger = pooch.get_logger()
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)
