//! netcliff-report
