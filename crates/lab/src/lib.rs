//! netcliff-lab
