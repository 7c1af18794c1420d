//! netcliff-wire
