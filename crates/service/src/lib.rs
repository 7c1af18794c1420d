#![cfg(target_os = "linux")]
//! The cliff of a user's own service: `netcliff find --service`.
//!
//! | module | holds |
//! | --- | --- |
//! | [`request`] | the requests that a user specifies |
//! | [`protocol`] | writes requests and reads answers, one file per protocol |
//! | [`requester`] | the open-loop requester |
//! | [`process`] | starts, observes and ends the service |
//! | [`meter`] | what the service's host does during a trial |
//! | [`far`] | metering of a service on another host, by an agent there |
//! | [`promise`] | whether a trial kept the promise: the user's limits of loss and response times |
//! | [`mod@bench`] | makes, judges and stores trials, with a real service or a fake |
//! | [`search`] | order of magnitude, then MLRsearch |
//! | [`costs`] | costs of a request, and the cliff computed from them |
//! | [`pauses`] | times without answers, and the cliff with these pauses |
//! | [`bottleneck`] | what overloads first |
//! | [`check`] | other set-ups, to predict and to measure |
//! | [`mod@find`] | the run |
//! | [`error`] | why a run has no result |

pub mod bench;
pub mod bottleneck;
pub mod check;
pub mod costs;
pub mod error;
pub mod far;
pub mod find;
pub mod latency;
pub mod meter;
pub mod pauses;
pub mod process;
pub mod promise;
pub mod protocol;
pub mod request;
pub mod requester;
pub mod search;
