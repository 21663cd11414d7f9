//! Who shares a lock, where these are a crowd.

use super::crowd::{Survey, portion};
use super::keyspace::Share;
use super::ledger::token::Token;
use super::locks::Locks;
use super::name::NameRef;
use super::queue::holders::Holders;
use super::request::Hold;
use super::state::Turn;
use super::time::{Now, is_over};
use std::rc::Rc;

impl Locks {
    /// Does this owner hold a lock that others wait for, as far as is known?
    pub(super) fn holds(
        &self,
        name: NameRef<'_>,
        holders: &Holders,
        owner: &[u8],
        now: Now,
    ) -> bool {
        match holders {
            Holders::Crowd(crowd) => {
                crowd.lasts(now)
                    && (self.databases.get(name.db))
                        .is_some_and(|database| database.ledger.has_share(name.key, owner, now))
            }
            _ => holders.include(owner, now),
        }
    }

    /// Those of the holders of a lock that wait for something.
    pub(super) fn waiting_among<'a>(
        &'a self,
        name: NameRef<'_>,
        holders: &'a Holders,
        now: Now,
    ) -> Vec<&'a Rc<[u8]>> {
        // Whichever are fewer are walked through.
        if holders.len() <= self.waits.by_owner.len() && !holders.are_crowd() {
            let waiting = (holders.iter(now)).filter(|holder| self.does_wait(holder));
            waiting.collect()
        } else {
            let holding =
                (self.owners_that_wait()).filter(|owner| self.holds(name, holders, owner, now));
            holding.collect()
        }
    }

    /// Does this owner hold a lock that others wait for?
    pub(super) fn is_in_anyones_way(&self, owner: &[u8], now: Now) -> bool {
        self.waited_for.contains_key(owner)
            || self.crowds.iter().any(|name| {
                let queue = self.queue_of(name.borrow());
                queue.is_some_and(|queue| self.holds(name.borrow(), &queue.holders, owner, now))
            })
    }

    /// Something has happened to this key that we have not done.
    pub(super) fn survey_again(&mut self, name: NameRef<'_>) {
        let ledger = self.databases.get_mut(name.db).map(|one| &mut one.ledger);
        if let Some(ledger) = ledger {
            ledger.survey_again(name.key);
        }
    }

    /// If those who share this lock are a crowd: has this owner, who is remembered as one of them, been taken
    /// out of it since?
    pub(super) fn has_left_crowd(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> bool {
        let is_crowd = (self.queue(name)).is_some_and(|queue| queue.holders.are_crowd());
        if !is_crowd
            || !self.is_in_step(turn.now, name)
            || turn.keys.share_of(name, owner).is_some()
        {
            return false;
        }
        let Some(entry) = self.ledger(name.db).of(name.key, owner, Hold::Shared) else {
            return false;
        };
        self.share_is_gone(turn, name, owner);
        self.shares_lost(name, &[(Token::from(owner), entry)], turn.now);
        true
    }

    /// If those who share this lock are a crowd: brings what is remembered of them into step with the
    /// key, as far as that is done at once. Is that all? Some of them may wait for the lock: they have
    /// come to share it by another's hand.
    pub(super) fn see_to_crowd(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> bool {
        if !(self.queue(name)).is_some_and(|queue| queue.holders.are_crowd()) {
            return true;
        }
        // Until they are in step, another end than is remembered is that of the wall clock before it was
        // stepped, and some may be missing that are to be written again.
        if !self.is_in_step(turn.now, name) {
            return false;
        }
        let next = match self.ledger(name.db).survey_of(name.key) {
            Survey::Done => return true,
            Survey::Due => self.survey_members(turn, name, 0),
            Survey::OfMembers(from) => self.survey_members(turn, name, from),
            Survey::OfEntries(left) => self.survey_entries(turn, name, left),
        };
        if let Some(survey) = self.ledger(name.db).survey(name.key) {
            *survey = next;
        }
        next == Survey::Done
    }

    fn survey_members(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, from: u64) -> Survey {
        let (owners, next) = some_of(turn, name, from);
        for owner in owners {
            let Some(Share { deadline }) = turn.keys.share_of(name, &owner) else {
                continue;
            };
            match self.ledger(name.db).of(name.key, &owner, Hold::Shared) {
                None if is_over(deadline, turn.now) => {}
                None => self.get_to_know(turn, name, &owner, Hold::Shared),
                Some(entry) if entry.end != deadline => {
                    self.ledger(name.db)
                        .set_end(name.key, &owner, deadline, true);
                }
                Some(_) => {}
            }
            if self.does_wait(&owner) {
                turn.settling.joined(name.keep(), Rc::from(owner));
            }
        }
        match next {
            0 => Survey::OfEntries(self.ledger(name.db).count_shares(name.key)),
            next => Survey::OfMembers(next),
        }
    }

    fn survey_entries(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, left: usize) -> Survey {
        let few = left.min(portion());
        let is_there = &mut |owner: &[u8]| turn.keys.share_of(name, owner).is_some();
        let gone = self.ledger(name.db).weed_some(name.key, few, is_there);
        self.shares_lost(name, &gone, turn.now);
        match left.saturating_sub(few) {
            0 => Survey::Done,
            left => Survey::OfEntries(left),
        }
    }
}

/// Some of those who share a lock, from this place on, and where to go on; 0 at the end.
pub(super) fn some_of(turn: &mut Turn<'_>, name: NameRef<'_>, from: u64) -> (Vec<Box<[u8]>>, u64) {
    let mut owners: Vec<Box<[u8]>> = Vec::new();
    let mut at = from;
    loop {
        at = (turn.keys).some_shares(name, at, portion(), &mut |owner| {
            owners.push(Box::from(owner));
        });
        // A server may give fewer than it is asked for, and none.
        if at == 0 || owners.len() >= portion() / 2 {
            return (owners, at);
        }
    }
}
