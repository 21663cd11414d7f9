//! Who holds a lock now. Keys are read in this room alone.
//!
//! The key decides. But after a step of the wall clock, what was granted here ends when this server says, and
//! a lock may be held although its key has gone, until that has been written again.
//!
//! | the key is | the wall clock has been stepped | who holds the lock |
//! |---|---|---|
//! | nothing | either way | no owner; or those that held it, if the key has gone too early |
//! | a string | no | the string, until the key expires |
//! | a string | yes | the string: until the end that was granted, if that was here and the key is untouched since |
//! | a shared lock | no | each of its members, until its score or the key's expiry, whichever is earlier |
//! | a shared lock | yes | each of its members, until the end that was granted, if that was here and the key is untouched since |
//! | anything else | either way | it is not a lock |

use crate::lock::holds::Holds;
use crate::lock::holds::ledger::{End, Former, Held};
use crate::lock::keyspace::{Share, Stored};
use crate::lock::lock::LockState;
use crate::lock::turn::Turn;
use crate::lock::words::{Hold, Ms, NameRef, NotALock, Now, earlier, is_over};

/// When a share ends. One that another client has written may have a later end than its key.
#[derive(Clone, Copy, Debug)]
pub struct ShareEnds {
    /// With the key, as it is.
    pub with_key: Option<Ms>,
    /// If a grant makes the key last longer.
    pub own: Option<Ms>,
}

/// Who holds a lock, and how an owner does, for as long as nothing is written to its key.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    pub lock: LockState,
    /// How that owner holds it, and until when.
    pub own: Option<(Hold, Option<Ms>)>,
}

