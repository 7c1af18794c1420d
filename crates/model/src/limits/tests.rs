//! Bounds compared with published numbers and with each other.

use proptest::prelude::*;

use super::*;

fn system(bus: &str, link_bps: f64) -> System {
    System {
        link_bps: Some(link_bps),
        bus: bus.parse().expect("a bus"),
        memory: Some(Memory { bytes_per_s: 6.4e9, copies: 1 }),
        cpu: Some(Host::pentium4_2530mhz()),
        cpus: 1,
        frames_per_interrupt: 1.0,
    }
}

fn near(value: f64, expected: f64, share: f64) {
    assert!((value / expected - 1.0).abs() < share, "{value} is not {expected}");
}

/// Well-known rates of RFC 2544: 1 488 095 and 81 274 frames per second at 1 Gbit/s.
#[test]
fn line_rate() {
    let system = system("none", 1e9);
    near(system.roof(64.0, &[]).of(Part::Link).unwrap(), 1_488_095.0, 1e-6);
    near(system.roof(1518.0, &[]).of(Part::Link).unwrap(), 81_274.0, 1e-5);
    assert_eq!(system.roof(64.0, &[]).of(Part::Bus), None);
}

/// The 10 GbE study states 8.5 Gbit/s for PCI-X at 133 MHz, and 20 Gbit/s raw for PCI Express x8 (generation 1), of
/// which 16 remain after 8b/10b.
#[test]
fn raw_bandwidths() {
    let raw = |text: &str| raw_bps(&text.parse().expect("a bus")).expect("a bandwidth");
    near(raw("pci-32/33"), 1.067e9, 1e-3);
    near(raw("pci-64/66"), 4.267e9, 1e-3);
    near(raw("pci-x-133"), 8.5e9, 5e-3);
    near(raw("pcie-1x8"), 16e9, 1e-9);
    near(raw("pcie-3x8"), 63.0e9, 1e-3);
    assert_eq!(raw_bps(&Bus::None), None);
}

/// The PCIe paper: generation 3 x8 writes blocks of 1024 bytes at about 50 Gbit/s with MPS 256 (57.88 x 1024/1120 =
/// 52.9 before descriptors).
#[test]
fn pcie_writes() {
    let bus: Bus = "pcie-3x8:batch=1024".parse().unwrap();
    let bound_bps = 8.0 * 1024.0 / bus::seconds_per_frame(&bus, 1024.0, 1e9);
    near(bus::typical_share(&bus) * bound_bps, 52.0e9, 0.02);
    assert!(bound_bps > 52.0e9);
}

/// On two lanes of generation 1, the study measured 3.07 Gbit/s of payload: the bound must be higher.
#[test]
fn a_bound_of_the_bus_is_one() {
    let bus: Bus = "pcie-2x1:mps=128B".parse().unwrap();
    let payload_bps = 8.0 * (9018.0 - 18.0 - 52.0) / bus::seconds_per_frame(&bus, 9018.0, 8.0);
    assert!(payload_bps > 3.07e9, "{payload_bps}");
}

/// Measurements of the 10 GbE study are below their bounds. With PCI-X and a 10 Gbit/s link it measured 5.5 Gbit/s
/// (TCP, MTU 1500), 7 (MTU 9000) and 8 (sendfile). The last is within a tenth of the bus's bound: there the bus was the
/// bottleneck.
#[test]
fn the_10_gbe_study() {
    let system = System { memory: None, cpu: None, ..system("pci-x-133:burst=4KiB", 10e9) };
    let payload_bps = |frame_bytes: f64, payload: f64| {
        let roof = system.roof(frame_bytes, &[]);
        assert_eq!(roof.binding(), Some(Part::Bus), "{frame_bytes}");
        8.0 * payload * roof.lowest().unwrap().pps
    };
    // TCP payload of a frame with timestamps: MTU - 52.
    let (short, long) = (payload_bps(1518.0, 1448.0), payload_bps(9018.0, 8948.0));
    near(short, 7.7e9, 0.01);
    near(long, 8.3e9, 0.01);
    // Measured: 5.5 and 7 Gbit/s by plain TCP, 8 by sendfile.
    assert!(short > 5.5e9 && long > 8.0e9 && long < 1.05 * 8.0e9, "{short} {long}");
}

