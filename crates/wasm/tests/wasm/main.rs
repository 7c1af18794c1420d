//! Tests of the page's engine. One binary: each file is a module.

mod damaged;
mod page;
mod rows;
