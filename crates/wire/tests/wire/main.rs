//! Real packets between namespaces and on the loopback. One binary: a module is a file.

mod ceilings;
mod common;
mod forward;
mod loopback;
mod offered;
mod priority;
mod veth;
