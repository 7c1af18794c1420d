//! The calls that Linux, FreeBSD and OpenBSD do not share: `system/linux.rs` makes them, `system/bsd.rs` makes those that BSD has by
//! another name and answers the others with an error that names what is missing ([`unsupported`]). All other code of netcliff is of all three
//! systems, or left out as a module outside Linux.

use std::io;

use libc::c_int;

#[cfg_attr(not(target_os = "linux"), path = "system/bsd.rs")]
#[cfg_attr(target_os = "linux", path = "system/linux.rs")]
mod calls;

pub use calls::*;

/// A socket option: level and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOption(Option<(c_int, c_int)>);

impl SocketOption {
    /// An option of Linux. No number of it means the same on BSD, where it is not used.
    pub const fn of_linux(level: c_int, name: c_int) -> Self {
        Self(if cfg!(target_os = "linux") { Some((level, name)) } else { None })
    }

    /// True for the option of this level and name.
    #[inline]
    pub fn is(self, level: c_int, name: c_int) -> bool {
        self.0 == Some((level, name))
    }

    /// Level and name.
    ///
    /// # Errors
    /// This system lacks the option.
    pub fn level_and_name(self) -> io::Result<(c_int, c_int)> {
        self.0.ok_or_else(|| unsupported("this socket option"))
    }
}

impl From<(c_int, c_int)> for SocketOption {
    fn from(level_and_name: (c_int, c_int)) -> Self {
        Self(Some(level_and_name))
    }
}

/// The error of a call that only Linux has.
pub fn unsupported(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, format!("{what} needs Linux"))
}
