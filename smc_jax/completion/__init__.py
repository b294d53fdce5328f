"""Matrix completion by OptSpace and by the nuclear norm, and the stopping rule built on it."""
