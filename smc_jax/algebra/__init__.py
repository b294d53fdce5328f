"""Small linear algebra and reductions that accelerators and caches like; no LAPACK."""
