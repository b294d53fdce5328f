"""Where looks lie on the device, and where they lie once columns are rows."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from smc_jax.dealing import Dealt, Sizes


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Layout:
    """Where looks lie; see `dealing.Dealt`."""

    row: Array  # [G, T, L] int
    owner: Array  # [G, T] int
    members: Array  # [G, B] int
    position: Array  # [N] int

    @classmethod
    def of(cls, dealt: Dealt) -> "Layout":
        """On the device."""
        fields = (dealt.row, dealt.owner, dealt.members, dealt.position)
        return cls(*(jnp.asarray(x) for x in fields))

    @property
    def sizes(self) -> Sizes:
        """G, T and L."""
        return Sizes(*self.row.shape[-3:])


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Turn:
    """Where the looks lie once columns are rows."""

    layout: Layout
    source: Array  # [G', T', L'] int: where each look was before; beyond all where a slot is empty

    @classmethod
    def of(cls, dealt: Dealt, slot: np.ndarray, slots: int) -> "Turn":
        """From where each look [n] is dealt to, and where it was, of that many slots."""
        source = np.full(dealt.row.size, slots, np.int32)
        source[dealt.slot] = slot
        return cls(Layout.of(dealt), jnp.asarray(source.reshape(dealt.row.shape)))
