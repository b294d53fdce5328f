"""Programs of other packages, each in an environment of its own under `.cache/benchmarks`."""

import os
import subprocess
import tempfile
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.timing import Told

FOLDER = Path(__file__).resolve().parent.parent / ".cache" / "benchmarks"
LIMIT = 600.0  # seconds that an installation may take

# Around the peer's own lines, which make `once` from `inputs`: waits for its turn, runs, answers.
BEFORE = """
import sys, time
import numpy as np
answers, sys.stdout = sys.stdout, sys.stderr
inputs = dict(np.load(sys.argv[1]))
"""
AFTER = """
for _ in sys.stdin:
    began, busy = time.perf_counter(), time.process_time()
    found = once()
    told = time.perf_counter() - began, time.process_time() - busy
    np.savez(sys.argv[2], **found)
    print(*told, file=answers, flush=True)
"""


class Peer(NamedTuple):
    """A package to compare with."""

    name: str
    check: str  # the import that tells whether it is there
    packages: tuple[str, ...] = ()  # installed with all they need
    alone: tuple[str, ...] = ()  # installed without what they say they need


class PeerError(Exception):
    """A peer cannot be installed or does not run; the message is one line."""


def python(peer: Peer) -> str:
    """The interpreter that has the peer, which is installed if it is not there."""
    home = FOLDER / peer.name
    interpreter = str(home / ("Scripts" if os.name == "nt" else "bin") / "python")
    check = [interpreter, "-W", "ignore", "-c", peer.check]
    if Path(interpreter).exists() and subprocess.run(check, capture_output=True).returncode == 0:
        return interpreter
    install = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    commands = [[*install, *peer.packages]] if peer.packages else []
    commands += [[*install, "--no-deps", *peer.alone]] if peer.alone else []
    commands += [check]
    try:
        venv.create(home, with_pip=True, clear=True)
        for command in commands:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.CalledProcessError as error:
        told = (error.stderr or "").strip().splitlines()
        reason = told[-1] if told else "no reason given"
        raise PeerError(f"{peer.name} could not be installed: {reason}") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerError(f"{peer.name} could not be installed: {error}") from error
    return interpreter


class Running:
    """A peer's program that waits, loaded, for its turn; each call runs it once.

    Its seconds are its own, without the way to its process and back. `found` is what the last
    run returned. To be used in a `with`, which ends the process.
    """

    def __init__(
        self, peer: Peer, program: str, inputs: Mapping[str, Any], *, threads: int = 1
    ) -> None:
        """Starts the program.

        Args:
          peer: whose interpreter runs it.
          program: lines that make a function `once` from the dictionary `inputs`; it returns a
            dictionary of arrays.
          inputs: arrays.
          threads: of OpenBLAS.
        """
        interpreter = python(peer)
        self.peer = peer
        self.found: dict[str, np.ndarray] = {}
        self._folder = tempfile.TemporaryDirectory()
        given, self._answer, self._errors = (
            Path(self._folder.name) / name for name in ("inputs.npz", "found.npz", "errors.txt")
        )
        np.savez(given, **inputs)
        command = [interpreter, "-W", "ignore", "-c", BEFORE + program + AFTER]
        with self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [*command, str(given), str(self._answer)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | {"OPENBLAS_NUM_THREADS": str(threads)},
            )

    def __call__(self) -> Told:
        """Runs it once, and returns the seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            seconds, processor = map(float, self._process.stdout.readline().split())
        except (OSError, ValueError) as error:  # it has ended
            told = self._errors.read_text().strip().splitlines()
            reason = told[-1] if told else "no reason given"
            raise PeerError(f"{self.peer.name} does not run: {reason}") from error
        with np.load(self._answer) as found:
            self.found = dict(found)
        return Told(seconds, processor)

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
        self._folder.cleanup()
