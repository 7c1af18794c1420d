//! netcliff-host
