//! Connections to an agent: authenticated clients, and pending ones that have not proved their key yet.
//!
//! If too many connections are pending, the source address that has the most of them loses its oldest connection. So a
//! source that fills the table only loses its own connections, however fast it reconnects.

use std::collections::VecDeque;
use std::net::{IpAddr, Shutdown, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Limits;
use crate::pending::{first_of_the_most, source_of};

/// All connections to one agent.
#[derive(Default)]
pub(super) struct ConnectionTable(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    clients: usize,
    /// Pending connections, the oldest first.
    pending: VecDeque<PendingConnection>,
    next: u64,
}

struct PendingConnection {
    number: u64,
    source: IpAddr,
    /// Used to close the connection from another thread.
    stream: TcpStream,
}

/// A connection's slot in the table, freed on drop.
pub(super) struct ConnectionSlot {
    table: Arc<ConnectionTable>,
    number: u64,
    is_client: bool,
}

impl ConnectionTable {
    /// Reserves a slot for a new connection. `None` if authenticated clients hold all slots. If pending connections
    /// hold them, one of these is closed: a silent peer cannot keep others out.
    pub(super) fn slot(table: &Arc<Self>, limits: &Limits, stream: &TcpStream) -> Option<ConnectionSlot> {
        let source = source_of(stream.peer_addr().ok()?.ip());
        let stream = stream.try_clone().ok()?;
        let mut entries = table.entries();
        let (pending, all) = (entries.pending.len(), entries.pending.len() + entries.clients);
        if pending >= limits.handshakes || all >= limits.connections {
            // The connection may be closed already. Its thread notices, and frees its slot.
            let place = first_of_the_most(entries.pending.iter().map(|pending| pending.source))?;
            let _ = entries.pending.remove(place)?.stream.shutdown(Shutdown::Both);
        }
        let number = entries.next;
        entries.next += 1;
        entries.pending.push_back(PendingConnection { number, source, stream });
        drop(entries);
        Some(ConnectionSlot { table: Arc::clone(table), number, is_client: false })
    }

    /// Closes all pending connections. Called when the agent accepts no more.
    pub(super) fn close_pending(&self) {
        for pending in &self.entries().pending {
            // The connection may be closed already.
            let _ = pending.stream.shutdown(Shutdown::Both);
        }
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionSlot {
    /// Records that the peer has proved its key. Returns the number of clients, this one included. `None` if its
    /// connection was closed just before.
    pub(super) fn authenticated(&mut self) -> Option<usize> {
        let mut entries = self.table.entries();
        if !entries.remove_pending(self.number) {
            return None;
        }
        entries.clients += 1;
        let clients = entries.clients;
        drop(entries);
        self.is_client = true;
        Some(clients)
    }

    /// Frees the slot. Returns true if it belonged to a client.
    pub(super) fn leave(&mut self) -> bool {
        let was_client = std::mem::take(&mut self.is_client);
        if was_client {
            self.table.entries().clients -= 1;
        }
        was_client
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        if !self.leave() {
            self.table.entries().remove_pending(self.number);
        }
    }
}

impl Entries {
    /// Removes a pending connection. Returns false if there is none of this number.
    fn remove_pending(&mut self, number: u64) -> bool {
        let place = self.pending.iter().position(|pending| pending.number == number);
        place.and_then(|place| self.pending.remove(place)).is_some()
    }
}
