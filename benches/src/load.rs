//! The same few commands, again and again, as fast as they are answered.

use crate::connection::{Connection, encode_text};
use crate::runtime::{sleep, spawn};
use crate::server::Server;
use anyhow::Result;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

/// So long the load runs before it is measured.
const FIRST: Duration = Duration::from_millis(50);

/// What one connection does over and over: sendings, each of which waits for its answers.
#[derive(Debug, Default, Clone)]
pub struct Cycle {
    sendings: Vec<(Vec<u8>, usize)>,
}

impl Cycle {
    pub fn send(&mut self, commands: &[String]) {
        let mut bytes = Vec::new();
        for command in commands {
            encode_text(&mut bytes, command);
        }
        self.sendings.push((bytes, commands.len()));
    }
}

#[derive(Clone, Copy)]
pub struct Pace {
    pub rate: f64,
    /// Seconds of the server's CPU for each.
    pub cpu: f64,
}

pub async fn drive(server: &Server, cycles: Vec<Cycle>, span: Duration) -> Result<Pace> {
    let mut control = server.connect().await?;
    let answered = Rc::new(Cell::new(0_u64));
    let trouble = Rc::new(RefCell::new(None));
    let mut tasks = Vec::new();
    for cycle in cycles {
        let connection = Connection::open(server.address()).await?;
        let (answered, trouble) = (Rc::clone(&answered), Rc::clone(&trouble));
        tasks.push(spawn(async move {
            if let Err(error) = go_round(connection, cycle, &answered).await {
                *trouble.borrow_mut() = Some(error);
            }
        }));
    }
    sleep(FIRST).await;
    let before = control.work().await?;
    let (began, already) = (Instant::now(), answered.get());
    sleep(span).await;
    let after = control.work().await?;
    let (seconds, done) = (began.elapsed().as_secs_f64(), answered.get() - already);
    drop(tasks);
    match trouble.take() {
        Some(trouble) => Err(trouble),
        None => {
            Ok(Pace { rate: done as f64 / seconds, cpu: (after.cpu - before.cpu) / done as f64 })
        }
    }
}

async fn go_round(mut connection: Connection, cycle: Cycle, answered: &Cell<u64>) -> Result<()> {
    loop {
        for (commands, answers) in &cycle.sendings {
            connection.push_encoded(commands);
            connection.last_of(*answers).await?;
            answered.set(answered.get() + *answers as u64);
        }
    }
}
