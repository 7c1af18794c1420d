//! `--metrics`, of `watch` and `agent`.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;

/// Where a monitoring system asks.
#[derive(Debug, Clone, Default, Args)]
pub struct MetricsArgs {
    /// Answer GET /metrics here, in OpenMetrics or Prometheus' text: a port (of 127.0.0.1), or an address with one. Whoever reaches it
    /// can read the host's load
    #[arg(long, value_name = "[ADDR:]PORT", value_parser = address)]
    pub metrics: Option<SocketAddr>,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    port.or_else(|_| text.parse())
        .map_err(|_| "expected a port such as 9942, or an address such as 192.0.2.7:9942 or [::1]:9942".into())
}
