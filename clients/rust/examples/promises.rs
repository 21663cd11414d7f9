//! The program by which tests/clients/promises tests this package. Its lines are described in program.py there.

use redis_lock_module::redis::aio::ConnectionManager;
use redis_lock_module::redis::{Value, cmd};
use redis_lock_module::{Error, Hold, Lock, Locks};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

type Held = Option<Hold<ConnectionManager>>; // none once it is released

#[derive(Default)]
struct Program {
    holds: Vec<Held>,
    losses: Vec<Arc<AtomicUsize>>,
}

#[tokio::main]
async fn main() {
    let port = std::env::args().nth(1).expect("a port");
    let locks = Locks::connect(format!("redis://127.0.0.1:{port}/")).await.expect("a server");
    let (sender, mut lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            _ = sender.send(line);
        }
    });
    let mut program = Program::default();
    println!("ready");
    while let Some(line) = lines.recv().await {
        let words: Vec<&str> = line.split(' ').collect();
        let reply = match words[0] {
            "acquire" => program.acquire(&locks, &words[1..], &mut lines).await,
            verb => program.use_hold(verb, &words[1..]).await,
        };
        println!("{}", reply.unwrap_or_else(|error| word_for(&error)));
    }
}

impl Program {
    async fn acquire(
        &mut self,
        locks: &Locks,
        words: &[&str],
        lines: &mut UnboundedReceiver<String>,
    ) -> Result<String, Error> {
        let given: HashMap<&str, &str> =
            words[2..].iter().map(|word| word.split_once('=').unwrap_or((*word, ""))).collect();
        let lock = lock_of(locks, words[0], ms(words[1]), &given);
        let acquiring = async {
            match given.get("wait") {
                None => lock.try_acquire().await,
                Some(&"forever") => lock.acquire().await,
                Some(patience) => lock.acquire_within(ms(patience)).await,
            }
        };
        let hold = if given.contains_key("cancellable") {
            tokio::select! {
                hold = acquiring => hold?,
                _ = lines.recv() => return Ok("cancelled".into()),
            }
        } else {
            acquiring.await?
        };
        let fence = hold.fence().map_or("-".into(), |fence| fence.to_string());
        let told = Arc::new(AtomicUsize::new(0));
        let (lost, losses) = (hold.lost(), told.clone());
        tokio::spawn(async move {
            lost.await;
            losses.fetch_add(1, Ordering::Relaxed);
        });
        self.losses.push(told);
        self.holds.push(Some(hold));
        Ok(format!("hold {} {fence}", self.holds.len() - 1))
    }

    async fn use_hold(&mut self, verb: &str, words: &[&str]) -> Result<String, Error> {
        let number: usize = words[0].parse().expect("the number of a hold");
        if verb == "losses" {
            return Ok(self.losses[number].load(Ordering::Relaxed).to_string());
        }
        if verb == "release" {
            // A hold is gone with its release, so that it can't be released twice.
            let Some(hold) = self.holds[number].take() else { return Ok("lost".into()) };
            return hold.release().await.map(|()| "ok".into());
        }
        let Some(hold) = &self.holds[number] else { return Ok("no".into()) };
        match verb {
            "renew" => hold.renew(ms(words[1])).await.map(|()| "ok".into()),
            "held" => Ok(if hold.is_lost() { "no" } else { "yes" }.into()),
            "guard" => {
                let mut command = cmd(words[1]);
                command.arg(&words[2..]);
                Ok(match hold.guard::<Value>(&command).await? {
                    Value::Int(number) => format!("reply {number}"),
                    Value::BulkString(bytes) => {
                        format!("reply {}", String::from_utf8_lossy(&bytes))
                    }
                    Value::Okay => "reply OK".into(),
                    other => format!("reply {other:?}"),
                })
            }
            _ => Ok("cannot".into()),
        }
    }
}

fn lock_of(
    locks: &Locks,
    keys: &str,
    ttl: Duration,
    given: &HashMap<&str, &str>,
) -> Lock<ConnectionManager> {
    let mut lock = locks.all(keys.split(',')).ttl(ttl);
    if !given.contains_key("renew") {
        lock = lock.renew_for(Duration::ZERO);
    }
    if given.contains_key("shared") {
        lock = lock.shared();
    }
    if given.contains_key("module") {
        lock = lock.require_module();
    }
    if let Some(owner) = given.get("owner") {
        lock = lock.owner(owner);
    }
    if let Some(prefix) = given.get("prefix") {
        lock = lock.owner_prefix(prefix);
    }
    if let Some(limit) = given.get("limit") {
        lock = lock.limit(limit.parse().expect("a limit"));
    }
    if let Some(most) = given.get("max-queue") {
        lock = lock.max_queue(most.parse().expect("a length"));
    }
    if let Some(n) = given.get("replicas") {
        lock = lock.replicas(n.parse().expect("a number"));
    }
    if let Some(group) = given.get("fair") {
        lock = lock.fair(group);
    }
    if let Some(m) = given.get("per") {
        lock = lock.per(m.parse().expect("a number"));
    }
    lock
}

fn ms(text: &str) -> Duration {
    Duration::from_millis(text.parse().expect("milliseconds"))
}

fn word_for(error: &Error) -> String {
    let text = error.to_string().replace('\n', " ");
    match error {
        Error::Busy => "busy".into(),
        Error::Lost(_) => "lost".into(),
        Error::Invalid(_) => format!("invalid {text}"),
        Error::NeedsModule(_) | Error::OlderModule { .. } => format!("missing {text}"),
        Error::Deadlock(error) | Error::Redis(error) if error.code().is_some() => {
            format!("refused {} {}", error.code().unwrap_or(""), error.detail().unwrap_or(""))
        }
        _ => format!("unknown {text}"),
    }
}
