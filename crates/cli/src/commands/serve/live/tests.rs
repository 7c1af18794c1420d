use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use nix::sys::socket::{setsockopt, sockopt};

use super::super::{connections, router};
use super::*;

/// A reader of the stream.
fn reader(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).expect("a listener");
    write!(stream, "GET /api/watch HTTP/1.1\r\nHost: {address}\r\n\r\n").expect("a connection");
    stream
}

/// Waits until `so` is true, at most 20 s.
async fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A reader that takes nothing is dropped, and does not delay others. Samples are large here, so that the buffers of
/// its connection fill at once.
#[test]
fn an_idle_reader_is_dropped_and_holds_nobody_up() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let served = Arc::new(Served {
            store: "/nonexistent".into(),
            key: None,
            live: Live::default(),
            work: Default::default(),
        });
        let (sender, _) = broadcast::channel(BEHIND);
        *served.live.sender.lock().expect("unlocked") = Some(sender.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let app = router(&served);
        tokio::spawn(connections::serve(listener, Arc::clone(&served), app, 500, Arc::default()));

        let (idle, mut quick) = (reader(address), reader(address));
        let moment = Bytes::from(format!("data: {}\n\n", "x".repeat(128 << 10)));
        setsockopt(&idle, sockopt::RcvBuf, &4096).expect("a smaller buffer");
        quick.set_nonblocking(true).expect("a socket");
        until("both listen", || sender.receiver_count() == 2).await;
        let (mut taken, mut sent) = (0, 0);
        let mut buffer = vec![0; 1 << 20];
        let mut hear = |quick: &mut TcpStream| {
            while let Ok(count @ 1..) = quick.read(&mut buffer) {
                taken += count;
            }
            // Send the next sample only after the quick reader has taken the last one.
            if taken >= sent {
                sent += moment.len();
                let _ = sender.send(moment.clone());
            }
            sent
        };
        until("the idle one is dropped", || {
            hear(&mut quick);
            sender.receiver_count() == 1
        })
        .await;
        let before = hear(&mut quick);
        until("the quick one hears on", || hear(&mut quick) > before + 3 * moment.len()).await;
        drop(idle);
    });
}

/// Queued samples are stored once for all slow readers, at most [`BEHIND`] of them.
#[test]
fn who_falls_behind_ends_and_others_hear_all() {
    let (sender, slow) = broadcast::channel(BEHIND);
    let mut quick = sender.subscribe();
    for number in 0..3 * BEHIND {
        sender.send(Bytes::from(number.to_string())).expect("two listen");
        assert_eq!(quick.try_recv().expect("no moment is missing"), number.to_string());
    }
    assert_eq!(sender.len(), BEHIND);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let left = runtime.block_on(moments(slow).fold(0, |count, _| count + 1));
    assert_eq!(left, 0);
    assert_eq!((sender.receiver_count(), sender.len()), (1, 0));
}
