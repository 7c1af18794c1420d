//! Converts settings, which have names as values, into the options of a transfer.

use std::sync::Arc;

use crate::bulk::{Channel, DatagramPath, Direction, SendPath, Settings};
use netcliff_core::Provenance;
use netcliff_core::experiment::Setting;
use netcliff_core::repeats::Repeats;
use netcliff_host::cpu::{Method as CpuMethod, Preference};

use super::{Config, Place, TransfersError};
use crate::stream::{self, Method, Path, StreamOptions};

/// Size of the temporary file of a sender by sendfile (bytes): the default of `netcliff stream`.
const OWN_FILE_BYTES: u64 = 64 << 20;

/// Channels by name.
const CHANNELS: [&str; 3] = ["tcp", "mptcp", "udp"];

/// Checks the names that only this crate knows.
pub(super) fn check_name(setting: &Setting) -> Result<(), TransfersError> {
    let name = |key, value: &str, accepted: String| TransfersError::Name { key, value: value.to_owned(), accepted };
    match setting {
        Setting::Method(value) => value.parse::<Method>().map(drop).map_err(|accepted| name("method", value, accepted)),
        Setting::Path(value) if path(value).is_none() => {
            let names: Vec<&str> = paths().iter().map(Path::name).collect();
            Err(name("path", value, format!("expected one of {}", names.join(", "))))
        }
        Setting::Channel(value) if !CHANNELS.contains(&value.as_str()) => {
            Err(name("channel", value, format!("expected one of {}", CHANNELS.join(", "))))
        }
        _ => Ok(()),
    }
}

fn paths() -> Vec<Path> {
    let stream = [
        SendPath::Write,
        SendPath::WriteV,
        SendPath::SendOwnFile { bytes: OWN_FILE_BYTES, cold: false },
        SendPath::Splice,
        SendPath::Ktls,
        SendPath::ZeroCopy,
        SendPath::Uring { zero_copy: false },
        SendPath::Uring { zero_copy: true },
    ];
    let datagrams = [
        DatagramPath::Single,
        DatagramPath::Batch,
        DatagramPath::Segmented,
        DatagramPath::SegmentedOut,
        DatagramPath::SegmentedIn,
    ];
    stream.into_iter().map(Path::Stream).chain(datagrams.map(Path::Datagram)).collect()
}

fn path(name: &str) -> Option<Path> {
    paths().into_iter().find(|path| path.name() == name)
}

/// A configuration's settings that select how the transfer is made.
struct Named {
    method: Method,
    udp: bool,
    ipv6: bool,
    far_sends: bool,
    path: Option<Path>,
    block_bytes: Option<u64>,
    no_delay: bool,
    flows: u32,
    threads: Option<u32>,
    rate: bool,
    qdisc: bool,
    aligned: bool,
}

impl Named {
    fn of(settings: &[Setting]) -> Self {
        let mut named = Self {
            method: Method::Default,
            udp: false,
            ipv6: false,
            far_sends: false,
            path: None,
            block_bytes: None,
            no_delay: false,
            flows: 1,
            threads: None,
            rate: false,
            qdisc: false,
            aligned: false,
        };
        for setting in settings {
            match setting {
                Setting::Method(name) => named.method = name.parse().unwrap_or_default(),
                Setting::Channel(name) => named.udp = name == "udp",
                Setting::Ipv6(ipv6) => named.ipv6 = *ipv6,
                Setting::FarSends(far) => named.far_sends = *far,
                Setting::Path(name) => named.path = path(name),
                Setting::Block(bytes) => named.block_bytes = Some(*bytes),
                Setting::NoDelay(on) => named.no_delay = *on,
                Setting::Flows(flows) => named.flows = *flows,
                Setting::Threads(threads) => named.threads = *threads,
                Setting::Rate(bps) => named.rate = bps.is_some(),
                Setting::Qdisc(kind, _) => named.qdisc = kind.kernel_name().is_some(),
                Setting::Align(page) => named.aligned = *page,
                _ => {}
            }
        }
        named
    }

    fn path(self) -> Path {
        let default = if self.udp { Path::Datagram(DatagramPath::Single) } else { Path::Stream(SendPath::Write) };
        self.path.unwrap_or(default)
    }

    /// The requested setting that flows with shared threads do not support, and the number of threads. `None` if there
    /// is no such setting.
    fn cannot_share(&self) -> Option<(u32, &'static str)> {
        let mut settings = Settings::new(Channel::Unix);
        (settings.flows, settings.threads) = (self.flows, self.threads);
        settings.acknowledged = self.method == Method::Acked;
        if let Some(Path::Stream(path)) = &self.path {
            settings.path = path.clone();
        }
        settings.cannot_share()
    }
}

