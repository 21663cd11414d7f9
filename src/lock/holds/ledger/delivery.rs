//! Whether the owner of a hold has been told of its grant.
//!
//! | state | what may come next |
//! |---|---|
//! | told | nothing: an owner that has been told may act on it |
//! | under way: a reply may still arrive | told, when it has arrived or another reply says the same; unheard, when the last one has ended without that |
//! | unheard | the hold is given back; or told, if another reply says so first |

use std::fmt;

/// Whether an owner has been told of a grant, or may still be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// How many waiters were granted the hold and have not ended: each may still get a reply that says so. The
    /// largest number, if the owner knows.
    under_way: u16,
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
    pub const TOLD: Self = Self { under_way: u16::MAX };

    /// No client knows, and none will.
    pub const UNHEARD: Self = Self { under_way: 0 };

    pub fn is_told(self) -> bool {
        self == Self::TOLD
    }

    /// Has no client been told, and is no reply under way that would tell one?
    pub fn is_unheard(self) -> bool {
        self == Self::UNHEARD
    }

    /// May two replies or more still tell it?
    pub fn is_under_way_twice(self) -> bool {
        !self.is_told() && self.under_way > 1
    }

    /// The owner is told, or will be by one more reply.
    pub fn hear(&mut self, news: News) {
        match news {
            News::Told => *self = Self::TOLD,
            News::UnderWay => self.under_way = self.under_way.saturating_add(1),
        }
    }

    /// A reply has ended; `heard` says whether it told the owner.
    pub fn reply_ended(&mut self, heard: bool) {
        if heard {
            *self = Self::TOLD;
        } else if !self.is_told() {
            self.under_way = self.under_way.saturating_sub(1);
        }
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_told() {
            true => f.write_str("told"),
            false => write!(f, "{} under way", self.under_way),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_unheard_when_the_last_reply_has_ended_without_telling_its_owner() {
        let mut delivery = Delivery::UNHEARD;
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
            let mut delivery = Delivery::UNHEARD;
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
