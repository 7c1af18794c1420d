//! The model against dense chains, published figures and a referee. One binary: a module is a file.

mod against_dense_chains;
mod any_point;
mod application;
mod application_exact;
mod application_ticks;
mod before;
mod phases;
mod referee;
mod refereed;
mod stability;
mod theory;
mod ticks;
mod timers;
