#![cfg(target_os = "linux")]
//! The cliff of a user's own service: `netcliff find --service`.
//!
//! | module | holds |
//! | --- | --- |
//! | [`request`] | the requests that a user names |
//! | [`protocol`] | how they are written and answers are read; a file a protocol |
//! | [`requester`] | the open-loop requester |
//! | [`process`] | the service: started, watched, ended |
//! | [`promise`] | whether a trial kept what is promised |
//! | [`mod@bench`] | trials, judged and kept, on a real service or a fake |
//! | [`search`] | order of magnitude, then MLRsearch |
//! | [`costs`] | what a request costs, and the cliff that follows |
//! | [`bottleneck`] | what gives out first |
//! | [`mod@find`] | the run |
//! | [`error`] | why there is no finding |

pub mod bench;
pub mod bottleneck;
pub mod costs;
pub mod error;
pub mod find;
pub mod process;
pub mod promise;
pub mod protocol;
pub mod request;
pub mod requester;
pub mod search;