impl Holds {
    /// Returns who holds the lock now, and how this owner does. The key may outlive the hold: servers expire keys lazily,
    /// and not at all while writes are paused. Writes no key, but may find that one has gone too early.
    #[inline(always)]
    pub fn open(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8]) -> Opened {
        let (lock, is_own) = self.read(turn, name, |holder| (holder == owner, holder != owner));
        match lock {
            LockState::Exclusive { deadline } if is_own == Some(true) => {
                Opened { lock, own: Some((Hold::Exclusive, deadline)) }
            }
            _ => self.opened(turn, name, lock, owner),
        }
    }

    /// The same of a lock that has just been looked at, and that this owner does not hold alone.
    pub fn opened(
        &self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        lock: LockState,
        owner: &[u8],
    ) -> Opened {
        let is_shared = lock.hold() == Some(Hold::Shared);
        let share = is_shared.then(|| self.share_of(turn, name, owner)).flatten();
        Opened { lock, own: share.map(|share| (Hold::Shared, share.deadline)) }
    }

    /// Returns who holds the lock now.
    pub fn state(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> LockState {
        self.read(turn, name, |_| ((), false)).0
    }

    /// Returns who holds the lock now, and what `of` makes of the owner that holds it alone. It also says whether the end
    /// in the record will do, where there is one of ours: the server has to look for the key's. For the owner itself it
    /// will not: no event is heard of a `SET` in its name, which takes the expiry away, while no client waits.
    #[inline]
    pub(super) fn read<T>(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        of: impl FnOnce(&[u8]) -> (T, bool),
    ) -> (LockState, Option<T>) {
        let now = turn.now;
        let lock = match turn.keys.look(name) {
            Stored::NoLock => LockState::NoLock,
            Stored::Nothing => return self.read_missing(turn, name, of),
            Stored::Exclusive { owner } => {
                let ((made, will_do), is_stepped) = (of(owner), self.wall.is_stepped(now));
                let asks_record = will_do || is_stepped;
                let entry = asks_record.then(|| self.entry(name, owner, Hold::Exclusive)).flatten();
                let end = entry.map(|entry| entry.end).filter(|end| !end.is_missing());
                let recorded = end.and_then(End::by_our_clock);
                let deadline = if recorded.is_some() && !is_stepped && !is_over(recorded, now) {
                    recorded
                } else {
                    let key_ends = turn.keys.deadline(name);
                    // A hold whose key has no expiry has been written by another client.
                    key_ends.and(recorded).filter(|_| is_stepped).or(key_ends)
                };
                if !is_over(deadline, now) {
                    return (LockState::Exclusive { deadline }, Some(made));
                }
                LockState::Free
            }
            Stored::Shared { count } => {
                let key_ends = turn.keys.deadline(name);
                self.look_at_shares(turn, name, count, key_ends)
            }
        };
        (lock, None)
    }

    /// Returns how this owner holds the lock, if it does, and until when.
    pub fn hold_of(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<Option<(Hold, Option<Ms>)>, NotALock> {
        Ok(match turn.keys.look(name) {
            Stored::NoLock => return Err(NotALock),
            // The other shares are not asked for.
            Stored::Shared { .. } => {
                self.share_of(turn, name, owner).map(|share| (Hold::Shared, share.deadline))
            }
            Stored::Exclusive { owner: holder } if holder != owner => None,
            Stored::Exclusive { .. } if !self.wall.is_stepped(turn.now) => {
                let end = turn.keys.deadline(name);
                (!is_over(end, turn.now)).then_some((Hold::Exclusive, end))
            }
            Stored::Exclusive { .. } | Stored::Nothing => self.open(turn, name, owner).own,
        })
    }

    /// Returns how this owner holds the lock, if it does, and whether no other share is in the key or remembered.
    ///
    /// The server opens keys for a write command, so a key that has expired by its clock is not seen here. That
    /// is enough: the next owner can only be granted the lock after this.
    #[inline(always)]
    pub fn open_to_release(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        owner: &[u8],
    ) -> Result<Option<(Hold, bool)>, NotALock> {
        Ok(match turn.keys.look(name) {
            Stored::NoLock => return Err(NotALock),
            Stored::Nothing => None,
            Stored::Exclusive { owner: holder } if holder != owner => None,
            // After a step of the clock the key may outlast its hold, which is over then.
            Stored::Exclusive { .. } if self.wall.is_stepped(turn.now) => {
                self.hold_of(turn, name, owner)?.map(|(hold, _)| (hold, true))
            }
            Stored::Exclusive { .. } => Some((Hold::Exclusive, true)),
            Stored::Shared { count } => {
                let shares = self.held(name).map_or(0, |held| held.len());
                let share = self.share_of(turn, name, owner);
                share.map(|_| (Hold::Shared, count.max(shares) == 1))
            }
        })
    }

    /// Has this hold, which is remembered, run out? Else it was overwritten.
    pub fn has_run_out(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>, former: &Former) -> bool {
        match self.state(turn, name) {
            LockState::Free => true,
            LockState::Shared { .. } if former.hold == Hold::Shared => {
                turn.keys.share_of(name, &former.owner).is_some()
            }
            _ => false,
        }
    }

    /// Is it remembered of the owner that holds this lock alone that it does?
    pub fn know_holder(&mut self, turn: &mut Turn<'_>, name: NameRef<'_>) -> bool {
        let alone = self.held(name).and_then(Held::alone);
        let owner = alone.filter(|alone| !alone.entry.is_seen()).map(|alone| alone.owner.bytes());
        owner.is_some_and(|owner| {
            let own = self.open(turn, name, &owner).own;
            own.is_some_and(|(hold, _)| hold == Hold::Exclusive)
        })
    }

    /// Is there anything else than a lock?
    pub fn is_no_lock(&self, turn: &mut Turn<'_>, name: NameRef<'_>) -> bool {
        turn.keys.look(name) == Stored::NoLock
    }

    /// Is a hold in this key that may end some time?
    pub fn ends(&self, turn: &mut Turn<'_>, name: NameRef<'_>) -> bool {
        turn.keys.deadline(name).is_some_and(|end| !is_over(Some(end), turn.now))
    }

    /// Returns this owner's share of a shared lock, if it is not over.
    #[inline]
    fn share_of(&self, turn: &mut Turn<'_>, name: NameRef<'_>, owner: &[u8]) -> Option<Share> {
        if self.wall.is_stepped(turn.now)
            && let Some(entry) = self.entry(name, owner, Hold::Shared)
            && let Some(end) = entry.end.by_our_clock()
        {
            let is_there = match turn.keys.look(name) {
                Stored::Nothing => entry.end.is_missing(),
                _ => turn.keys.share_of(name, owner).is_some(),
            };
            let deadline = Some(end);
            return (is_there && !is_over(deadline, turn.now)).then_some(Share { deadline });
        }
        let share = turn.keys.share_of(name, owner)?;
        let deadline = earlier(share.deadline, turn.keys.deadline(name));
        (!is_over(deadline, turn.now)).then_some(Share { deadline })
    }

    /// Visits the owners that share this lock, and when their shares end, for as long as `visit` returns true:
    /// the first to end comes first, unless the wall clock has been stepped.
    pub fn each_sharer(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        visit: &mut dyn FnMut(&[u8], ShareEnds) -> bool,
    ) {
        let now = turn.now;
        if turn.keys.look(name) == Stored::Nothing {
            let missing = self.held(name).filter(|held| held.is_missing());
            missing.into_iter().flat_map(|held| held.lasting(now)).all(|(owner, end)| {
                visit(&owner, ShareEnds { with_key: Some(end), own: Some(end) })
            });
            return;
        }
        let synced = self.is_synced(now, name);
        let key_ends = turn.keys.deadline(name);
        turn.keys.each_share(name, &mut |owner, share| {
            let ends = self.ends_of_share(name, (owner, share), key_ends, synced);
            is_over(ends.with_key, now) || visit(owner, ends)
        });
    }

    /// The first owners that hold this lock, up to `most`, and when their holds end.
    pub fn holders(
        &mut self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        most: usize,
    ) -> Vec<(Box<[u8]>, Option<Ms>)> {
        let mut held = Vec::new();
        match self.read(turn, name, |owner| (Box::from(owner), false)) {
            (LockState::Exclusive { deadline }, owner) => {
                held.extend(owner.map(|owner| (owner, deadline)));
            }
            (LockState::Shared { .. }, _) => self.each_sharer(turn, name, &mut |owner, ends| {
                held.push((Box::from(owner), ends.with_key));
                held.len() < most
            }),
            (LockState::NoLock | LockState::Free, _) => {}
        }
        held.truncate(most);
        held
    }

    /// Do the ends in the key of this shared lock agree with what is remembered?
    #[inline]
    pub fn is_synced(&self, now: Now, name: NameRef<'_>) -> bool {
        !self.wall.is_stepped(now)
            || self.held(name).is_none_or(|held| held.is_synced(self.wall.steps()))
    }

    /// Returns when this share ends, which is in a key that expires at `key_ends`: when this server says, if the
    /// key is not in step and the share was granted here.
    fn ends_of_share(
        &self,
        name: NameRef<'_>,
        (owner, share): (&[u8], Share),
        key_ends: Option<Ms>,
        synced: bool,
    ) -> ShareEnds {
        let entry = if synced { None } else { self.entry(name, owner, Hold::Shared) };
        match entry.and_then(|entry| entry.end.by_our_clock()) {
            Some(end) => ShareEnds { with_key: Some(end), own: Some(end) },
            None => ShareEnds { with_key: earlier(share.deadline, key_ends), own: share.deadline },
        }
    }

    /// The owners of all shares in the key that are over, and whether others last.
    pub fn shares_over(&self, turn: &mut Turn<'_>, name: NameRef<'_>) -> (Vec<Box<[u8]>>, bool) {
        let (now, synced) = (turn.now, self.is_synced(turn.now, name));
        let (mut over, mut any_lasts) = (Vec::new(), false);
        turn.keys.each_share(name, &mut |owner, share| {
            let lasts = !is_over(self.ends_of_share(name, (owner, share), None, synced).own, now);
            any_lasts |= lasts;
            if !lasts {
                over.push(Box::from(owner));
            }
            // Those that end first come first, but not after a step of the clock.
            !lasts || !synced
        });
        (over, any_lasts)
    }

    /// The same of a lock that has no key.
    fn read_missing<T>(
        &mut self,
        turn: &Turn<'_>,
        name: NameRef<'_>,
        of: impl FnOnce(&[u8]) -> (T, bool),
    ) -> (LockState, Option<T>) {
        self.note_if_expired(turn, name);
        let held = if self.may_miss_keys(turn.now) { self.held(name) } else { None };
        let Some(held) = held.filter(|held| held.is_missing()) else {
            return (LockState::Free, None);
        };
        let mut lasting = held.lasting(turn.now);
        match held.hold() {
            Hold::Shared => {
                let ends: Vec<Ms> = lasting.map(|(_, end)| end).collect();
                (shared_by(ends.len(), 0, ends.iter().min().copied()), None)
            }
            Hold::Exclusive => match lasting.next() {
                None => (LockState::Free, None),
                Some((owner, end)) => {
                    (LockState::Exclusive { deadline: Some(end) }, Some(of(&owner).0))
                }
            },
        }
    }

    /// Returns who shares a lock with so many shares in its key.
    fn look_at_shares(
        &self,
        turn: &mut Turn<'_>,
        name: NameRef<'_>,
        all: usize,
        key_ends: Option<Ms>,
    ) -> LockState {
        let (now, synced) = (turn.now, self.is_synced(turn.now, name));
        if synced && is_over(key_ends, now) {
            return LockState::Free;
        }
        let (mut over, mut first_end) = (0_usize, None);
        turn.keys.each_share(name, &mut |owner, share| {
            let end = self.ends_of_share(name, (owner, share), key_ends, synced).with_key;
            let is_over = is_over(end, now);
            if is_over {
                over = over.saturating_add(1);
            } else {
                first_end = earlier(first_end, end);
            }
            // Those that end first come first, but not after a step of the clock.
            is_over || !synced
        });
        shared_by(all.saturating_sub(over), over, first_end)
    }
}

/// How a lock is held by so many shares, of which the first ends then, beside others that are over.
fn shared_by(count: usize, over: usize, first_end: Option<Ms>) -> LockState {
    if count == 0 { LockState::Free } else { LockState::Shared { count, over, first_end } }
}
