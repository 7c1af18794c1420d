use super::*;
use crate::engine::Point;
use crate::{Host, Load, Outcome, Traffic};

fn point(queues: &str, flows: Option<&str>) -> Point {
    let host = Host { queues: Some(queues.parse().unwrap()), ..Host::pentium4_2530mhz() };
    let traffic = Traffic { flows: flows.map(|text| text.parse().unwrap()), ..Traffic::default() };
    Point { traffic, ..Point::poisson(host, "napi".parse().unwrap(), 400e3) }
}

/// An engine that delivers everything; its busy share is rate x protocol time.
fn all_served(part: &Point) -> Outcome {
    let rate = part.rate_pps().unwrap();
    let busy = (rate * part.host.service_s(64.0)).min(1.0);
    let cpu = crate::CpuShares { available: Some((1.0 - busy).into()), ..Default::default() };
    Outcome { throughput_pps: Some(rate.into()), loss_fraction: Some(0.0.into()), cpu: Some(cpu), ..Outcome::default() }
}

fn parts(point: &Point) -> Vec<Point> {
    let seen = std::cell::RefCell::new(Vec::new());
    evaluate(
        point,
        &|_, part| {
            seen.borrow_mut().push(part.clone());
            Ok(all_served(part))
        },
        &|_| unreachable!("no core is shared"),
    )
    .unwrap();
    seen.into_inner()
}

#[test]
fn texts_round_trip() {
    for text in [
        "4",
        "8:map=spread,transmit=1us,cold=1.3",
        "2:map=smt,smt=1.5,nodes=2,remote=1.2,table=0/1/1",
        "4:on=0/0/2/2,transmit=1us",
        "4:map=spread,on=0/1/2/3,transmit=1us",
    ] {
        assert_eq!(text.parse::<Queues>().unwrap().to_string(), text);
    }
    assert_eq!("1000:zipf=1.1".parse::<Flows>().unwrap().to_string(), "1000:zipf=1.1");
    let shares: Queues = "2:shares=75%/25%".parse().unwrap();
    assert_eq!(shares.to_string().parse::<Queues>().unwrap(), shares);
}

