"""The oracle: knows the true covariance, and only has to find the best entries."""

from smc_jax import beliefs
from smc_jax.policies.base import Policy, Setting
from smc_jax.policies.ids import information_directed
from smc_jax.policies.thompson import sampling


def oracle(setting: Setting, *, picks: str = "thompson", draws: int = 16) -> Policy:
    """Picks by Thompson draws (the paper) or by IDS, with the true parameters in place of q.

    `draws` is the number of matrix samples that IDS keeps.
    """
    if picks == "thompson":
        return sampling(beliefs.known(), entry_noise=setting.entry_noise)
    if picks == "ids":
        return information_directed(beliefs.known(), draws=draws)
    raise ValueError(f"oracle.picks: unknown {picks!r}; choose from thompson, ids")
