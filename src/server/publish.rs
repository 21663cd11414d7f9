//! Messages that tell those who wait without a blocked connection that it is time to ask again.
//!
//! They are published in a timer and nowhere else: before Redis 7.2 a message to the very connection
//! whose command runs would land inside the replies of its transaction. A message may be lost, as any
//! that is published; whoever waits does without it.

use std::ffi::CStr;

use redis_module::raw;

use crate::lock::{Asker, Locks, Message};

use super::command::rights::{self, Phrases};
use super::ffi::api::PublishFn;
use super::ffi::text::Text;
use super::module::Module;

/// So much is published in one turn of the server's loop, counted in messages and receivers.
const PORTION: usize = 256;

/// How this server publishes.
pub struct Publisher {
    publish: Option<PublishFn>,
    /// The command that does the same.
    command: &'static CStr,
}

impl Publisher {
    /// In a cluster a message goes to the shard that has the channel's slot.
    fn new(in_cluster: bool) -> Self {
        // SAFETY: the server wrote the addresses once.
        unsafe {
            if in_cluster {
                Self {
                    publish: raw::RedisModule_PublishMessageShard,
                    command: c"spublish",
                }
            } else {
                Self {
                    publish: raw::RedisModule_PublishMessage,
                    command: c"publish",
                }
            }
        }
    }

    /// Does this server let a module publish?
    pub fn is_there(&self) -> bool {
        self.publish.is_some()
    }

    /// Why this must not be published for whoever has asked, in the server's words.
    pub fn denial(
        &self,
        phrases: &Phrases,
        asker: &Asker,
        channel: &Text<'_>,
        text: &Text<'_>,
    ) -> Option<String> {
        rights::publishing_denial(phrases, asker, self.command, channel, text)
    }
}

impl Module {
    /// How this server publishes.
    pub fn publisher(&self) -> Publisher {
        Publisher::new(self.in_cluster)
    }

    /// Publishes some of the messages that are due. Other modules may hear of them, and do anything.
    pub fn publish(&self) {
        let publisher = self.publisher();
        let mut left = PORTION;
        while left > 0
            && let Ok(Some(message)) = self.change(Locks::next_message)
        {
            let receivers = self.send(&publisher, &message);
            left = left.saturating_sub(1).saturating_sub(receivers);
        }
    }

    /// Publishes this, unless it must not be published any more. Says to how many.
    fn send(&self, publisher: &Publisher, message: &Message) -> usize {
        let (channel, text) = (Text::new(&message.channel), Text::new(&message.text));
        let denial = publisher.denial(&self.phrases, &message.asker, &channel, &text);
        let Some(publish) = publisher.publish.filter(|_| denial.is_none()) else {
            return 0;
        };
        // SAFETY: our own context lives, and so do both texts.
        let receivers = unsafe { publish(self.own().raw(), channel.raw(), text.raw()) };
        // A node of a cluster counts those who listen to this very node.
        let nobody_heard = receivers == 0 && !self.in_cluster;
        _ = self.change(|locks| {
            locks.published();
            if nobody_heard {
                locks.message_went_unheard(message.id);
            }
        });
        usize::try_from(receivers).unwrap_or_default()
    }
}
