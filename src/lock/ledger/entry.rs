//! What is remembered of one hold.

use crate::lock::fence::Fence;
use crate::lock::slot::Slot;
use crate::lock::time::Ms;
use crate::lock::wall::Written;

/// What is remembered of a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its fencing number, if this server granted it.
    pub fence: Option<Fence>,
    /// The number that it had first: a hold that goes on may have come by another, with more locks.
    pub first: Fence,
    /// The key's slot, in a cluster.
    pub slot: Option<Slot>,
    /// When it was granted.
    pub since: Ms,
    /// When it ends, as far as that is known; none if never.
    pub end: Option<Ms>,
    /// Does it end when its key says so, by the wall clock? So do holds that this server has neither
    /// granted nor renewed since somebody else touched the key.
    pub by_wall: bool,
    /// Has the wall clock been set forward and the key gone too early? Then the lock is reserved for the
    /// owner until the hold ends.
    pub reserved: bool,
    /// The connection that asked for it last.
    pub client: u64,
    /// Does it end with that connection?
    pub tied: bool,
    /// Has that connection closed? Then the hold is about to end.
    pub closed: bool,
    /// Is an operator ending it? Then nothing that its owner does prolongs it.
    pub breaking: bool,
    /// Has any reply told the owner of it?
    pub told: bool,
    /// How many granted waiters have not come to their end, whose reply may still tell the owner.
    pub replies_under_way: u32,
    /// How often the wall clock had been stepped when the key was last written for it, of which the
    /// last bits are kept: up to [`LAST_STEP`].
    pub step: u8,
    /// Was it counted as it was granted? Then its end is counted too. A hold that others have written is
    /// not, nor is its end.
    pub counted: bool,
}

/// The largest number by which steps of the wall clock are told apart.
pub const LAST_STEP: u8 = 3;

impl Entry {
    /// Is this a number that the hold has or has had?
    pub fn has_had(&self, fence: Fence) -> bool {
        (self.fence).is_some_and(|last| (self.first..=last).contains(&fence))
    }

    /// What was written for it, if it ends then.
    pub fn written(&self, end: Ms) -> Written {
        Written {
            end,
            step: self.step,
            since: self.since,
        }
    }

    /// Has nobody heard of this grant, and will nobody any more?
    pub fn is_unheard(&self) -> bool {
        !self.told && self.replies_under_way == 0
    }

    /// Does it have to be given back?
    pub fn is_given_back(&self) -> bool {
        self.closed || self.is_unheard()
    }

    /// As it is kept where its end stands beside it, if it ends by the wall clock.
    pub fn without_end_by_wall(self) -> Self {
        let by_wall = self.by_wall || self.end.is_none();
        Self {
            end: self.end.filter(|_| !by_wall),
            by_wall,
            reserved: false,
            ..self
        }
    }

    /// The connection that is still to close before the hold ends.
    pub fn tie(&self) -> Option<u64> {
        (self.tied && !self.closed).then_some(self.client)
    }
}

/// The share that an owner had of a lock which it has been granted alone, as long as it has not heard
/// of that grant: if nobody hears of it, the owner has this share again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareBefore {
    /// When it ends, if ever.
    pub deadline: Option<Ms>,
    /// What was remembered of it, if anything.
    pub entry: Option<Entry>,
}

/// Who hears of a grant in the moment in which it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::lock) enum News {
    /// The owner: it is the reply to the command that is running.
    Told,
    /// Nobody as yet: a waiter has still to be replied to.
    UnderWay,
}

impl Entry {
    /// The owner hears of it, or will.
    pub fn hear(&mut self, news: News) {
        match news {
            News::Told => self.told = true,
            News::UnderWay => self.replies_under_way = self.replies_under_way.saturating_add(1),
        }
    }

    /// A waiter that was granted it has come to its end.
    pub fn reply_ended(&mut self, heard: bool) {
        self.replies_under_way = self.replies_under_way.saturating_sub(1);
        self.told |= heard;
    }
}
