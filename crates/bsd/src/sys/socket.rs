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
