//! [`completions`]: cores for transmit completions if a queue's two interrupts must be on different cores (interrupt
//! spread, figure 7 of Gasparakis and Waskiewicz 2010), for any number of cores.

/// Chooses the CPU of each of `count` transmit queues. `receive`: CPUs of the receive queues; `order`: CPUs to use in
/// turn (not empty); queue n starts with the CPU at position n + number of receive queues, counted in a circle.
/// `core_of`: core of a CPU. Then exchanges CPUs so that, if possible, no queue has both interrupts on one CPU, nor on
/// two threads of one core. A queue has both on one CPU only if `order` has only one CPU.
pub fn completions(order: &[u32], receive: &[u32], count: usize, core_of: impl Fn(u32) -> u32) -> Vec<u32> {
    let mut chosen: Vec<u32> = (0..count).map(|queue| order[(receive.len() + queue) % order.len()]).collect();
    let shared = |queue: usize, cpu: u32| match receive.get(queue) {
        Some(own) if *own == cpu => SAME_CPU,
        Some(own) if core_of(*own) == core_of(cpu) => SAME_CORE,
        _ => 0,
    };
    for queue in 0..count {
        let gain = |other: &usize| {
            let (here, there) = (chosen[queue], chosen[*other]);
            let before = shared(queue, here) + shared(*other, there);
            before - shared(queue, there) - shared(*other, here)
        };
        if shared(queue, chosen[queue]) == 0 {
            continue;
        }
        // The first of the exchanges with the largest gain.
        let best = (0..count)
            .map(|other| (gain(&other), other))
            .max_by_key(|(gain, other)| (*gain, std::cmp::Reverse(*other)));
        if let Some((_, other)) = best.filter(|(gain, _)| *gain > 0) {
            chosen.swap(queue, other);
        }
    }
    // If most queues receive on one CPU, exchanges cannot separate all: such a queue gets the least used other CPU.
    for queue in 0..count {
        if shared(queue, chosen[queue]) == SAME_CPU {
            let others = order.iter().filter(|cpu| receive.get(queue) != Some(*cpu));
            let least = others.min_by_key(|cpu| chosen.iter().filter(|taken| taken == cpu).count());
            chosen[queue] = least.copied().unwrap_or(chosen[queue]);
        }
    }
    chosen
}

/// Penalty of a queue that receives and completes on one CPU, and on two threads of one core.
const SAME_CPU: i32 = 4;
const SAME_CORE: i32 = 1;

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
        assert_eq!(completions(&[0, 1, 2, 3], &[0, 1, 2, 3], 4, |cpu| cpu), [1, 0, 3, 2]);
        // Two queues per CPU; then three queues on one CPU.
        assert_eq!(completions(&[0, 1], &[0, 0, 1, 1], 4, |cpu| cpu), [1, 1, 0, 0]);
        assert_eq!(completions(&[0, 1], &[0, 0, 0, 1], 4, |cpu| cpu), [1, 1, 1, 0]);
        assert_eq!(completions(&[7], &[7, 7], 2, |cpu| cpu), [7, 7]);
        // Four cores with two threads each (n and n + 4): completions go to another core.
        let threads: Vec<u32> = (0..8).collect();
        assert_eq!(completions(&threads, &[0, 1, 2, 3], 4, |cpu| cpu % 4), [5, 4, 7, 6]);
    }
}
