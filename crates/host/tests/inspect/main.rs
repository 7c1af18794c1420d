//! The inspection on captured hosts and on this one.

mod capture;
mod common;
mod rules;