/// Why a configuration cannot be measured. `None` if it can.
pub(super) fn impossible(config: &Config) -> Option<String> {
    let named = Named::of(&config.settings);
    let method = named.method;
    if method == Method::Lmbench2 && named.block_bytes.is_some_and(|b| b != stream::LMBENCH2_BLOCK_BYTES as u64) {
        return Some("lmbench2 with other blocks than 64KiB: it has no others".to_owned());
    }
    if named.no_delay && method.forbids_no_delay() {
        return Some(format!("{method} with TCP_NODELAY: it cannot set it"));
    }
    if named.udp && method != Method::Default {
        return Some(format!("{method} over udp: it measures streams"));
    }
    if named.far_sends && method != Method::Default {
        return Some(format!("direction receive with {method}: it says itself who sends"));
    }
    if named.far_sends && named.udp {
        return Some("direction receive over udp: datagrams go to the far end".to_owned());
    }
    if let Some((threads, what)) = named.cannot_share() {
        return Some(format!(
            "{what} with {} flows over {threads} threads: its threads wait for one flow only",
            named.flows
        ));
    }
    if named.rate && named.qdisc {
        return Some("qdisc with a link rate: the rate is a qdisc itself, the token bucket".to_owned());
    }
    if named.aligned && (named.udp || !matches!(named.path, None | Some(Path::Stream(SendPath::Write)))) {
        return Some("align page over another path than write: it has no block of its own to align".to_owned());
    }
    let channel = if named.udp { "udp" } else { "tcp and mptcp" };
    let odd = named.path.as_ref().filter(|path| matches!(path, Path::Datagram(_)) != named.udp)?;
    Some(format!("path {} over {channel}: it does not have it", odd.name()))
}

/// The options of a configuration's transfer, with a window of `time_s` (s) after the warm-up (s). `None` as warm-up:
/// the method's own.
pub(super) fn options(
    config: &Config,
    place: &Place<'_>,
    (warm_up_s, time_s): (Option<f64>, f64),
    provenance: &Provenance,
) -> StreamOptions {
    let named = Named::of(&config.settings);
    let mut template = place.template(named.ipv6);
    template.channel = match (&template.channel, named.udp) {
        (Channel::Tcp { address, .. }, true) => Channel::Udp { address: *address, path: DatagramPath::Single },
        (channel, _) => channel.clone(),
    };
    let method = named.method;
    let named_direction = named.far_sends.then_some(Direction::Receive);
    let mut options = StreamOptions {
        method,
        blocks_bytes: Vec::new(),
        read_bytes: None,
        paths: vec![named.path()],
        repeats: Repeats::exactly(1),
        warm_up_s,
        time_s,
        bytes: None,
        link_bps: None,
        cpu: Preference::Only(CpuMethod::Procfs),
        probe: None,
        ledger: false,
        guest: place.guest(),
        live: None,
        stop: Arc::clone(place.stop()),
        command: provenance.command.clone(),
        started_unix_s: provenance.started_unix_s,
        template,
    };
    for setting in &config.settings {
        let transfer = &mut options.template;
        match setting {
            Setting::Channel(name) if name == "mptcp" => set_multipath(&mut transfer.channel),
            Setting::NoDelay(on) => transfer.options.no_delay = *on,
            Setting::Congestion(name) => transfer.options.congestion = Some(name.clone()),
            Setting::Flows(flows) => transfer.flows = *flows,
            Setting::Threads(threads) => transfer.threads = *threads,
            Setting::Bytes(bytes) => options.bytes = Some(*bytes),
            Setting::Block(bytes) => options.blocks_bytes = vec![usize::try_from(*bytes).unwrap_or(usize::MAX)],
            Setting::Rate(bps) => options.link_bps = *bps,
            Setting::SendBuffer(bytes) => transfer.options.send_buffer_bytes = *bytes,
            Setting::ReceiveBuffer(bytes) => transfer.options.receive_buffer_bytes = *bytes,
            Setting::Align(page) => transfer.options.page_aligned = *page,
            // The first six are handled above; the rest are settings of the device, not of the transfer.
            Setting::Method(_)
            | Setting::Channel(_)
            | Setting::Ipv6(_)
            | Setting::FarSends(_)
            | Setting::Path(_)
            | Setting::HalfDuplex(_)
            | Setting::Mtu(_)
            | Setting::Feature(..)
            | Setting::Qdisc(..)
            | Setting::Backlog(_)
            | Setting::Coalesce(..)
            | Setting::Pause(..) => {}
        }
    }
    let direction = method.direction().or(named_direction);
    options.template.direction = direction.unwrap_or_default();
    place.pin(&mut options.template, direction);
    if method == Method::Lmbench2 || options.blocks_bytes.is_empty() {
        options.blocks_bytes = vec![method.default_block_bytes(&options.template.channel)];
    }
    options
}

fn set_multipath(channel: &mut Channel) {
    if let Channel::Tcp { multipath, .. } = channel {
        *multipath = true;
    }
}
