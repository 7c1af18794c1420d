//! netcliff-model
