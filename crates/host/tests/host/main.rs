//! This machine: namespaces, meters, the journal under kill -9, what `inspect` says of captured hosts. One binary: a module is a file.

mod cpu_meters;
mod full_disk;
mod inspect;
mod kill9;
mod netns;
