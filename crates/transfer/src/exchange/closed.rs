//! The closed loop: each answer triggers the next request.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use super::connect::greeting;
use super::flow::{Flow, number};
use super::socket::{Got, Socket};
use netcliff_packets::clock;
use netcliff_remote::control::key::Token;

/// Why a flow ended early, as a message. `None` if it did not.
type Ended = Option<String>;

/// Runs a flow on a stream with `depth` requests under way. Answers come in the order of their requests.
pub(super) fn stream(flow: &mut Flow<'_>, socket: &Socket) -> Ended {
    let (response, depth) = (flow.settings.response_bytes, flow.settings.depth as usize);
    let request = vec![0x5a; flow.settings.request_bytes];
    let timeout_ns = flow.timeout().as_nanos() as u64;
    let mut sent_ns: VecDeque<u64> = VecDeque::with_capacity(depth);
    let mut buffer = vec![0; response.max(64 << 10)];
    let mut have = 0;
    loop {
        while sent_ns.len() < depth {
            sent_ns.push_back(clock::monotonic_ns());
            match socket.send(&request) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => return Some(broken("a request", &e)),
            }
        }
        let got = socket.recv(&mut buffer[have..]);
        let now_ns = clock::monotonic_ns();
        flow.pass(now_ns);
        if socket.stopped() || now_ns >= flow.window.closes_ns {
            return None;
        }
        match got {
            Ok(Got::Bytes(bytes)) => have += bytes,
            Ok(Got::Nothing) if now_ns - sent_ns.front().copied().unwrap_or(now_ns) > timeout_ns => {
                flow.counts.timeouts += 1;
                return Some(format!("a request had no answer for {} s", flow.settings.timeout_s));
            }
            Ok(Got::Nothing) => {}
            Ok(Got::End) => return Some("the far end closed the connection".into()),
            Err(e) => return Some(broken("a response", &e)),
        }
        let mut taken = 0;
        while have - taken >= response {
            let Some(began_ns) = sent_ns.pop_front() else {
                return Some("the far end sent an answer to no request".into());
            };
            if flow.window.holds(now_ns) {
                flow.count(began_ns, now_ns);
                flow.one_way(&buffer[taken..taken + response], began_ns, now_ns);
            }
            taken += response;
        }
        buffer.copy_within(taken..have, 0);
        have -= taken;
    }
}

/// Runs a flow of datagrams with `depth` requests under way. Each may be lost, or be answered after it was given up.
pub(super) fn datagrams(flow: &mut Flow<'_>, socket: &Socket) -> Ended {
    let (response, depth) = (flow.settings.response_bytes, flow.settings.depth as usize);
    let mut request = vec![0x5a; flow.settings.request_bytes];
    let mut buffer = vec![0; response.max(64)];
    let timeout_ns = flow.timeout().as_nanos() as u64;
    let mut waiting: VecDeque<(u64, u64)> = VecDeque::with_capacity(depth);
    let mut sequence = 0u64;
    loop {
        while waiting.len() < depth {
            request[..8].copy_from_slice(&sequence.to_le_bytes());
            waiting.push_back((sequence, clock::monotonic_ns()));
            sequence += 1;
            match socket.send(&request) {
                Ok(true) => {}
                Ok(false) => return None,
                Err(e) => return Some(broken("a request", &e)),
            }
        }
        let got = socket.recv(&mut buffer);
        let now_ns = clock::monotonic_ns();
        flow.pass(now_ns);
        if socket.stopped() || now_ns >= flow.window.closes_ns {
            return None;
        }
        match got {
            Ok(Got::Bytes(bytes)) if bytes == response => {
                let answered = number(&buffer);
                match waiting.iter().position(|(sequence, _)| *sequence == answered) {
                    Some(place) => {
                        let (_, began_ns) = waiting.remove(place).unwrap_or_default();
                        if flow.window.holds(now_ns) {
                            flow.count(began_ns, now_ns);
                            flow.one_way(&buffer[..bytes], began_ns, now_ns);
                        }
                    }
                    None => flow.counts.late_answers += u64::from(flow.window.holds(now_ns)),
                }
            }
            // A datagram of another size is a second reply to the proof.
            Ok(_) => {}
            Err(e) => return Some(broken("a response", &e)),
        }
        while waiting.front().is_some_and(|(_, sent_ns)| now_ns - sent_ns > timeout_ns) {
            waiting.pop_front();
            flow.counts.timeouts += u64::from(flow.window.holds(now_ns));
        }
    }
}

/// Runs a flow that opens a connection for each transaction.
pub(super) fn connections(
    flow: &mut Flow<'_>,
    (address, number): (SocketAddr, u32),
    token: &Token,
    stopped: &dyn Fn() -> bool,
) -> Ended {
    let mut request = vec![0x5a; Token::PROOF_BYTES + flow.settings.request_bytes];
    let mut response = vec![0; flow.settings.response_bytes];
    for connection in 0.. {
        // The proof is computed before the time starts: it is not part of the transaction.
        request[..Token::PROOF_BYTES].copy_from_slice(&greeting(token, number, connection));
        let began_ns = clock::monotonic_ns();
        flow.pass(began_ns);
        if stopped() || began_ns >= flow.window.closes_ns {
            return None;
        }
        let done = transaction(address, &request, &mut response, flow.timeout());
        let now_ns = clock::monotonic_ns();
        match done {
            Ok(()) if flow.window.holds(now_ns) => {
                flow.count(began_ns, now_ns);
                // The one-way time starts before the connection: opening it is part of the request.
                flow.one_way(&response, began_ns, now_ns);
            }
            Ok(()) => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                flow.counts.timeouts += u64::from(flow.window.holds(now_ns));
            }
            Err(e) => return Some(broken(&format!("a transaction with {address}"), &e)),
        }
    }
    None
}

fn transaction(address: SocketAddr, request: &[u8], response: &mut [u8], timeout: Duration) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, timeout)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.write_all(request)?;
    stream.read_exact(response)?;
    reset_on_close(&stream)
}

/// Closes the socket by a reset. Otherwise each transaction would leave a TIME_WAIT entry for a minute, and a host has
/// only 28 000 ports.
fn reset_on_close(stream: &TcpStream) -> io::Result<()> {
    let linger = libc::linger { l_onoff: 1, l_linger: 0 };
    // SAFETY: the descriptor is open, and the value is a linger of the length given that outlives the call.
    let done = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size_of::<libc::linger>() as libc::socklen_t,
        )
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn broken(what: &str, error: &io::Error) -> String {
    format!("{what} failed: {error}")
}
