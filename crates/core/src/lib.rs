//! netcliff-core
