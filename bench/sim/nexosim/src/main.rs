//! M/M/1/B at rho = 0.8, B = 1024, in nexosim: a source and a CPU as models. Usage: nexosim-queue PACKETS.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use nexosim::model::{Context, Model, schedulable};
use nexosim::ports::{EventSinkReader, EventSource, Output, SinkState, event_slot};
use nexosim::simulation::{Mailbox, SimInit};
use nexosim::time::MonotonicTime;
use serde::{Deserialize, Serialize};

const RING: usize = 1024;

/// xoshiro256++ and the library's logarithm.
#[derive(Serialize, Deserialize)]
struct Draws([u64; 4]);

impl Draws {
    fn exponential(&mut self, mean_s: f64) -> Duration {
        let s = &mut self.0;
        let bits = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        let unit = 2.0 - f64::from_bits(0x3ff0_0000_0000_0000 | (bits >> 12));
        // An event must lie ahead: at least a nanosecond.
        Duration::from_secs_f64(-mean_s * unit.ln()).max(Duration::from_nanos(1))
    }
}

#[derive(Serialize, Deserialize)]
struct Source {
    packet: Output<()>,
    draws: Draws,
    left: u64,
}

#[Model]
impl Source {
    #[nexosim(schedulable)]
    async fn emit(&mut self, _: (), context: &Context<Self>) {
        self.packet.send(()).await;
        self.left -= 1;
        if self.left > 0 {
            context.schedule_event(self.draws.exponential(1.25), schedulable!(Self::emit), ()).unwrap();
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Cpu {
    /// Delivered, sum of latencies (s), lost.
    totals: Output<(u64, f64, u64)>,
    draws: Draws,
    ring: VecDeque<Duration>,
    sum: (u64, f64, u64),
}

#[Model]
impl Cpu {
    fn now(context: &Context<Self>) -> Duration {
        context.time().duration_since(MonotonicTime::EPOCH)
    }

    async fn arrive(&mut self, _: (), context: &Context<Self>) {
        if self.ring.len() == RING {
            self.sum.2 += 1;
            return;
        }
        self.ring.push_back(Self::now(context));
        if self.ring.len() == 1 {
            context.schedule_event(self.draws.exponential(1.0), schedulable!(Self::depart), ()).unwrap();
        }
    }

    #[nexosim(schedulable)]
    async fn depart(&mut self, _: (), context: &Context<Self>) {
        let arrived = self.ring.pop_front().unwrap();
        self.sum.0 += 1;
        self.sum.1 += (Self::now(context) - arrived).as_secs_f64();
        if self.ring.is_empty() {
            self.totals.send(self.sum).await;
        } else {
            context.schedule_event(self.draws.exponential(1.0), schedulable!(Self::depart), ()).unwrap();
        }
    }
}

fn main() {
    let packets: u64 = std::env::args().nth(1).map_or(1_000_000, |count| count.parse().unwrap());
    let mut source = Source { packet: Output::default(), draws: Draws([1, 2, 3, 4]), left: packets };
    let mut cpu = Cpu { totals: Output::default(), draws: Draws([5, 6, 7, 8]), ring: VecDeque::new(), sum: (0, 0.0, 0) };
    let (source_box, cpu_box) = (Mailbox::new(), Mailbox::new());
    source.packet.connect(Cpu::arrive, &cpu_box);
    let (sink, mut totals) = event_slot(SinkState::Enabled);
    cpu.totals.connect_sink(sink);
    let mut bench = SimInit::with_num_threads(1);
    let begin = EventSource::new().connect(Source::emit, &source_box).register(&mut bench);
    let mut simulation =
        bench.add_model(source, source_box, "source").add_model(cpu, cpu_box, "cpu").init(MonotonicTime::EPOCH).unwrap();
    simulation.scheduler().schedule_event(Duration::from_secs(1), &begin, ()).unwrap();
    let start = Instant::now();
    simulation.step_until(Duration::from_secs_f64(packets as f64 * 1.25 * 1.1 + 1e4)).unwrap();
    let seconds = start.elapsed().as_secs_f64();
    let (delivered, latency, lost) = totals.try_read().unwrap();
    println!(
        "{{\"packets\": {packets}, \"seconds\": {seconds:.6}, \"mean_latency\": {:.4}, \"delivered\": {delivered}, \"lost\": {lost}}}",
        latency / delivered as f64
    );
}
