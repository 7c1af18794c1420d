//! Real packets between namespaces and on loopback. All tests are one binary: each file is a module.

mod ceilings;
mod common;
mod forward;
mod loopback;
mod offered;
mod priority;
mod veth;
