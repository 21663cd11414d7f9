//! What may befall a client that waits, and how it is replied to.

use super::*;

impl Server {
    pub fn waiting(&self) -> Vec<Ticket> {
        self.blocked.keys().copied().collect()
    }

    /// Those of them who are about to be replied to.
    pub fn woken(&self) -> Vec<Ticket> {
        self.woken.iter().copied().collect()
    }

    /// Those of them who have not been replied to yet.
    pub fn untold(&self) -> Vec<Ticket> {
        let woken = self.woken.iter().copied();
        woken.filter(|&ticket| self.is_blocked(ticket)).collect()
    }

    /// The connection by which it waits.
    pub fn client_of(&self, ticket: Ticket) -> Option<u64> {
        self.blocked.get(&ticket).map(|blocked| blocked.client)
    }

    /// Its user loses the right to what it waits for.
    pub fn bar(&mut self, ticket: Ticket) {
        self.keys.barred.insert(ticket);
    }

    /// Its connection closes.
    pub fn kill(&mut self, ticket: Ticket) {
        if let Some(client) = self.client_of(ticket) {
            self.close(client);
        }
    }

    /// Its connection is closed at the end of the turn, whatever it has been told by then.
    pub fn doom(&mut self, ticket: Ticket) {
        self.doomed.extend(self.client_of(ticket));
    }

    /// A connection closes. The server says so first, and then ends its wait, if it has one.
    pub fn close(&mut self, client: u64) {
        self.says_closed(client);
        self.end_waits_of(client);
    }

    pub fn says_closed(&mut self, client: u64) {
        if !self.ending.is_empty() {
            self.lost.insert(client);
        }
        self.locks.outcomes().closed(client);
        self.happened.closed.push(client);
    }

    pub fn end_waits_of(&mut self, client: u64) {
        let waits = |&(_, blocked): &(&Ticket, &Blocked)| blocked.client == client;
        let waits = self.blocked.iter().filter(waits);
        for ticket in waits.map(|(&ticket, _)| ticket).collect::<Vec<_>>() {
            self.end(ticket, true, false);
        }
    }

    /// `CLIENT UNBLOCK id TIMEOUT`. Nothing comes of it if the client is about to be replied to.
    pub fn unblock(&mut self, ticket: Ticket) {
        if self.blocked.contains_key(&ticket) && !self.woken.contains(&ticket) {
            self.ask(ticket);
            self.end(ticket, true, true);
        }
    }

    /// `CLIENT UNBLOCK id ERROR`, or a redirection to another server.
    pub fn unblock_by_error(&mut self, ticket: Ticket) {
        if let Some(blocked) = self.blocked.get_mut(&ticket) {
            if self.flavour.answers != Answers::Straight {
                blocked.answer = None;
            }
            self.end(ticket, true, true);
        }
    }

    /// Tells what there is to tell, and wakes those whose answer stands.
    pub(super) fn answer(&mut self) {
        while let Some(ticket) = self.locks.outbox.next_to_reply() {
            // Of many who are decided at once some may go before the server comes to their replies.
            if self.locks.waiting.waits.is_replaced(ticket) {
                self.happened.replaced.push(ticket);
            } else if let Some((_, waiter)) = self.locks.waiting.waits.wait_of_client(ticket) {
                self.happened.decided.push((ticket, waiter.state));
            } else {
                continue;
            }
            match self.blocked.get_mut(&ticket) {
                Some(_) if self.woken.insert(ticket) => {}
                _ => self.offence("one that does not wait was to be woken"),
            }
            if self.flavour.answers != Answers::Late {
                self.ask(ticket);
            }
        }
    }

    /// The server asks for a client's answer.
    pub(super) fn ask(&mut self, ticket: Ticket) {
        let answer = self.locks.outcomes().outcome(ticket, false).map(Reply::from);
        if answer.is_none() {
            self.offence("no answer for a client that was told nothing");
        }
        if self.locks.outcomes().outcome(ticket, false).is_some() {
            self.offence("a second answer for a client");
        }
        if let Some(blocked) = self.blocked.get_mut(&ticket) {
            blocked.answer = answer;
        }
    }

    pub(super) fn end(&mut self, ticket: Ticket, cut_off: bool, client_lives: bool) {
        let Some(blocked) = self.blocked.remove(&ticket) else {
            return;
        };
        self.woken.remove(&ticket);
        if client_lives && !cut_off && blocked.answer.is_none() {
            self.offence("a client was woken and told nothing");
        }
        let unconfirmed = self.locks.offers.unconfirmed.len();
        self.locks.outcomes().ended(
            ticket,
            End { cut_off, client_lives, replies_stay: self.flavour.answers == Answers::Straight },
        );
        if self.locks.offers.unconfirmed.len() > unconfirmed {
            self.ending.push((ticket, blocked));
        } else {
            self.ended(ticket, blocked.answer.filter(|_| client_lives));
        }
    }

    /// A waiter has come to its end, and its client has been told this.
    pub(super) fn ended(&mut self, ticket: Ticket, told: Option<Reply>) {
        let heard = matches!(told, Some(Reply::Granted(..)));
        self.happened.ended.push((ticket, heard));
        self.replies.extend(told.map(|told| (ticket, told)));
    }

    /// Blocked, and not replied.
    pub(super) fn is_blocked(&self, ticket: Ticket) -> bool {
        self.blocked.get(&ticket).is_some_and(|blocked| blocked.answer.is_none())
    }
}
