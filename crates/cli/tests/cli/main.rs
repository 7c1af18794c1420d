//! The program as its users meet it: one binary, since linking one takes a twentieth of what linking one a file takes.

mod common;

mod advise;
mod attack_agent;
mod attack_files;
mod changed;
mod compare;
mod contracts;
mod disturbed;
mod drops;
mod far_host;
mod files;
mod find;
mod find_hosts;
mod find_vm;
mod forwarding;
mod inspect;
mod live;
mod other_runs;
mod results;
mod rfc2544;
mod rfc2544_ports;
mod rr;
mod run;
mod schema;
mod sources;
mod stream;
mod surface;
mod theory_pages;
mod transfer_faults;
mod transfers;
mod tune;
mod tutorial;
mod two_hosts;
mod usage;
mod watch;
