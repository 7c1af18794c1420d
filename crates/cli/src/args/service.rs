//! `netcliff find --service`: the options of a service of the user's own.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args};
use netcliff_core::service::QuantileLimit;
use netcliff_core::units;
use netcliff_service::protocol::{Match, Transport};
use netcliff_service::request::RequestSpec;
use netcliff_service::requester::tls::Wanted;

use super::choice::one_of;

const HEADING: &str = "Own service";

/// Which service, what it is asked, and what it has to keep.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("target").args(["service", "to"]).multiple(false))]
pub struct ServiceArgs {
    /// Measure the cliff of your own service, which this shell command starts (needs --request, see --help)
    ///
    /// Example: 'nsd -d -c nsd.conf'. It runs in the testbed's namespace on the CPU under test, and must listen on all
    /// addresses (or on 198.18.0.2, with --ipv6 2001:2::2). At the end of the run it is ended with all processes that
    /// it started. Requests are sent at scheduled times, whether or not earlier ones were answered; the cliff is the
    /// highest load that meets --loss and the limits of response times.
    #[arg(
        long,
        value_name = "COMMAND",
        requires = "request",
        conflicts_with_all = ["interface", "of"],
        help_heading = "Load and application"
    )]
    pub service: Option<String>,
    /// Measure the cliff of a service that already runs at this address; it gets the full test load
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = super::numbers::listening, requires = "request", conflicts_with_all = ["interface", "of", "ipv6"], group = "two_hosts", help_heading = HEADING, hide_short_help = true)]
    pub to: Option<SocketAddr>,
    /// Agent on the host of --to, which measures the service's CPU time there; with --key or --ssh [default with these:
    /// the address of --to]
    #[arg(long, value_name = "HOST[:PORT]", requires = "to", conflicts_with = "service", help_heading = HEADING, hide_short_help = true)]
    pub agent: Option<String>,
    /// Requests to send: dns:NAMES.txt, http:/PATH, http:PATHS.txt (https: by TLS), memcached:, redis:, udp:HEX,
    /// udp:FILE, pcap:FILE
    ///
    /// Files have a request a line, sent in turn: NAME [TYPE] for dns, [METHOD] PATH for http, get KEY or set KEY VALUE
    /// for memcached, a command for redis, hexadecimal digits for udp. memcached: and redis: alone store 1000 values of
    /// 100 bytes and read them. pcap: sends the UDP datagrams to the service's port that a capture has, repeated, with
    /// their gaps scaled to each load: those to port 53 as dns, to 11211 as memcached, others as udp. With --transport
    /// tcp, or if it has no such datagrams, it sends the requests of the TCP connections to the port (dns, http, redis,
    /// memcached).
    #[arg(long, value_name = "REQUESTS", requires = "target", help_heading = HEADING, hide_short_help = true)]
    pub request: Option<RequestSpec>,
    /// Port of --service [default: the protocol's]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..), requires = "service", help_heading = HEADING, hide_short_help = true)]
    pub port: Option<u16>,
    /// Transport of the requests [default: udp for dns and udp:, of a capture what it has, else tcp]
    #[arg(long, value_parser = one_of::<Transport>(), requires = "target", help_heading = HEADING, hide_short_help = true)]
    pub transport: Option<Transport>,
    /// Connections, or source ports of UDP [default: 32 connections, 16 ports; 64 for --request udp:... without --match]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=20_000), requires = "target", help_heading = HEADING, hide_short_help = true)]
    pub connections: Option<u32>,
    /// Requests in flight per connection; a request that waits for its turn counts the wait as response time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024), requires = "target", help_heading = HEADING, hide_short_help = true)]
    pub depth: u32,
    /// Open a new connection for each request
    #[arg(long, requires = "target", help_heading = HEADING, hide_short_help = true)]
    pub new_connections: bool,
    /// Send requests over TLS, as https: does; for dns this is DNS over TLS (port 853)
    #[arg(long, requires = "target", help_heading = HEADING, hide_short_help = true)]
    pub tls: bool,
    /// TLS: do not check the service's certificate
    #[arg(long, requires = "target", conflicts_with = "cacert", help_heading = HEADING, hide_short_help = true)]
    pub insecure: bool,
    /// TLS: certificates to trust, in PEM [default: the system's]
    #[arg(long, value_name = "FILE", requires = "target", help_heading = HEADING, hide_short_help = true)]
    pub cacert: Option<PathBuf>,
    /// TLS: name that the certificate must have, also HTTP's Host field [default: the address]
    #[arg(long, value_name = "NAME", requires = "target", help_heading = HEADING, hide_short_help = true)]
    pub server_name: Option<String>,
    /// Time after which an unanswered request counts as lost, from when it was due
    #[arg(long, value_name = "TIME", default_value = "200ms", value_parser = units::parse_time_s, allow_hyphen_values = true, requires = "target", help_heading = HEADING, hide_short_help = true)]
    pub timeout: f64,
    /// 99% of the requests have to be answered within this time [default: 10ms over connections, where nothing is lost,
    /// else no limit]
    #[arg(long, value_name = "TIME", value_parser = units::parse_time_s, allow_hyphen_values = true, requires = "target", help_heading = HEADING, hide_short_help = true)]
    pub p99: Option<f64>,
    /// 99.9% of the requests have to be answered within this time
    #[arg(long, value_name = "TIME", value_parser = units::parse_time_s, allow_hyphen_values = true, requires = "target", help_heading = HEADING, hide_short_help = true)]
    pub p999: Option<f64>,
    /// Another share and its time, such as 0.95=2ms (repeatable)
    #[arg(long, value_name = "SHARE=TIME", value_parser = quantile, requires = "target", help_heading = HEADING, hide_short_help = true)]
    pub quantile: Vec<QuantileLimit>,
    /// Position of the number in a udp: request that its answer repeats: OFFSET:LENGTH in bytes, such as 0:2 (netcliff
    /// writes the number); with @OFFSET if its position in the answer differs
    #[arg(long = "match", value_name = "BYTES", requires = "target", help_heading = HEADING, hide_short_help = true)]
    pub by: Option<Match>,
    /// CPUs of the service, such as 1,2 [default: --host-cpu; of --to: all of its host]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "target", conflicts_with = "host_cpu", help_heading = HEADING, hide_short_help = true)]
    pub service_cpus: Vec<u32>,
    /// Process on the host of --to whose CPU time is measured [default: the program with the socket]
    #[arg(long, value_name = "PID", requires = "to", conflicts_with = "service", help_heading = HEADING, hide_short_help = true)]
    pub pid: Option<u32>,
}

