//! `netcliff limits`.

use std::path::PathBuf;

use clap::Args;
use netcliff_core::{Bus, Offload, units};

use super::numbers;

/// Which parts, which frames.
#[derive(Debug, Clone, Args)]
#[command(
    after_help = "`--help` has examples and rarer options.",
    after_long_help = "Examples:
  netcliff limits --link 10Gbit/s --bus pcie-3x8 --host pentium4-2530mhz
  netcliff limits --link 10Gbit/s --bus pci-x-133:burst=4KiB --sizes 1518B,9018B
  netcliff limits --if eth0 --memory 10GB/s --offload gro --html roof.html
  netcliff limits --this-host --html roof.html

With --this-host, link and slot are those of the interface (--if, else the first hardware that is up), memory is \
measured for half a second, costs are those of the newest `netcliff find` of this machine in the store, with the \
packets per interrupt that it measured near its cliff, shared by the CPUs that take the interface's interrupts; \
options that you give take precedence. A part that is not given is unknown and gives no bound; the page says so. The \
bus, \
with its defaults: none, pci-32/33, pci-64/66, pci-x-100, pci-x-133 (:burst=512B,overhead_clocks=6), pcie-3x8 \
(:mps=256B,mrrs=512B,batch=8), axi (1GB/s) or a bandwidth such as 1GB/s. docs/theory/limits.md has the formulas and \
the table of offloads."
)]
pub struct LimitsArgs {
    /// Take every part from this host
    #[arg(long)]
    pub this_host: bool,
    /// Link speed
    #[arg(long, value_parser = link, allow_hyphen_values = true, value_name = "10Gbit/s")]
    pub link: Option<f64>,
    /// Bus between NIC and memory: none, pci-64/66, pci-x-133, pcie-3x8, axi, 1GB/s and so on
    #[arg(long, value_name = "BUS")]
    pub bus: Option<Bus>,
    /// Take link speed and slot from this interface of the host
    #[arg(long = "if", value_name = "NAME")]
    pub interface: Option<String>,
    /// Memory bandwidth, reads and writes together
    #[arg(long, value_parser = memory, allow_hyphen_values = true, value_name = "10GB/s")]
    pub memory: Option<f64>,
    /// Number of times that the CPU copies each byte
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=16), allow_negative_numbers = true)]
    pub copies: u32,
    /// Costs of a CPU: a preset, a TOML file, find:3 or learn:4 (runs of the store), last-find or last-learn [default
    /// with --this-host: this host's calibration, see `netcliff results calibrate`]
    #[arg(long, value_name = "PRESET|FILE|find:N|learn:N")]
    pub host: Option<String>,
    /// Change one cost of the host, such as application=2us (repeatable)
    #[arg(long, value_name = "KEY=VALUE", requires = "host")]
    pub set: Vec<String>,
    /// CPUs that share the frames evenly [default: 1; with --this-host those that take the interface's interrupts]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=4096), allow_negative_numbers = true)]
    pub cpus: Option<u32>,
    /// Frames per interrupt (coalescing) [default: as find measured near its cliff; else a range from 1 to the model's]
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=65536), allow_negative_numbers = true)]
    pub frames_per_interrupt: Option<u32>,
    /// Frame sizes, FCS included [default: those of RFC 2544 and 9018B]
    #[arg(long, value_delimiter = ',', value_parser = size, value_name = "64B,1518B,...")]
    pub sizes: Vec<u32>,
    /// Show what these change: checksum, tso, gro, jumbo, zero-copy
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub offload: Vec<Offload>,
    /// Print everything: also the plot
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// One JSON object
    #[arg(long)]
    pub json: bool,
    /// CSV: to stdout, or to a file by --csv=FILE
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, conflicts_with = "json")]
    pub csv: Option<Option<PathBuf>>,
    /// Write a page with the plot to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the plot as SVG to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

fn link(text: &str) -> Result<f64, String> {
    let bps = super::numbers::bit_rate_bps(text)?;
    if bps > 0.0 { Ok(bps) } else { Err("must be above 0, such as 10Gbit/s".into()) }
}

fn memory(text: &str) -> Result<f64, String> {
    let rate = units::parse_byte_rate(text).map_err(|error| error.to_string())?;
    if rate > 0.0 { Ok(rate) } else { Err("must be above 0, such as 10GB/s".into()) }
}

fn size(text: &str) -> Result<u32, String> {
    let bytes = numbers::bytes(text)?;
    let fits = u32::try_from(bytes).ok().filter(|bytes| netcliff_core::traffic::FRAME_RANGE_BYTES.contains(bytes));
    fits.ok_or_else(|| "expected a frame of 64B to 65535B".into())
}
