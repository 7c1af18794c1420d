//! netcliff-sim
