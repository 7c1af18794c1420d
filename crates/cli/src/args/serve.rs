//! `netcliff serve`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Where the page is served.
#[derive(Debug, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff serve --open
  netcliff serve --listen 127.0.0.1:8080
  netcliff agent --make-key netcliff.key  # once
  netcliff serve --listen 0.0.0.0:9941 --key netcliff.key

The page runs the model and the simulator in the browser; the server gives it the runs of the
store, which it only reads, and what `watch` shows. Without a key only this user and root may read
it. With a key the page's address holds a token derived from it: who has the address may read the
page. 256 connections at once; the source with most of them loses one to a new one."
)]
pub struct ServeArgs {
    /// Address and port; port 0 takes a free one. Addresses that other hosts reach need --key
    #[arg(long, default_value = "127.0.0.1:9941", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// File with the key from which the token in the page's address is derived; only its owner may be able to read it
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// Open the page in a browser
    #[arg(long)]
    pub open: bool,
}
