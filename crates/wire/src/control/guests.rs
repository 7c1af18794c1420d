//! Who is at an agent: clients that have proved themselves, and strangers that have not yet.
//!
//! Where strangers are too many, the host that has most of them loses the one that came first: who fills all seats loses its own, however
//! fast it comes back, and other hosts keep theirs.

use std::collections::VecDeque;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Limits;
use crate::pending::{first_of_the_most, source_of};

/// All of them.
#[derive(Default)]
pub(super) struct Guests(Mutex<Books>);

#[derive(Default)]
struct Books {
    clients: usize,
    /// Who came first is first.
    strangers: VecDeque<Stranger>,
    next: u64,
}

struct Stranger {
    number: u64,
    source: IpAddr,
    /// To send it away.
    stream: TcpStream,
}

/// A guest's place, given back on drop.
pub(super) struct Seat {
    guests: Arc<Guests>,
    number: u64,
    is_client: bool,
}

impl Guests {
    /// A seat for who has come by this connection; None where clients have them all. Where strangers do, one of them has to go: who keeps
    /// silent keeps nobody out.
    pub(super) fn seat(guests: &Arc<Self>, limits: &Limits, stream: &TcpStream) -> Option<Seat> {
        let source = source_of(stream.peer_addr().ok()?.ip());
        let stream = stream.try_clone().ok()?;
        let mut books = guests.books();
        let (strangers, all) = (books.strangers.len(), books.strangers.len() + books.clients);
        if strangers >= limits.handshakes || all >= limits.connections {
            // It may have gone already. Its thread hears it, and gives up its seat.
            let place = first_of_the_most(books.strangers.iter().map(|stranger| stranger.source))?;
            let _ = books.strangers.remove(place)?.stream.shutdown(Shutdown::Both);
        }
        let number = books.next;
        books.next += 1;
        books.strangers.push_back(Stranger { number, source, stream });
        drop(books);
        Some(Seat { guests: Arc::clone(guests), number, is_client: false })
    }

    /// Nobody is let in any more.
    pub(super) fn send_strangers_away(&self) {
        for stranger in &self.books().strangers {
            // It may have gone already.
            let _ = stranger.stream.shutdown(Shutdown::Both);
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// It has proved itself, unless it was sent away just before.
    pub(super) fn authenticated(&mut self) {
        let mut books = self.guests.books();
        if books.leave(self.number) {
            books.clients += 1;
            drop(books);
            self.is_client = true;
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut books = self.guests.books();
        if self.is_client {
            books.clients -= 1;
        } else {
            books.leave(self.number);
        }
    }
}

impl Books {
    /// A stranger is one no more; false: it was none.
    fn leave(&mut self, number: u64) -> bool {
        let place = self.strangers.iter().position(|stranger| stranger.number == number);
        place.and_then(|place| self.strangers.remove(place)).is_some()
    }
}
