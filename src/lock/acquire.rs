//! How a lock comes to be held.

use super::circle::Circle;
use super::counts::count;
use super::fencing::Fence;
use super::fit::Fit;
use super::keyspace::Happening;
use super::ledger::Entry;
use super::locks::{Locks, NotALock};
use super::mode::{Hold, Mode};
use super::name::NameRef;
use super::standing::Turn;
use super::steps::TooLong;
use super::time::Ms;
use super::waiter::Ticket;

/// A request for a lock, or for several at once.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Who wants it.
    pub owner: &'a [u8],
    /// For how long, from the grant.
    pub ttl: Ms,
    /// Alone, or beside others.
    pub mode: Mode,
    /// Whether to wait for it.
    pub patience: Patience,
    /// The connection that asks.
    pub client: u64,
    /// Does the hold end with that connection?
    pub session: bool,
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
    /// Others hold it, or come first.
    Busy,
    /// It waits; this is its ticket. Its client must be blocked.
    Waiting(Ticket),
}

/// Why a request was refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key is no lock.
    NotALock(NotALock),
    /// It would wait for itself.
    Deadlock(Circle),
    /// Nobody can tell whether it would: too many wait for each other.
    TooComplex,
    /// There is no room for it in the queues.
    QueueFull,
    /// Its owner would stand in too many queues at once.
    TooManyQueues,
}

impl From<NotALock> for Refusal {
    fn from(fault: NotALock) -> Self {
        Self::NotALock(fault)
    }
}

impl From<TooLong> for Refusal {
    fn from(_: TooLong) -> Self {
        Self::TooComplex
    }
}

/// Who hears of a grant in the moment in which it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The owner: it is the answer to the command that is running.
    Told,
    /// Nobody as yet: a waiter has still to be answered.
    UnderWay,
}

impl Entry {
    fn hear(&mut self, news: News) {
        match news {
            News::Told => self.told = true,
            News::UnderWay => self.answers_under_way = self.answers_under_way.saturating_add(1),
        }
    }
}

