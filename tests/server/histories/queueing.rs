//! How a client waits without a blocked connection: it asks for its place again and again, and hears,
//! or does not, that its turn has come. It may be late, change its mind, or die at any moment.

use super::clients::{Worker, channel_of};
use super::history::{Action, Answer, Channel, MS, Micros, Wait};
use crate::support::*;
use std::io::ErrorKind;
use std::time::Duration;

/// More than a client needs on a quiet machine.
const MOST_ASKS: usize = 60;

/// For how long one who gets messages on a channel waits for that before it asks all the same.
const HEARS_FOR: Duration = Duration::from_millis(80);

/// A connection on which messages are heard.
pub struct Ear(Client);

impl Worker<'_> {
    pub(super) fn some_place(&mut self, owner: &str) -> Wait {
        let lease = self.chance.of([60, 150, 150, 400]) * MS;
        let notify = (self.chance).of([
            None,
            None,
            Some(Channel::Own),
            Some(Channel::Common),
            Some(Channel::Unheard),
        ]);
        let notify = notify.filter(|_| self.listens(owner));
        let kept = match notify {
            None => lease,
            // At its turn it is passed by at once.
            Some(Channel::Unheard) => 0,
            Some(_) => self.stage.claim_time.unwrap_or(0).min(lease),
        };
        Wait::Queue { lease, kept, notify }
    }

    /// Asks until it gets anything but a place.
    pub(super) fn ask_until_served(&mut self, owner: &str, ask: &Action) -> Answer {
        let Action::Acquire { keys, wait: Wait::Queue { lease, notify, .. }, .. } = ask else {
            unreachable!("no place is asked for");
        };
        for _ in 0..MOST_ASKS {
            let answer = self.call(owner, ask);
            let is_refused = answer == Answer::Refused && self.stage.is_kept_up;
            if !matches!(answer, Answer::Place(_)) && !is_refused {
                return answer;
            }
            if self.stage.is_over() {
                break;
            }
            match self.chance.below(36) {
                0 if !self.stage.is_kept_up => {
                    self.die();
                    return Answer::Nil;
                }
                1 => break,
                // Whatever the request has come to meanwhile.
                2 => {
                    self.think(0, 40);
                    break;
                }
                3 => self.think(lease / MS + 30, lease / MS + 90),
                4 => {
                    self.call(owner, &Action::Check { key: keys[0] });
                }
                _ => {}
            }
            if notify.is_some() && !self.chance.one_in(4) {
                let has_heard = self.hears_of(owner);
                if has_heard && !self.stage.is_kept_up && self.chance.one_in(12) {
                    self.die(); // It has not claimed what it was granted.
                    return Answer::Nil;
                }
            } else {
                self.think(20, 50);
            }
        }
        self.withdraw(owner, keys);
        Answer::Nil
    }

    /// RELEASE is the one way out: by any connection, and twice if in doubt.
    fn withdraw(&mut self, owner: &str, keys: &[&'static str]) {
        let before = (self.chance.one_in(2)).then(|| self.way.leave()).flatten();
        let release = Action::Release { keys: keys.to_vec() };
        let mut times = 1 + self.chance.below(2);
        while times > 0 && !self.stage.is_over() {
            let answer = self.call(owner, &release);
            if answer != Answer::Refused || !self.stage.is_kept_up {
                times -= 1;
            }
        }
        if let Some((before, _)) = before {
            before.close();
        }
    }

    /// Whether messages to this owner are heard from now on.
    fn listens(&mut self, owner: &str) -> bool {
        if self.ear.is_none() {
            self.ear = Client::try_connect(self.stage.address()).ok().and_then(|mut client| {
                client.give_up_after(HEARS_FOR);
                for channel in [Channel::Own, Channel::Common] {
                    let subscribe = args!["SUBSCRIBE", channel_of(owner, channel)];
                    let answer = client.try_run(&subscribe).ok()?;
                    (!answer.is_error("")).then_some(())?;
                }
                Some(Ear(client))
            });
        }
        self.ear.is_some()
    }

    /// Waits for a message to this owner, for some time. Others' are passed over.
    fn hears_of(&mut self, owner: &str) -> bool {
        let until = self.stage.now() + micros(HEARS_FOR);
        while self.stage.now() < until {
            let Some(Ear(client)) = &mut self.ear else {
                self.think(20, 50);
                return false;
            };
            match client.try_answer() {
                Ok(message) if message[2] == owner => return true,
                Ok(_) => {}
                Err(error) => {
                    let is_silence =
                        matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                    if !is_silence {
                        self.ear = None;
                    }
                    return false;
                }
            }
        }
        false
    }
}

fn micros(time: Duration) -> Micros {
    time.as_micros().try_into().unwrap()
}
