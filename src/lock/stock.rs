//! What a line knows of its lock: who holds it, and when to look again.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::holders::Holders;
use super::keyspace::Stored;
use super::locks::Locks;
use super::name::NameRef;
use super::settle::after;
use super::standing::{Standing, Turn};
use super::time::is_over;

impl Locks {
    /// Looks at a lock that has a line, writes down who holds it, and sets the alarm for when that
    /// may change by itself; unless it is set for what could not be done at once.
    pub(super) fn take_stock(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        if self.line(name).is_none() {
            return;
        }
        let alarm = match turn.look(name) {
            Standing::Free | Standing::NoLock => {
                self.set_holders(name, Holders::Nobody);
                None
            }
            Standing::Exclusive { owner, deadline } => {
                self.set_holder(name, owner, deadline);
                after(deadline)
            }
            Standing::Shared { first_end, .. } => {
                self.see_who_shares(turn, name);
                after(first_end)
            }
        };
        if let Some(line) = self.line(name) {
            line.stale = false;
            if !line.comes_back {
                self.set_alarm(name, alarm);
            }
        }
    }

    /// Writes down who shares a lock that has a line, if that is not known already. Some of them may
    /// wait for it: they have come to share it by another's hand.
    pub(super) fn see_who_shares(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        let Some(line) = self.line(name) else { return };
        if !line.stale && matches!(line.holders, Holders::Many(_)) {
            return;
        }
        let mut shares = BTreeMap::new();
        turn.keys.each_share(name, &mut |owner, share| {
            shares.insert(Rc::from(owner), share.deadline);
            true
        });
        line.stale = false;
        self.set_holders(name, Holders::Many(shares));
        let Some(line) = self.line_of(name) else {
            return;
        };
        let joined = self.waiting_among(&line.holders, turn.now);
        for owner in joined {
            self.joined.push_back((name.keep(), owner));
        }
    }

    /// This owner shares the lock now, or until another time; its other waiters should know.
    pub(super) fn shares_now(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8]) {
        if self.line(name).is_none() {
            return;
        }
        let share = turn.keys.share_of(name, owner);
        self.set_sharer(name, owner, share);
        if self.waits.contains_key(owner) {
            self.joined.push_back((name.keep(), Rc::from(owner)));
        }
    }

    /// Makes room for a share: takes those out whose share is over, and a hold that is over and has
    /// been left standing by the server.
    pub(super) fn drop_over(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) {
        let now = turn.now;
        // In this order: what is not there has no deadline to be asked for.
        if turn.keys.look(name) != Stored::Nothing && is_over(turn.keys.deadline(name), now) {
            turn.keys.remove(name);
            return self.forget(name);
        }
        let mut over: Vec<Box<[u8]>> = Vec::new();
        let mut all = true;
        turn.keys.each_share(name, &mut |owner, share| {
            all = is_over(share.deadline, now);
            if all {
                over.push(Box::from(owner));
            }
            all
        });
        if over.is_empty() {
            return;
        }
        if all {
            turn.keys.remove(name);
            return self.forget(name);
        }
        turn.keys.unshare_over(name, now);
        for owner in over {
            self.share_is_gone(name, &owner);
        }
    }

    /// This owner does not share the lock any more.
    pub(super) fn share_is_gone(&mut self, name: NameRef<'_>, owner: &[u8]) {
        self.ledger(name.db).forget_share(name.key, owner);
        self.set_sharer(name, owner, None);
    }
}
