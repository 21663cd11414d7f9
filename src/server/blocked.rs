//! The clients that wait, as the server knows them.

use std::cell::{Cell, RefCell};
use std::ptr::null_mut;
use std::rc::Rc;

use super::ffi::api::{self, Blocked};
use super::waiting_name::LastWaitingName;
use crate::lock::{Asker, ByNumber, Ticket, WaitOutcome, give_back_room};
use crate::protocol::Reply;

/// A client that waits.
pub struct BlockedClient {
    pub handle: *mut Blocked,
    /// Its number.
    pub client: u64,
    /// The user that asks for the locks.
    pub asker: Rc<Asker>,
    /// How its outcome is put into a reply.
    pub in_words: fn(WaitOutcome<'_>) -> Reply,
    /// Has its client been told that it got nothing, without the core knowing?
    pub dismissed: Cell<bool>,
}

#[derive(Default)]
pub struct BlockedClients {
    clients: RefCell<ByNumber<BlockedClient>>,
    /// The name that waiters are blocked on.
    pub last_name: LastWaitingName,
}

impl BlockedClients {
    /// # Safety
    /// The client's handle must be good until it is removed.
    pub unsafe fn insert(&self, ticket: Ticket, client: BlockedClient) {
        self.clients.borrow_mut().insert(ticket, client);
    }

    /// A client has come to its end, unless that was known already.
    pub fn remove(&self, ticket: Ticket) -> Option<BlockedClient> {
        let mut clients = self.clients.borrow_mut();
        let gone = clients.remove(&ticket);
        give_back_room!(clients);
        gone
    }

    pub fn len(&self) -> usize {
        self.clients.borrow().len()
    }

    /// Reads something of a client that waits.
    pub fn get<T>(&self, ticket: Ticket, read: impl FnOnce(&BlockedClient) -> T) -> Option<T> {
        self.clients.borrow().get(&ticket).map(read)
    }

    /// Wakes a client whose reply is decided.
    pub fn wake(&self, ticket: Ticket) {
        if let Some(handle) = self.get(ticket, |client| client.handle) {
            // SAFETY: the handle is good while the client is here. If the server has ended the wait
            // already, nothing happens.
            unsafe { api::unblock_client(handle, null_mut()) };
        }
    }
}
