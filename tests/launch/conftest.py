"""What the tests of the launcher share."""

import functools

import pytest

from launch import data, experiment

REPORTED = ("policies", "reference")  # what these fields say reaches no program


@pytest.fixture(autouse=True, scope="module")
def shared_programs():
    """The same experiments of a file share what they compile, as if they were one run.

    A config that was resolved has checksums of all files that it names. What a test has put in the
    place of functions of the launcher makes another experiment.
    """
    made, sweeps = {}, experiment.sweeps

    @functools.wraps(sweeps)
    def shared(config):
        settings = config.copy_and_resolve_references()
        with settings.unlocked():
            for field in REPORTED:
                settings[field] = ""
        functions = [value for module in (data, experiment) for value in vars(module).values()]
        key = (settings.to_json_best_effort(), *(x for x in functions if callable(x)))
        if key not in made:
            made[key] = functools.cache(sweeps(config))
        return made[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "sweeps", shared)
        yield


@pytest.fixture
def own_programs():
    """The experiments of a test compile what they run, as in a process of their own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(experiment, "sweeps", experiment.sweeps.__wrapped__)
        yield
