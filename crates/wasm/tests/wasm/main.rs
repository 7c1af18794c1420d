//! The page's engine. One binary: a module is a file.

mod damaged;
mod page;
mod rows;
