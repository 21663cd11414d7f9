//! Whether the owner of a hold has been told of its grant.
//!
//! | state | what may come next |
//! |---|---|
//! | told | nothing: an owner that has been told may act on it |
//! | under way: a reply may still arrive | told, when it has arrived or another reply says the same; unheard, when the last one has ended without that |
//! | unheard | the hold is given back; or told, if another reply says so first |

/// Whether an owner has been told of a grant, or may still be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    told: bool,
    /// How many waiters were granted the hold and have not ended: each may still get a reply that says so.
    under_way: u32,
}

/// Who hears of a grant in the moment in which it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// The owner: it is the reply to the command that is running.
    Told,
    /// No client yet: a waiter has still to be replied to.
    UnderWay,
}

impl Delivery {
    /// The owner knows: it was told, or another client has written the hold in its name.
    pub const TOLD: Self = Self::of(true, 0);

    /// A delivery in this state.
    pub const fn of(told: bool, under_way: u32) -> Self {
        Self { told, under_way }
    }

    pub fn is_told(self) -> bool {
        self.told
    }

    /// How many replies may still tell it.
    pub fn under_way(self) -> u32 {
        self.under_way
    }

    /// Has no client been told, and is no reply under way that would tell one?
    pub fn is_unheard(self) -> bool {
        !self.told && self.under_way == 0
    }

    /// The owner is told, or will be by one more reply.
    pub fn hear(&mut self, news: News) {
        match news {
            News::Told => self.told = true,
            News::UnderWay => self.under_way = self.under_way.saturating_add(1),
        }
    }

    /// A reply has ended; `heard` says whether it told the owner.
    pub fn reply_ended(&mut self, heard: bool) {
        self.under_way = self.under_way.saturating_sub(1);
        self.told |= heard;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_unheard_when_the_last_reply_has_ended_without_telling_its_owner() {
        let mut delivery = Delivery::of(false, 0);
        delivery.hear(News::UnderWay);
        delivery.hear(News::UnderWay);
        delivery.reply_ended(false);
        assert!(!delivery.is_unheard() && !delivery.is_told());
        delivery.reply_ended(false);
        assert!(delivery.is_unheard());
        delivery.hear(News::Told);
        assert!(delivery.is_told() && !delivery.is_unheard());
    }

    #[test]
    fn what_an_owner_has_been_told_stays_told_however_later_replies_end() {
        for tells_first in [true, false] {
            let mut delivery = Delivery::of(false, 0);
            delivery.hear(News::UnderWay);
            delivery.hear(News::UnderWay);
            for heard in [tells_first, !tells_first] {
                delivery.reply_ended(heard);
                assert!(!delivery.is_unheard());
            }
            assert_eq!(delivery, Delivery::TOLD);
        }
    }
}
