//! A scratch probe.
#![allow(clippy::print_stdout)]
use netcliff_host::cpu::Preference;
use netcliff_lab::{rig::*, trial::*};
use netcliff_wire::schedule::Arrivals;
fn main() {
    let args: Vec<f64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let (frame, work, buf, secs) = (args[0] as u32, args[1], args[2] as u64, args[3]);
    let rig = Rig::build(&RigOptions::default(), Default::default()).unwrap();
    println!("{} | {}", rig.describe(), rig.driver());
    let mut m = meter(&rig, Preference::Best).map(|c| c.meter).ok();
    if std::env::var("NOMETER").is_ok() {
        m = None;
    }
    println!(
        "rate offered delivered loss keptup | ring sock send | lat p50 p99 p999 us | irq prot app ksoft other idle | polls ppp ipis wake/pkt steal | ns/pkt prot app late99"
    );
    for (i, rate) in args[4..].iter().enumerate() {
        let spec = TrialSpec {
            rate_pps: *rate,
            arrivals: Arrivals::Poisson,
            frame_bytes: frame,
            work_s: work,
            receive_buffer_bytes: buf,
            seconds: secs,
            seed: 7 + i as u64,
        };
        let t = match trial(&rig, &spec, m.as_mut(), |_, _| ()) {
            Ok(t) => t,
            Err(e) => {
                println!("{e}");
                continue;
            }
        };
        let o = t.outcome();
        let l = o.loss.unwrap();
        let f = |x: Option<netcliff_core::Figure>| x.map_or(f64::NAN, |f| f.value);
        let la = o.latency_s.unwrap();
        print!(
            "{:.0} {:.0} {:.0} {:.2e} {} | {:.1e} {:.1e} {:.1e} | {:.1} {:.1} {:.1} |",
            rate,
            f(o.offered_pps),
            f(o.throughput_pps),
            t.loss(),
            t.sender_kept_up(),
            f(l.ring),
            f(l.socket),
            f(l.sender),
            f(la.p50) * 1e6,
            f(la.p99) * 1e6,
            f(la.p999) * 1e6
        );
        if std::env::var("CELLS").is_ok() {
            if let Some(c) = &t.cpu {
                if let Some(p) = &c.polls {
                    println!();
                    for cell in &p.cells {
                        if cell.polls > 20 {
                            println!(
                                "   {:?} {} polls {} mean {:.0} sd {:.0}",
                                cell.kind,
                                cell.work_low,
                                cell.polls,
                                cell.total_s / cell.polls as f64 * 1e9,
                                ((cell.total_squared_s2 / cell.polls as f64)
                                    - (cell.total_s / cell.polls as f64).powi(2))
                                .sqrt()
                                    * 1e9
                            );
                        }
                    }
                    println!("   tail {:.4}", p.tail_s / c.elapsed_s);
                }
            }
        }
        if let Some(c) = &t.cpu {
            let s = &c.shares;
            let k = &c.counters;
            let n = |x: Option<f64>| x.unwrap_or(f64::NAN);
            let pk = k.backlog_packets.unwrap_or(0) as f64;
            println!(
                " {:.3} {:.3} {:.3} {:.3} {:.3} {:.3} | {} {:.1} {} {:.3} {:.3} | {:.0} {:.0} {:.1}us sq{:?} ks{:?} ovh{:?}",
                n(s.interrupt),
                n(s.protocol),
                n(s.application),
                n(s.ksoftirqd),
                n(s.other) + n(s.softirq_other) + n(s.transmit),
                n(s.idle),
                k.backlog_polls.unwrap_or(0),
                pk / k.backlog_polls.unwrap_or(1) as f64,
                k.ipis.unwrap_or(0),
                t.wire.sink.wakeups().unwrap_or(0) as f64 / t.wire.sink.window_delivered as f64,
                t.steal_share,
                n(s.protocol) * c.elapsed_s / pk * 1e9,
                n(s.application) * c.elapsed_s / t.metered_delivered as f64 * 1e9,
                t.wire.sender.lateness.quantile_s(0.99).unwrap_or(0.0) * 1e6,
                k.time_squeezes,
                k.softirqs_from_ksoftirqd,
                c.overhead_share
            );
        } else {
            println!(
                " steal {:.3} late99 {:.1}us",
                t.steal_share,
                t.wire.sender.lateness.quantile_s(0.99).unwrap_or(0.0) * 1e6
            );
        }
    }
}
