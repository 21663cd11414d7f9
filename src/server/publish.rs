//! Messages that tell those who wait without a blocked connection that it is time to ask again.
//!
//! They are published in a timer and nowhere else: before Redis 7.2 a message to the very connection
//! whose command runs would land inside the replies of its transaction. A message may be lost, as any
//! that is published; those who wait do without it.

use std::ffi::CStr;

use redis_module::raw;

use super::ffi::Text;
use super::ffi::api::PublishFn;
use super::module::Module;
use crate::lock::{Asker, Message};

/// How much is published in one turn of the server's loop, counted in messages and receivers.
const PORTION: usize = 256;

/// How a module publishes, if this server lets it, and the command that does the same. In a cluster a message goes
/// to the shard that has the channel's slot.
fn means(in_cluster: bool) -> (Option<PublishFn>, &'static CStr) {
    // SAFETY: the server wrote the addresses once.
    unsafe {
        if in_cluster {
            (raw::RedisModule_PublishMessageShard, c"spublish")
        } else {
            (raw::RedisModule_PublishMessage, c"publish")
        }
    }
}

impl Module {
    /// Does this server let a module publish?
    pub fn can_publish(&self) -> bool {
        means(self.cluster.is_on()).0.is_some()
    }

    /// Why this must not be published for the user who has asked, in the server's words.
    pub fn publishing_denial(
        &self,
        asker: &Asker,
        channel: &Text<'_>,
        text: &Text<'_>,
    ) -> Option<String> {
        let (_, command) = means(self.cluster.is_on());
        (self.rights).publishing_denial(asker, command, channel, text)
    }

    /// Publishes some of the messages that are due. Other modules may hear of them, and do anything.
    pub fn publish(&self) {
        let mut left = PORTION;
        while left > 0
            && let Ok(Some(message)) = self.change(|locks| locks.waiting_mut().next_message())
        {
            left = left.saturating_sub(1).saturating_sub(self.send(&message));
        }
    }

    /// Publishes a message, unless that is not allowed any more. Returns how many clients have received it.
    fn send(&self, message: &Message) -> usize {
        let (channel, text) = (Text::new(&message.channel), Text::new(&message.text));
        let denial = self.publishing_denial(&message.asker, &channel, &text);
        let (publish, _) = means(self.cluster.is_on());
        let Some(publish) = publish.filter(|_| denial.is_none()) else {
            return 0;
        };
        // SAFETY: our own context lives, and so do both texts.
        let receivers = unsafe { publish(self.own().raw(), channel.raw(), text.raw()) };
        // A node of a cluster counts those who listen to this very node.
        let is_unheard = receivers == 0 && !self.cluster.is_on();
        _ = self.change(|locks| {
            locks.published();
            if is_unheard {
                locks.waiting_mut().send_to_sleep(message.id);
            }
        });
        usize::try_from(receivers).unwrap_or_default()
    }
}