impl ServiceArgs {
    /// True if a service is measured instead of netcliff's own receiver.
    pub fn is_asked(&self) -> bool {
        self.service.is_some() || self.to.is_some()
    }

    /// How connections are encrypted.
    pub fn tls(&self) -> Wanted {
        let (ca_file, server_name) = (self.cacert.clone(), self.server_name.clone());
        Wanted { tls: self.tls, insecure: self.insecure, ca_file, server_name }
    }

    /// The limits of response times.
    pub fn quantiles(&self) -> Vec<QuantileLimit> {
        let named = [(0.99, self.p99), (0.999, self.p999)];
        let named =
            named.into_iter().filter_map(|(quantile, within)| Some(QuantileLimit { quantile, within_s: within? }));
        named.chain(self.quantile.iter().copied()).collect()
    }
}

fn quantile(text: &str) -> Result<QuantileLimit, String> {
    let form = || "expected a share and a time, such as 0.95=2ms or 95%=2ms".to_owned();
    let (share, time) = text.split_once('=').ok_or_else(form)?;
    let quantile = units::parse_share(share).map_err(|error| error.to_string())?;
    let within_s = units::parse_time_s(time).map_err(|error| error.to_string())?;
    if quantile > 0.0 && quantile < 1.0 { Ok(QuantileLimit { quantile, within_s }) } else { Err(form()) }
}