impl Locks {
    /// `LOCK.ACQUIRE` and `LOCK.MACQUIRE`: all of these locks, each named once, or none.
    pub fn acquire(
        &mut self,
        turn: &mut Turn<'_>,
        names: &[NameRef<'_>],
        request: &Request<'_>,
    ) -> Result<Acquired, Refusal> {
        for &name in names {
            self.settle_line(turn, name);
        }
        if let &[name] = names {
            let in_turn = self.line(name).is_none();
            let fit = self.fit(turn, name, request, in_turn)?;
            return self.take_or_wait(turn, &[(name, fit)], request);
        }
        let mut fits = Vec::with_capacity(names.len());
        for &name in names {
            let in_turn = self.line(name).is_none();
            fits.push((name, self.fit(turn, name, request, in_turn)?));
        }
        self.take_or_wait(turn, &fits, request)
    }

    #[inline]
    fn take_or_wait(
        &mut self,
        turn: &mut Turn<'_>,
        fits: &[(NameRef<'_>, Fit)],
        request: &Request<'_>,
    ) -> Result<Acquired, Refusal> {
        if (fits.iter()).any(|(_, fit)| matches!(fit, Fit::Shut | Fit::Breaking)) {
            for &(name, fit) in fits {
                if fit == Fit::Shut {
                    self.adopt_orphan(turn, name);
                }
            }
            return self.wait(turn, fits, request);
        }
        let fence = self.take(turn, fits, request, News::Told);
        // Others of this owner may wait for what it has now, and the line's alarm may ring later.
        for &(name, _) in fits {
            self.settle_line(turn, name);
        }
        Ok(Acquired::Held(fence))
    }

    /// All of these locks are the owner's now: by the number that it has, if it holds them all by
    /// one already, and else by a new one.
    pub(super) fn take(
        &mut self,
        turn: &mut Turn<'_>,
        fits: &[(NameRef<'_>, Fit)],
        request: &Request<'_>,
        news: News,
    ) -> Fence {
        let known = self.one_number(fits, request.owner);
        if let (None, Some(&(name, _))) = (known, fits.first()) {
            self.enter_slot(turn, name);
        }
        let mut number = known;
        for &(name, fit) in fits {
            // A share that becomes more may stand beside others that are over.
            let is_upgrade = matches!(fit, Fit::Open { keeps: Some(_) });
            if is_upgrade || request.mode.hold() == Hold::Shared {
                self.make_room(turn, name);
            }
            let hold = self.write(turn, name, fit, request);
            let fence = *number.get_or_insert_with(|| self.clock.next(turn.now));
            if hold == Hold::Shared {
                self.shares_now(turn, name, request.owner);
            }
            if known.is_some() {
                let ledger = self.ledger(name.db);
                if let Some(mut entry) = ledger.of(name.key, request.owner, hold) {
                    entry.hear(news);
                    ledger.set(name.key, request.owner, hold, entry);
                }
                ledger.tie(
                    name.key,
                    request.owner,
                    hold,
                    request.client,
                    request.session,
                );
            } else {
                self.remember(turn, name, (fit, hold, fence), request, news);
            }
        }
        number.unwrap_or_default()
    }

    /// The number by which this owner holds all of these, if it does and the server knows it.
    fn one_number(&mut self, fits: &[(NameRef<'_>, Fit)], owner: &[u8]) -> Option<Fence> {
        let mut number = None;
        for &(name, fit) in fits {
            let Fit::Held { hold, .. } = fit else {
                return None;
            };
            let fence = self.ledger(name.db).of(name.key, owner, hold)?.fence?;
            if *number.get_or_insert(fence) != fence {
                return None;
            }
        }
        number
    }

    /// Gives a hold a new number.
    fn remember(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        (fit, hold, fence): (Fit, Hold, Fence),
        request: &Request<'_>,
        news: News,
    ) {
        let slot = self.clock.slot(name.key);
        let ledger = self.ledger(name.db);
        let before = match fit {
            Fit::Held { .. } => Some(ledger.of(name.key, request.owner, hold)),
            _ => None,
        };
        let mut entry = Entry {
            fence: Some(fence),
            first: fence,
            slot,
            since: turn.now.ms(),
            client: request.client,
            tied: request.session,
            breaking: false,
            told: false,
            answers_under_way: 0,
        };
        match before {
            // A new hold.
            None => {}
            // Not a grant of ours: whoever made it has told the owner.
            Some(None) => entry.told = true,
            // The hold goes on, and so does the news of it.
            Some(Some(before)) => {
                entry.first = before.fence.map_or(fence, |_| before.first);
                entry.breaking = before.breaking;
                entry.told = before.told;
                entry.answers_under_way = before.answers_under_way;
            }
        }
        entry.hear(news);
        let others = ledger.write(name.key, request.owner, hold, entry);
        match fit {
            Fit::Open { keeps: None } => {
                count(&mut self.counts.acquired, 1);
                // Others held it, and nobody has told us how that ended.
                self.have_expired(turn, name, others);
            }
            Fit::Open { keeps: Some(_) } => count(&mut self.counts.acquired, 1),
            _ => return,
        }
        turn.keys.mention(name, Happening::Acquired);
    }

    /// In a cluster: numbers depend on where the slot of the locks has been.
    fn enter_slot(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if let Some(slot) = self.clock.slot(name.key) {
            let epoch = turn.keys.epoch(turn.now);
            (self.clock).enter(slot, turn.now, epoch, || turn.keys.tenure(name));
        }
    }

    /// Writes what makes the lock the owner's, until the later of what it had and what it asks for,
    /// and says how it holds it then.
    fn write(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        fit: Fit,
        request: &Request<'_>,
    ) -> Hold {
        let wanted = turn.now.plus(request.ttl);
        match fit {
            Fit::Held { hold, until } => {
                let entry = self.ledger(name.db).of(name.key, request.owner, hold);
                let breaking = entry.is_some_and(|entry| entry.breaking);
                if !breaking && until.is_none_or(|until| until < wanted) {
                    prolong(turn, name, request.owner, hold, wanted);
                }
                hold
            }
            Fit::Open { keeps } => {
                let kept = keeps.and_then(|share| share.deadline).unwrap_or_default();
                let (hold, deadline) = (request.mode.hold(), wanted.max(kept));
                match hold {
                    Hold::Exclusive => turn.keys.hold(name, request.owner, deadline),
                    Hold::Shared => turn.keys.share(name, request.owner, deadline),
                }
                hold
            }
            // Nobody who has to wait comes here.
            Fit::Shut | Fit::Breaking => request.mode.hold(),
        }
    }
}

/// Moves the end of a hold.
pub(super) fn prolong(
    turn: &mut Turn<'_>,
    name: NameRef<'_>,
    owner: &[u8],
    hold: Hold,
    deadline: Ms,
) {
    match hold {
        Hold::Exclusive => turn.keys.move_deadline(name, deadline),
        Hold::Shared => turn.keys.share(name, owner, deadline),
    }
}
