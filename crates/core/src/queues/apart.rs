//! [`completions`]: where transmit completions go when a queue's two interrupts are to be on different cores (interrupt
//! spread, figure 7 of Gasparakis and Waskiewicz 2010), with as many cores as there are.

/// The CPU of each of `count` transmit queues, given those of the receive queues. Of the CPUs that do not receive for a queue
/// its completions go to the one with the fewest completions; of equals to the one with the fewest interrupts, then to one
/// of another core, then to the next in `order` after the queue's own. On the queue's own CPU only where `order` has one.
/// `order` must not be empty.
pub fn completions(order: &[u32], receive: &[u32], count: usize, core_of: impl Fn(u32) -> u32) -> Vec<u32> {
    let place = |cpu: u32| order.iter().position(|other| *other == cpu);
    let (mut completed, mut interrupts) = (vec![0_usize; order.len()], vec![0_usize; order.len()]);
    receive.iter().filter_map(|cpu| place(*cpu)).for_each(|at| interrupts[at] += 1);
    let mut chosen = Vec::with_capacity(count);
    for queue in 0..count {
        let own = receive.get(queue).copied();
        let start = own.and_then(place).map_or(0, |at| at + 1);
        let around = (start..start + order.len()).map(|at| at % order.len());
        let at = around.min_by_key(|at| {
            let cpu = order[*at];
            (own == Some(cpu), completed[*at], interrupts[*at], own.is_some_and(|own| core_of(own) == core_of(cpu)))
        });
        let at = at.unwrap_or_default();
        completed[at] += 1;
        interrupts[at] += 1;
        chosen.push(order[at]);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queues_interrupts_are_apart_with_any_number_of_cpus() {
        for cpus in 2..9_u32 {
            for queues in 1..20_usize {
                let order: Vec<u32> = (0..cpus).collect();
                let receive: Vec<u32> = (0..queues as u32).map(|queue| queue % cpus).collect();
                let transmit = completions(&order, &receive, queues, |cpu| cpu);
                assert!(receive.iter().zip(&transmit).all(|(a, b)| a != b), "{cpus} {queues}: {transmit:?}");
                let of = |cpu: &u32| receive.iter().chain(&transmit).filter(|other| *other == cpu).count();
                let loads: Vec<usize> = order.iter().map(of).collect();
                let apart = loads.iter().max().unwrap() - loads.iter().min().unwrap();
                assert!(apart <= 1, "{cpus} {queues}: {loads:?}");
            }
        }
        assert_eq!(completions(&[0, 1, 2, 3], &[0, 1, 2, 3], 4, |cpu| cpu), [1, 2, 3, 0]);
        assert_eq!(completions(&[7], &[7, 7], 2, |cpu| cpu), [7, 7]);
        // Four cores with a sibling each (n and n + 4): completions go to another core.
        let threads: Vec<u32> = (0..8).collect();
        assert_eq!(completions(&threads, &[0, 1, 2, 3], 4, |cpu| cpu % 4), [5, 4, 7, 6]);
    }
}
