//! Forwarding through a device by RFC 2544 and its successors.
//!
//! | module | holds |
//! | --- | --- |
//! | [`trial`] | one trial: what was sent, what was lost, whether the sender reached the load |
//! | [`search`] | throughput: RFC 2544's binary search and MLRsearch (RFC 9971), pure |
//! | [`procedures`] | frame loss, back-to-back (RFC 9004), latency (RFC 2544 26.2, RFC 8219), pure |
//! | [`simulated`] | devices whose throughput is known, to test searches on |

pub mod procedures;
pub mod search;
pub mod simulated;
pub mod trial;
