//! The inspection and the tuning on captured hosts, on this one, and on links that the tests make.

mod affinity;
mod apply;
mod capture;
mod common;
mod drivers;
mod live;
mod paths;
mod permanent;
mod plan;
mod queues;
mod rules;
