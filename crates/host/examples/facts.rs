//! Prints this host's fingerprint and limits: `cargo run -p netcliff-host --example facts`.
#![allow(clippy::print_stdout, reason = "an example that prints")]

use netcliff_host::{fingerprint, inventory::Inventory, nic};
use std::path::Path;

fn main() -> std::io::Result<()> {
    let host = Inventory::of_this_host();
    let nics = nic::read_all(Path::new("/sys"))?;
    for (key, value) in fingerprint::of_host(&host, &nics).facts {
        println!("{key} = {value}");
    }
    for nic in &nics {
        for (topic, reason) in &nic.missing {
            println!("missing: {} {topic}: {reason}", nic.name);
        }
    }
    for limit in host.limits() {
        println!("limit: {limit}");
    }
    Ok(())
}
