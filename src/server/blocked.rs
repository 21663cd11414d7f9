//! The clients that wait, as the server knows them.

use std::cell::{Cell, RefCell};
use std::ptr::null_mut;
use std::rc::Rc;

use crate::lock::{ByTicket, Name, Ticket, WaitOutcome, give_back_room};
use crate::protocol::Reply;

use super::command::rights::{Asker, Phrases};
use super::ffi::api::{self, Blocked};
use super::ffi::text::Said;

/// A client that waits.
pub struct BlockedClient {
    handle: *mut Blocked,
    /// Its number.
    pub client: u64,
    /// Who asks for the locks, if the server knows.
    asker: Option<Asker>,
    in_words: fn(WaitOutcome<'_>) -> Reply,
    /// Has its client been told that it got nothing, without the core knowing?
    sent_off: Cell<bool>,
}

impl BlockedClient {
    /// The client of this number has been blocked.
    ///
    /// # Safety
    /// The handle must be good until the client is removed from [`BlockedClients`].
    pub unsafe fn new(
        handle: *mut Blocked,
        client: u64,
        asker: Option<Asker>,
        in_words: fn(WaitOutcome<'_>) -> Reply,
    ) -> Self {
        Self {
            handle,
            client,
            asker,
            in_words,
            sent_off: Cell::new(false),
        }
    }

    /// Was it told that it got nothing, without the core knowing?
    pub fn was_sent_off(&self) -> bool {
        self.sent_off.get()
    }
}

/// All clients that wait.
#[derive(Default)]
pub struct BlockedClients(RefCell<ByTicket<BlockedClient>>);

impl BlockedClients {
    /// One more.
    pub fn insert(&self, ticket: Ticket, client: BlockedClient) {
        self.0.borrow_mut().insert(ticket, client);
    }

    /// One less, if it is there.
    pub fn remove(&self, ticket: Ticket) -> Option<BlockedClient> {
        let mut clients = self.0.borrow_mut();
        let gone = clients.remove(&ticket);
        give_back_room(&mut *clients);
        gone
    }

    /// Does nobody wait?
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Wakes a client whose reply is decided.
    pub fn wake(&self, ticket: Ticket) {
        let handle = self.0.borrow().get(&ticket).map(|client| client.handle);
        if let Some(handle) = handle {
            // SAFETY: the handle is good while the client is here. If the server has ended the wait
            // already, nothing happens.
            unsafe { api::unblock_client(handle, null_mut()) };
        }
    }

    /// How this client is told something.
    pub fn in_words(&self, ticket: Ticket) -> Option<fn(WaitOutcome<'_>) -> Reply> {
        self.0.borrow().get(&ticket).map(|client| client.in_words)
    }

    /// This client is told that it gets nothing, and the core does not know.
    pub fn send_off(&self, ticket: Ticket) {
        if let Some(client) = self.0.borrow().get(&ticket) {
            client.sent_off.set(true);
        }
    }

    /// May this client have these locks no more? Then what the server says to that.
    pub fn denial(
        &self,
        ticket: Ticket,
        phrases: &Phrases,
        said: Said<'_>,
        names: &[Name],
    ) -> Option<Rc<str>> {
        let clients = self.0.borrow();
        let asker = clients.get(&ticket)?.asker.as_ref()?;
        asker.denial(phrases, said, names)
    }
}
