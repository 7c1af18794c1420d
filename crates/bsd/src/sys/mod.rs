//! What `nix::sys` has on Linux only.

pub use ::nix::sys::{mman, resource, signal, stat, time, uio};

pub mod epoll;

pub mod memfd {
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
}

pub mod prctl {
    //! A process that ends with its parent.

    use crate::{Error, sys::signal::Signal};

    /// # Errors
    /// Always.
    pub fn set_pdeathsig<T: Into<Option<Signal>>>(_: T) -> Result<(), Error> {
        Err(Error::ENOSYS)
    }
}

pub mod reboot {
    //! The end of a guest.

    use crate::Error;
    use std::convert::Infallible;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum RebootMode {
        RB_AUTOBOOT,
    }

    /// # Errors
    /// Always.
    pub fn reboot(_: RebootMode) -> Result<Infallible, Error> {
        Err(Error::ENOSYS)
    }
}

pub mod sendfile {
    //! Linux's sendfile(2); FreeBSD's takes other arguments, and OpenBSD has none.

    use crate::{Error, off_t};
    use std::os::fd::AsFd;

    /// # Errors
    /// Always.
    pub fn sendfile<Out: AsFd, In: AsFd>(_: Out, _: In, _: Option<&mut off_t>, _: usize) -> Result<usize, Error> {
        Err(Error::ENOSYS)
    }
}

pub mod socket {
    //! Options of sockets that Linux alone has.

    pub use ::nix::sys::socket::*;

    pub mod sockopt {
        //! Each is refused.

        use super::SetSockOpt;
        use crate::Error;
        use std::{ffi::OsString, os::fd::AsFd};

        pub use ::nix::sys::socket::sockopt::*;

        macro_rules! refused {
            ($($name:ident: $value:ty),* $(,)?) => {$(
                #[derive(Debug, Clone, Copy, PartialEq, Eq)]
                pub struct $name;

                impl SetSockOpt for $name {
                    type Val = $value;

                    fn set<F: AsFd>(&self, _: &F, _: &Self::Val) -> Result<(), Error> {
                        Err(Error::ENOSYS)
                    }
                }
            )*};
        }

        refused!(
            BindToDevice: OsString, RcvBufForce: usize, SndBufForce: usize, ReceiveTimestampns: bool, TcpUserTimeout: u32,
        );
    }
}

pub mod statfs {
    //! Kinds of file systems by number.

    use crate::{Error, NixPath};
    use std::{convert::Infallible, os::fd::AsFd};

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct FsType(pub i64);

    pub const TMPFS_MAGIC: FsType = FsType(-1);
    pub const HUGETLBFS_MAGIC: FsType = FsType(-1);

    /// The type of a file system: never reported here.
    #[derive(Debug, Clone, Copy)]
    pub struct Statfs(Infallible);

    impl Statfs {
        pub fn filesystem_type(&self) -> FsType {
            match self.0 {}
        }
    }

    /// # Errors
    /// Always.
    pub fn statfs<P: NixPath + ?Sized>(_: &P) -> Result<Statfs, Error> {
        Err(Error::ENOSYS)
    }

    /// # Errors
    /// Always.
    pub fn fstatfs<F: AsFd>(_: F) -> Result<Statfs, Error> {
        Err(Error::ENOSYS)
    }
}