#[test]
fn what_cannot_be_is_refused() {
    for (text, part) in
        [("x", "such as 4"), ("4:map=sideways", "pairing, spread or smt"), ("4:colour=red", "unknown key `colour`")]
    {
        let error = text.parse::<Queues>().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    for (text, part) in [
        ("0", "queues = 0: must be from 1 to 4096"),
        ("4:table=0/4", "queues table = 4: must be from 0 to 3"),
        ("2:shares=50%/60%", "sum of the queue shares = 1.1"),
        ("2:shares=100%", "queue shares = 1: must be one for each of 2"),
        ("4:cold=0.5", "queues cold = 0.5: must be a factor from 1"),
        ("4:nodes=5", "queues nodes = 5: must be from 1 to 4"),
        ("2:on=0", "queues on = 0: must be one core for each of 2 queues"),
        ("2:map=smt,on=0/0", "queues on = 0/0: goes with map=pairing or map=spread: leave out map=smt or on"),
        ("2:map=spread,on=1/1,transmit=1us", "queues on = 1/1: must name at least two cores with map=spread"),
        ("2:on=0/5000", "queues on = 5000: must be below 4096"),
    ] {
        let error = text.parse::<Queues>().unwrap().validate().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

/// Shares sum to 1, many flows use every queue of the default table, and few heavy flows skew the shares.
#[test]
fn flows_share_the_queues_out() {
    for count in [1, 2, 4, 16] {
        for (flows, skewed) in [("100000", false), ("20:zipf=1.5", count > 1)] {
            let point = point(&count.to_string(), Some(flows));
            let shares = shares(&point.host, &point.traffic);
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let most = shares.iter().copied().fold(0.0, f64::max) * f64::from(count);
            assert_eq!(most > 1.2, skewed, "{count} {flows}: {shares:?}");
        }
    }
}

#[test]
fn pairing_serves_both_ways_on_a_core_and_spread_on_two() {
    let paired = parts(&point("4:transmit=1us", None));
    assert_eq!(paired.len(), 4);
    assert!(paired.iter().all(|part| (part.host.protocol_s - 6.25e-6).abs() < 1e-12 && part.host.queues.is_none()));
    assert!(paired.iter().all(|part| part.load == Load::Pps(100e3)));
    let spread = parts(&point("2:map=spread,transmit=1us,cold=1.5", None));
    assert_eq!(spread.len(), 4);
    assert!(spread[..2].iter().all(|part| (part.host.protocol_s - 7.875e-6).abs() < 1e-12));
    assert!(spread[2..].iter().all(|part| (part.host.protocol_s - 1.5e-6).abs() < 1e-12));
    let remote = parts(&point("4:nodes=2,remote=2", None));
    assert_eq!(remote.iter().filter(|part| part.host.protocol_s > 6e-6).count(), 2);
}

/// Two SMT siblings with rate l and time c per packet are each busy b = l c (1 + (smt - 1) b): the fixed point is b = l
/// c / (1 - l c (smt - 1)).
#[test]
fn siblings_slow_each_other() {
    let found = evaluate(&point("2:map=smt,smt=1.4", None), &|_, part| Ok(all_served(&part.at_pps(100e3))), &|_| {
        unreachable!("no core is shared")
    })
    .unwrap();
    let own = 100e3 * Host::pentium4_2530mhz().service_s(64.0);
    let busy = 1.0 - found.cpu.unwrap().available.unwrap().value;
    assert!((busy - own / (1.0 - 0.4 * own)).abs() < 2e-4, "{busy}");
    assert_eq!(found.queues.len(), 2);
}

/// A queue's arrivals are of the same kind as the host's if that is exact; otherwise they are `thinned`.
#[test]
fn queues_get_thinned_streams() {
    let traffic = |arrivals: &str| Traffic { arrivals: arrivals.parse().unwrap(), ..Traffic::default() };
    let part = |arrivals: &str| {
        parts(&Point { traffic: traffic(arrivals), ..point("4", None) })[0].traffic.arrivals.to_string()
    };
    assert_eq!(part("poisson"), "poisson");
    assert_eq!(part("constant"), "thinned:0.25:constant");
    assert_eq!(part("mmpp:peak=4,busy=10%,stay=1ms"), "mmpp:peak=4,busy=10%,stay=1ms");
}

/// Queues on one core are evaluated together, others one by one, and the work of each core counts once.
#[test]
fn queues_on_one_core_are_asked_for_together() {
    let point = point("4:on=1/0/1/3,shares=40%/30%/20%/10%", None);
    let joint = |parts: &[(usize, Point)]| {
        assert_eq!(parts.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 2]);
        let rate: f64 = parts.iter().map(|(_, part)| part.rate_pps().unwrap()).sum();
        let all = parts[0].1.at_pps(rate);
        Ok(Together { core: all_served(&all), queues: parts.iter().map(|(_, part)| all_served(part)).collect() })
    };
    let found = evaluate(&point, &|_, part| Ok(all_served(part)), &joint).unwrap();
    assert!((found.throughput_pps.unwrap().value / 400e3 - 1.0).abs() < 1e-12);
    let busy = 1.0 - found.cpu.unwrap().available.unwrap().value;
    // Core 1 is overloaded; cores 0, 1 and 3 are used.
    let own = point.host.service_s(64.0);
    assert!((busy - (120e3 * own + 1.0 + 40e3 * own) / 3.0).abs() < 1e-12, "{busy}");
    assert_eq!(found.queues.iter().map(|queue| queue.core).collect::<Vec<_>>(), [1, 0, 1, 3]);
    assert!((imbalance(&found.queues).unwrap() - 1.6).abs() < 1e-12);
    assert_eq!(binding(&found.queues).unwrap().queue, 0);
}

/// Interrupt spread (Gasparakis and Waskiewicz 2010, figure 7) on four cores: each core receives for one queue and
/// processes the transmit completions of another, so that it has two vectors.
#[test]
fn spread_on_the_cores_that_there_are() {
    let point = point("4:map=spread,on=0/1/2/3,transmit=1us,cold=1.5", None);
    let queues = point.host.queues.as_ref().unwrap();
    assert!(queues.share_cores() && queues.cores() == 4);
    let joint = |parts: &[(usize, Point)]| {
        let protocol: Vec<f64> = parts.iter().map(|(_, part)| part.host.protocol_s * 1e6).collect();
        assert!((protocol[0] - 7.875).abs() < 1e-9 && (protocol[1] - 1.5).abs() < 1e-9, "{protocol:?}");
        // A tenth of the received packets is lost, so that nine tenths have completions.
        let queues: Vec<Outcome> = parts
            .iter()
            .map(|(number, part)| {
                let lost = if *number < 4 { 0.1 } else { 0.0 };
                let rate = part.rate_pps().unwrap() * (1.0 - lost);
                Outcome { throughput_pps: Some(rate.into()), loss_fraction: Some(lost.into()), ..all_served(part) }
            })
            .collect();
        Ok(Together { core: all_served(&parts[0].1), queues })
    };
    let found = evaluate(&point, &|_, _| unreachable!("every core is shared"), &joint).unwrap();
    let of =
        |role: Role| found.queues.iter().filter(|queue| queue.role == role).map(|queue| queue.core).collect::<Vec<_>>();
    assert_eq!((of(Role::Receive), of(Role::Transmit)), (vec![0, 1, 2, 3], vec![1, 0, 3, 2]));
    // Packets lost at reception count as lost; delivered packets are those whose transmission was completed.
    assert!((found.loss_fraction.unwrap().value - 0.1).abs() < 1e-12);
    assert!((found.throughput_pps.unwrap().value / 360e3 - 1.0).abs() < 2e-3, "{:?}", found.throughput_pps);
    assert_eq!(found.queues.len(), 8);
}
