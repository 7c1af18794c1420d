//! Sends frames through a port as fast as it can, each with its own sequence number and send time, and receives
//! nothing. It shows the highest rate of the generator of `netcliff rfc2544`, counted outside this program as for any
//! other tool (bench/rfc2544).
//!
//! `flat_out INTERFACE DESTINATION-MAC SECONDS [auto|packet|xdp]`

use std::process::ExitCode;

use netcliff_packets::clock;
use netcliff_packets::interface::mac_address;
use netcliff_packets::port::SendOutcome;
use netcliff_packets::port::{SendBy, open_sender};
use netcliff_rfc2544::tester::Profile;
use netcliff_rfc2544::tester::Sweep;
use netcliff_rfc2544::tester::frame::Templates;

/// Burst size of `netcliff rfc2544`.
const BURST: u64 = 32;

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "a program, not a library")]
fn main() -> ExitCode {
    match send(&std::env::args().skip(1).collect::<Vec<_>>()) {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("flat_out: {error}");
            ExitCode::FAILURE
        }
    }
}

fn send(args: &[String]) -> Result<String, Box<dyn std::error::Error>> {
    let [interface, mac, seconds, rest @ ..] = args else {
        return Err("usage: flat_out INTERFACE DESTINATION-MAC SECONDS [auto|packet|xdp]".into());
    };
    let by = match rest.first().map_or("auto", String::as_str) {
        "auto" => SendBy::Auto,
        "packet" => SendBy::Packet,
        "xdp" => SendBy::Xdp,
        other => return Err(format!("{other}: expected auto, packet or xdp").into()),
    };
    let mac: Vec<u8> = mac.split(':').map(|part| u8::from_str_radix(part, 16)).collect::<Result<_, _>>()?;
    let profile = Profile {
        source_mac: mac_address(interface)?,
        destination_mac: mac.try_into().map_err(|_| "expected a MAC such as 02:00:00:00:00:01")?,
        vlan: None,
        source: [198, 18, 0, 2].into(),
        destination: [198, 19, 0, 2].into(),
        ports: (10_000, 20_000),
        sweep: Sweep::default(),
        sizes: vec![64],
        replay: None,
    };
    let templates = Templates::new(&profile)?;
    let mut sender = open_sender(by, interface, templates.filler(), BURST as usize)?.sender;
    let begin_ns = clock::monotonic_ns();
    let end_ns = begin_ns + (seconds.parse::<f64>()? * 1e9) as u64;
    let (mut sequence, mut kicked) = (0, SendOutcome::default());
    loop {
        let now_ns = clock::monotonic_ns();
        if now_ns >= end_ns {
            break;
        }
        let first = sequence;
        while sequence < first + BURST
            && sender.stage(templates.length(sequence), &mut |frame| templates.write(frame, 7, sequence, now_ns))
        {
            sequence += 1;
        }
        kicked.add(&sender.kick()?);
    }
    let rate_pps = sequence as f64 / ((clock::monotonic_ns() - begin_ns) as f64 * 1e-9);
    Ok(format!("{}: {rate_pps:.0} frames/s, {kicked:?}", sender.sending()))
}
