//! How a lock comes to be held.

use super::fencing::Fence;
use super::ledger::Entry;
use super::locks::{Locks, NotALock, Standing, Turn};
use super::name::NameRef;
use super::time::Ms;
use super::waiter::Ticket;

/// A request for a lock.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who wants it.
    pub owner: &'a [u8],
    /// For how long, from the grant.
    pub ttl: Ms,
    /// Whether to wait for it.
    pub patience: Patience,
    /// The connection that asks.
    pub client: u64,
}

/// How long a request may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not at all.
    Try,
    /// Until then.
    Until(Ms),
    /// Until it is granted.
    Forever,
}

/// What came of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquired {
    /// The owner holds the lock, by this number.
    Held(Fence),
    /// Somebody else holds it, or comes first.
    Busy,
    /// It waits; this is its ticket. Its client must be blocked.
    Waiting(Ticket),
}

/// Who hears of a grant in the moment in which it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The owner: it is the answer to the command that is running.
    Told,
    /// Nobody as yet: a waiter has still to be answered.
    UnderWay,
}

impl Locks {
    /// `LOCK.ACQUIRE`.
    pub fn acquire(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        request: &Request<'_>,
    ) -> Result<Acquired, NotALock> {
        let others_wait = self.settle_line(turn, name);
        match turn.look(name) {
            Standing::NoLock => Err(NotALock),
            Standing::Held { owner, deadline } if owner == request.owner => Ok(Acquired::Held(
                self.hold_on(turn, name, request, deadline, News::Told),
            )),
            Standing::Free if !others_wait => {
                Ok(Acquired::Held(self.grant(turn, name, request, News::Told)))
            }
            Standing::Free => Ok(self.wait(turn.now, name, request)),
            Standing::Held { deadline, .. } => {
                let acquired = self.wait(turn.now, name, request);
                self.ring_after(name, deadline);
                Ok(acquired)
            }
        }
    }

    /// A new hold, over whatever was there.
    pub(super) fn grant(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        request: &Request<'_>,
        news: News,
    ) -> Fence {
        turn.keys
            .hold(name, request.owner, turn.now.plus(request.ttl));
        self.remember(turn, name, request, news)
    }

    /// The owner asks again for what it holds until `deadline`: the same number, and the later end.
    pub(super) fn hold_on(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        request: &Request<'_>,
        deadline: Option<Ms>,
        news: News,
    ) -> Fence {
        let wanted = turn.now.plus(request.ttl);
        if deadline.is_none_or(|deadline| deadline < wanted) {
            turn.keys.move_deadline(name, wanted);
            self.ring_after(name, Some(wanted));
        }
        match self.ledger(name.db).of(name.key, request.owner) {
            Some(entry) => {
                entry.hear(news);
                entry.fence
            }
            None => {
                // Not a grant of ours: whoever made it has told the owner.
                let fence = self.remember(turn, name, request, news);
                self.tell(name, request.owner);
                fence
            }
        }
    }

    /// Gives the hold its number.
    fn remember(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        request: &Request<'_>,
        news: News,
    ) -> Fence {
        let slot = self.clock.slot(name.key);
        let fence = (self.clock).next(slot, turn.now, || turn.keys.epoch(turn.now));
        let mut entry = Entry {
            fence,
            slot,
            since: turn.now.ms(),
            client: request.client,
            told: false,
            answers_under_way: 0,
        };
        entry.hear(news);
        self.ledger(name.db).write(name.key, request.owner, entry);
        fence
    }
}

impl Entry {
    fn hear(&mut self, news: News) {
        match news {
            News::Told => self.told = true,
            News::UnderWay => self.answers_under_way = self.answers_under_way.saturating_add(1),
        }
    }
}
