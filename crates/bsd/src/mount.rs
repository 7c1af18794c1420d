//! Linux's mount(2).

use crate::{Error, NixPath, c_int, c_ulong};

bitflags::bitflags! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct MsFlags: c_ulong {
        const MS_BIND = 1;
        const MS_REC = 2;
        const MS_SLAVE = 4;
    }
}

bitflags::bitflags! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct MntFlags: c_int {
        const MNT_DETACH = 1;
    }
}

/// # Errors
/// Always.
pub fn mount<A: ?Sized + NixPath, B: ?Sized + NixPath, C: ?Sized + NixPath, D: ?Sized + NixPath>(
    _: Option<&A>,
    _: &B,
    _: Option<&C>,
    _: MsFlags,
    _: Option<&D>,
) -> Result<(), Error> {
    Err(Error::ENOSYS)
}

/// # Errors
/// Always.
pub fn umount2<P: ?Sized + NixPath>(_: &P, _: MntFlags) -> Result<(), Error> {
    Err(Error::ENOSYS)
}
