//! Kernel counters of a running program: CPU time by thread, queue overflows of its network namespace, and its ports.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use netcliff_host::process::{ProcessId, numbers, scheduled};
use netcliff_host::softnet::{titled, valued};
use serde::{Deserialize, Serialize};

/// CPU time of the threads of several processes since their start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times {
    /// (CPU time (s), name) by thread.
    threads: BTreeMap<u32, (f64, String)>,
    /// Sum of CPU time in user mode (ticks).
    pub user_ticks: u64,
    /// Sum of CPU time in kernel mode (ticks).
    pub system_ticks: u64,
}

impl Times {
    /// Reads the present values. Threads that have ended are not included in the times by thread.
    pub fn of(processes: &[ProcessId]) -> Self {
        let mut times = Self::default();
        for process in processes {
            let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", process.pid)) else { continue };
            // proc_pid_stat(5): utime and stime are fields 14 and 15; the name in parentheses may contain any
            // character.
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
            times.user_ticks += ticks(11);
            times.system_ticks += ticks(12);
            let tasks = format!("/proc/{}/task", process.pid);
            for id in numbers(&tasks) {
                let Some(scheduled) = scheduled(process.pid, id) else { continue };
                let name = fs::read_to_string(format!("{tasks}/{id}/comm")).unwrap_or_default();
                times.threads.insert(id, (scheduled.ran_ns as f64 * 1e-9, name.trim().to_owned()));
            }
        }
        times
    }

    /// Number of threads.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// CPU time of all threads between this reading and `later` (s).
    pub fn used_until(&self, later: &Self) -> f64 {
        later.since(self).map(|(used_s, _)| used_s).sum()
    }

    /// (CPU time (s), name) of the thread that ran longest between this reading and `later`; `None` without threads.
    pub fn busiest_until(&self, later: &Self) -> Option<(f64, String)> {
        later.since(self).max_by(|a, b| a.0.total_cmp(&b.0))
    }

    fn since<'a>(&'a self, earlier: &'a Self) -> impl Iterator<Item = (f64, String)> + 'a {
        self.threads.iter().map(|(id, (seconds, name))| {
            let before = earlier.threads.get(id).map_or(0.0, |(seconds, _)| *seconds);
            ((seconds - before).max(0.0), name.clone())
        })
    }
}

/// Loss counters of a network namespace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetworkCounts {
    /// Datagrams dropped because a socket's receive buffer was full.
    pub full_sockets: u64,
    /// Connections dropped because the accept queue was full.
    pub full_accept_queues: u64,
}

impl NetworkCounts {
    /// Counters of the network namespace of a process; zeros if the kernel does not show them.
    pub fn of(pid: u32) -> Self {
        let udp =
            ["snmp", "snmp6"].map(|file| fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default());
        let tcp = fs::read_to_string(format!("/proc/{pid}/net/netstat")).unwrap_or_default();
        let [four, six] = [titled(&udp[0], "Udp:", "RcvbufErrors"), valued(&udp[1], "Udp6RcvbufErrors")];
        Self {
            full_sockets: four.unwrap_or(0) + six.unwrap_or(0),
            full_accept_queues: titled(&tcp, "TcpExt:", "ListenOverflows").unwrap_or(0),
        }
    }

    /// Increase of the counters between this reading and `later`.
    pub fn until(&self, later: &Self) -> Self {
        Self {
            full_sockets: later.full_sockets.saturating_sub(self.full_sockets),
            full_accept_queues: later.full_accept_queues.saturating_sub(self.full_accept_queues),
        }
    }
}

/// Ports of TCP and UDP on which programs listen in the network namespace of a process, in words.
pub fn listening(pid: u32) -> Vec<String> {
    let mut ports = Vec::new();
    for (file, transport, state) in
        [("tcp", "tcp", "0A"), ("tcp6", "tcp", "0A"), ("udp", "udp", "07"), ("udp6", "udp", "07")]
    {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{file}")).unwrap_or_default();
        for line in text.lines().skip(1) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (Some(local), Some(of)) = (fields.get(1), fields.get(3)) else { continue };
            if let Some(address) = address(local).filter(|_| *of == state) {
                ports.push(format!("{transport} {address}"));
            }
        }
    }
    ports.sort();
    ports.dedup();
    ports
}

/// Parses an address such as `0100007F:0035`: the IP address in 32-bit words of the host's byte order, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let word = |text: &str| u32::from_str_radix(text, 16).ok().map(u32::to_ne_bytes);
    let ip = match ip.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(ip)?)),
        32 => {
            let mut bytes = [0; 16];
            for (place, four) in bytes.chunks_mut(4).enumerate() {
                four.copy_from_slice(&word(&ip[8 * place..8 * place + 8])?);
            }
            IpAddr::V6(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn ports_that_are_listened_on_are_named() {
        let stream = TcpListener::bind("127.0.0.1:0").unwrap();
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        let ports = listening(std::process::id());
        let names =
            [format!("tcp {}", stream.local_addr().unwrap()), format!("udp {}", datagrams.local_addr().unwrap())];
        assert!(names.iter().all(|name| ports.contains(name)), "{names:?} {ports:?}");
    }

    #[test]
    fn counts_are_found_by_name() {
        let text = "Udp: InDatagrams NoPorts RcvbufErrors\nUdp: 5 6 7\n";
        assert_eq!((titled(text, "Udp:", "RcvbufErrors"), titled(text, "Udp:", "Nothing")), (Some(7), None));
    }

    #[test]
    fn a_thread_that_works_is_the_busiest() {
        let me = [ProcessId::current().unwrap()];
        let before = Times::of(&me);
        let worker = std::thread::Builder::new().name("busy-one".to_owned());
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stopped = std::sync::Arc::clone(&stop);
        let worker = worker
            .spawn(move || {
                while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(200));
        let (used_s, _) = before.busiest_until(&Times::of(&me)).unwrap();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        worker.join().unwrap();
        assert!(used_s > 0.02, "{used_s}");
    }
}