#[test]
fn the_sum_of_cpu_items_binds_and_the_largest_is_named() {
    let system = System { memory: None, ..system("none", 100e9) };
    let roof = system.roof(64.0, &[]);
    assert_eq!(roof.lowest().unwrap().part, Part::Cpu);
    assert_eq!(roof.binding(), Some(Part::PacketCpu));
    let total: f64 =
        [Part::Interrupts, Part::PacketCpu, Part::ByteCpu].iter().map(|p| 1.0 / roof.of(*p).unwrap()).sum();
    near(roof.of(Part::Cpu).unwrap(), 1.0 / total, 1e-12);
    let long = system.roof(9018.0, &[]);
    assert_eq!(long.binding(), Some(Part::ByteCpu));
}

#[test]
fn nothing_known_binds_nothing() {
    let system = System { link_bps: None, bus: Bus::None, memory: None, cpu: None, cpus: 1, frames_per_interrupt: 1.0 };
    assert_eq!((system.roof(64.0, &[]).lowest(), system.roof(64.0, &[]).binding()), (None, None));
}

/// Every effect has a row, also in docs/theory/limits.md.
#[test]
fn the_table_is_whole_and_documented() {
    let page = include_str!("../../../../docs/theory/limits.md");
    for (effect, offload) in EFFECTS.iter().zip(Offload::ALL) {
        assert_eq!(effect.offload, offload);
        let row = format!("| `{offload}` | {} |", effect.says);
        assert!(page.contains(&row), "docs/theory/limits.md lacks the row\n{row}");
    }
}

fn offloads() -> impl Strategy<Value = Vec<Offload>> {
    prop::sample::subsequence(Offload::ALL.to_vec(), 0..=5)
}

fn buses() -> impl Strategy<Value = Bus> {
    let slots = (1..=6_u32, prop::sample::select(vec![1_u32, 2, 4, 8, 16, 32]), 7..13_u32, 7..13_u32, 1..65_u32);
    let pcie = slots.prop_map(|(generation, lanes, mps, mrrs, batch)| {
        Bus::Pcie(netcliff_core::parts::Pcie { generation, lanes, mps_bytes: 1 << mps, mrrs_bytes: 1 << mrrs, batch })
    });
    prop_oneof![prop::sample::select(netcliff_core::parts::PARALLEL.to_vec()).prop_map(Bus::Parallel), pcie]
}

proptest! {
    #[test]
    fn bounds_behave(bus in buses(), size in 64..9000_u32, more in 1..2000_u32, offloads in offloads(), tau in 1.0..64.0_f64) {
        let system = System { bus, frames_per_interrupt: tau, ..system("none", 40e9) };
        let (roof, longer) = (system.roof(f64::from(size), &offloads), system.roof(f64::from(size + more), &offloads));
        // Without copy and checksum a byte costs no CPU time; every other part has a bound.
        let free = offloads.contains(&Offload::Checksum) && offloads.contains(&Offload::ZeroCopy);
        prop_assert_eq!(roof.bounds.len(), if free { 6 } else { 7 });
        for (short, long) in roof.bounds.iter().zip(&longer.bounds) {
            prop_assert_eq!(short.part, long.part);
            prop_assert!(short.pps.is_finite() && short.pps > 0.0);
            // GRO and TSO distribute a packet's cost over several frames. Longer frames get a larger part each, so that
            // the cost per frame grows with the frame.
            prop_assert!(long.pps <= short.pps * (1.0 + 1e-12), "{:?} {:?}", short, long);
        }
        let lowest = roof.lowest().unwrap().pps;
        prop_assert!(roof.bounds.iter().all(|bound| bound.pps >= lowest));
    }

    /// An additional offload never reduces the bound in bit/s.
    #[test]
    fn offloads_never_cost(bus in buses(), size in 64..9000_u32, offloads in offloads(), one in prop::sample::select(Offload::ALL.to_vec())) {
        let system = System { bus, ..system("none", 40e9) };
        let with: Vec<Offload> = offloads.iter().copied().chain([one]).collect();
        let (before, after) = (system.roof(f64::from(size), &offloads), system.roof(f64::from(size), &with));
        let bps = |roof: &Roof| roof.bps(roof.lowest().unwrap().pps);
        // A frame of 9018 bytes may end in an almost empty bus transaction: 1 %.
        prop_assert!(bps(&after) >= bps(&before) * 0.99, "{} {}", bps(&after), bps(&before));
    }

    #[test]
    fn wider_and_newer_slots_carry_more(generation in 1..6_u32, lanes in prop::sample::select(vec![1_u32, 2, 4, 8, 16]), size in 64..9000_u32) {
        let pps = |generation, lanes| 1.0 / bus::seconds_per_frame(&Bus::pcie(generation, lanes).unwrap(), f64::from(size), 8.0);
        prop_assert!(pps(generation, lanes) < pps(generation, 2 * lanes));
        prop_assert!(pps(generation, lanes) < pps(generation + 1, lanes));
    }
}
