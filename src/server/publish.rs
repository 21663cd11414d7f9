//! Messages to owners that wait without a blocked connection: it is time to retry.
//!
//! They are published in a timer and nowhere else: before Redis 7.2 a message to the very connection
//! whose command runs would land inside the replies of its transaction. A message may be lost, as any
//! that is published; those who wait do without it. A place whose message no client has received is passed by.

use super::clock;
use super::ffi::{Text, api};
use super::module::Module;
use crate::lock::Message;

/// How much is published in one turn of the server's loop, counted in messages and receivers.
const PORTION: usize = 256;

impl Module {
    /// Publishes some of the messages that are due. Other modules may hear of them, and do anything. Returns whether a
    /// place is passed by, because no client has received its message.
    pub fn publish(&self) -> bool {
        let (mut left, mut any_passed_by) = (PORTION, false);
        while left > 0
            && let Ok(Some(message)) = self.change(|locks| locks.waiting.take_message())
        {
            let (receivers, is_passed_by) = self.send(&message);
            left = left.saturating_sub(1).saturating_sub(receivers);
            any_passed_by |= is_passed_by;
        }
        any_passed_by
    }

    /// Publishes a message, unless that is not allowed any more. Returns how many clients have received it, and whether
    /// its place is passed by.
    fn send(&self, message: &Message) -> (usize, bool) {
        let (channel, text) = (Text::new(&message.channel), Text::new(&message.text));
        if self.rights.publishing_denial(&message.asker, &channel, &text).is_some() {
            return (0, false);
        }
        let (own, in_cluster) = (self.own().raw(), self.cluster.is_on());
        // In a cluster it goes to the shard that has the channel's slot.
        // SAFETY: our own context lives, and so do both texts.
        let receivers = unsafe {
            match in_cluster {
                true => api::publish_message_shard(own, channel.raw(), text.raw()),
                false => api::publish_message(own, channel.raw(), text.raw()),
            }
        };
        // A node of a cluster counts those who listen to this very node.
        let passed_by = message.turn_of.filter(|_| receivers == 0 && !in_cluster);
        _ = self.change(|locks| {
            locks.outcomes().published();
            if let Some(place) = passed_by {
                locks.waiting.pass_by(place, clock::now());
            }
        });
        (usize::try_from(receivers).unwrap_or_default(), passed_by.is_some())
    }
}
