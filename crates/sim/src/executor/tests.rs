use std::sync::atomic::{AtomicU64, Ordering};

use netcliff_core::{Aims, EngineFailure, Host};

use super::*;
use crate::engine::{Effort, SimEngine};

fn point(scheme: &str, kpps: f64) -> Point {
    Point::poisson(Host::pentium4_2530mhz(), scheme.parse().unwrap(), kpps * 1e3)
}

/// Imitates a remote executor: requests are sent in parts and come back as bytes. It gives up after a number of
/// packets.
struct Afar {
    part_packets: u64,
    left: AtomicU64,
    orders: AtomicU64,
}

impl Afar {
    fn new(part_packets: u64, packets: u64) -> Self {
        Self { part_packets, left: AtomicU64::new(packets), orders: AtomicU64::new(0) }
    }
}

fn there_and_back<T: Serialize + for<'a> Deserialize<'a>>(value: &T) -> T {
    postcard::from_bytes(&postcard::to_allocvec(value).unwrap()).unwrap()
}

impl Executor for Afar {
    fn fetch(&self, point: &Point, seed: u64, order: &ReplicationRequest) -> Option<Vec<Filled>> {
        self.orders.fetch_add(1, Ordering::Relaxed);
        let left = self.left.load(Ordering::Relaxed).checked_sub(order.packets())?;
        self.left.store(left, Ordering::Relaxed);
        let fill = |part: ReplicationRequest| there_and_back(&there_and_back(&part).fill(point, seed));
        Some(order.parts(self.part_packets).map(fill).collect())
    }
}

fn efforts() -> [Effort; 3] {
    let precision = Effort::Precision { relative: 0.005, packets_at_most: 5_000_000, figures: Aims::default() };
    [Effort::Exactly(100_000), Effort::Packets(50_000), precision]
}

/// The result does not depend on the executor. The points include several applications, and points with and without a
/// simpler queue; their records contain counts beyond 64 bits and infinite numbers, which have to be transferred
/// exactly.
#[test]
fn the_answer_does_not_depend_on_the_place() {
    let mut points = vec![point("napi", 150.0), point("ideal", 140.0), point("polling:period=20us,quota=3", 90.0)];
    let mut shared = point("napi:backlog", 60.0);
    shared.host.set("application=2us").unwrap();
    shared.host.set("applications=2:times=2us/4us").unwrap();
    points.push(shared);
    for point in points {
        for effort in efforts() {
            let engine = SimEngine { seed: 3, effort, ..SimEngine::default() };
            let here = engine.simulate(&point).unwrap();
            for part_packets in [1, 50_000, u64::MAX] {
                let afar = Afar::new(part_packets, u64::MAX);
                let there = engine.simulate_at(&point, &afar).unwrap();
                assert_eq!(there.outcome, here.outcome, "{} {effort:?}", point.scheme);
                assert_eq!((there.packets, there.replications), (here.packets, here.replications));
                assert_eq!(there.latency_ns, here.latency_ns);
                assert!(afar.orders.into_inner() > 0);
            }
        }
    }
}

/// A precision needs several requests; a point whose executor gives up has no result.
#[test]
fn a_place_that_gives_up_ends_the_point() {
    let [.., precision] = efforts();
    let engine = SimEngine { seed: 3, effort: precision, ..SimEngine::default() };
    let whole = Afar::new(u64::MAX, u64::MAX);
    let packets = engine.simulate_at(&point("napi", 150.0), &whole).unwrap().packets;
    assert!(whole.orders.into_inner() > 1 && packets > 250_000);
    let soon = engine.simulate_at(&point("napi", 150.0), &Afar::new(u64::MAX, 250_000));
    assert!(matches!(soon, Err(EngineFailure::Interrupted)), "{soon:?}");
}

#[test]
fn an_order_is_cut_into_parts_that_make_it_up() {
    let order = ReplicationRequest::records(3..17, 1000);
    assert_eq!(order.packets(), 14_000);
    for (packets, count) in [(0, 14), (999, 14), (1000, 14), (4500, 4), (14_000, 1), (u64::MAX, 1)] {
        let parts: Vec<ReplicationRequest> = order.parts(packets).collect();
        let numbers: Vec<u64> = parts.iter().flat_map(|part| part.numbers.clone()).collect();
        assert_eq!((parts.len(), numbers), (count, (3..17).collect()), "{packets}");
    }
}

/// An answer to another request, or an incomplete one, is rejected.
#[test]
fn what_does_not_fill_the_order_is_not_taken() {
    struct Wrong(fn(&ReplicationRequest) -> ReplicationRequest);
    impl Executor for Wrong {
        fn fetch(&self, point: &Point, seed: u64, order: &ReplicationRequest) -> Option<Vec<Filled>> {
            Some(vec![self.0(order).fill(point, seed)])
        }
    }
    let engine = SimEngine { effort: Effort::Exactly(20_000), ..SimEngine::default() };
    let other: fn(&ReplicationRequest) -> ReplicationRequest =
        |order| ReplicationRequest::excess(order.numbers.clone(), order.packets, 1e9, 0);
    let fewer: fn(&ReplicationRequest) -> ReplicationRequest =
        |order| ReplicationRequest { numbers: 0..3, ..order.clone() };
    for wrong in [other, fewer] {
        assert!(engine.simulate_at(&point("napi", 50.0), &Wrong(wrong)).is_err());
    }
}
