//! What a client asks for.

use super::*;

/// What a client asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub owner: Owner,
    pub ttl: Ms,
    pub mode: Mode,
    pub patience: Patience<'static>,
    /// Its connection.
    pub client: u64,
    /// Does the hold end with that?
    pub session: bool,
    pub max_queue: Option<u64>,
    pub replicas: u8,
}

impl Request {
    /// For a lock alone, for 100 ms and without a wait. Whatever can be asked for besides is not asked for.
    pub fn of(owner: Owner) -> Self {
        Self {
            owner,
            ttl: 100,
            mode: Mode::Exclusive,
            patience: Patience::Try,
            client: 0,
            session: false,
            max_queue: None,
            replicas: 0,
        }
    }

    /// As the core is asked for it.
    pub fn for_core(self) -> lock::Request<'static> {
        lock::Request {
            terms: Terms {
                owner: self.owner.as_bytes(),
                mode: self.mode,
                ttl: self.ttl,
                spare: 0,
                client: self.client,
                session: self.session,
            },
            patience: self.patience,
            max_queue: self.max_queue,
            replicas: self.replicas,
        }
    }
}

/// A place that is kept for so long.
pub fn place(length: Ms) -> Patience<'static> {
    told_on(None, length)
}

/// The same, whose owner gets messages on a channel.
pub fn told_on(notify: Option<(&'static str, &'static str)>, length: Ms) -> Patience<'static> {
    let notify =
        notify.map(|(channel, text)| Notify { channel: channel.as_bytes(), text: text.as_bytes() });
    Patience::Place(Lease { length, notify, command: AskedBy::Acquire })
}
