//! Files without a name, in memory.

#[cfg(target_os = "freebsd")]
pub use ::nix::sys::memfd::*;
#[cfg(not(target_os = "freebsd"))]
pub use none::*;

#[cfg(not(target_os = "freebsd"))]
mod none {
    use crate::{Error, NixPath, c_uint};
    use std::os::fd::OwnedFd;

    bitflags::bitflags! {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct MFdFlags: c_uint {
            const MFD_CLOEXEC = 1;
        }
    }

    /// # Errors
    /// Always.
    pub fn memfd_create<P: NixPath + ?Sized>(_: &P, _: MFdFlags) -> Result<OwnedFd, Error> {
        Err(Error::ENOSYS)
    }
}
