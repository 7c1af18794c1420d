//! What `nix::sys` has on Linux only.

pub use ::nix::sys::{mman, resource, signal, stat, time, uio};

pub mod epoll;
pub mod memfd;
pub mod prctl;
pub mod reboot;
pub mod sendfile;
pub mod socket;
pub mod statfs;
