//! A server with a lock, and what is done there with very many.

use super::stage::Stage;
use super::{ask, owner, release};
use crate::connection::Connection;
use crate::runtime::sleep;
use crate::server::{Control, Server, With};
use crate::stalls::crowd::pipeline;
use crate::stalls::seen::{field, of_event};
use anyhow::{Result, ensure};
use std::future::Future;
use std::time::Duration;

/// Coprime to the number of places: each has its turn, far from the one before.
const STRIDE: usize = 611_953;
/// Between two looks whether all places are gone.
const LOOK: Duration = Duration::from_millis(5);

/// Where it takes place.
#[derive(Debug)]
pub struct Scene {
    /// For the commands.
    pub connection: Connection,
    server: Server,
    control: Control,
    /// Seconds of the server's CPU for a PING.
    ping: f64,
}

impl Scene {
    /// With as many places as one likes.
    pub async fn set(pings: usize) -> Result<Scene> {
        let server = Server::start(With::Module).await?;
        let mut control = server.control().await?;
        control.lift_limits(With::Module).await?;
        let mut connection = Connection::open(server.address()).await?;
        let pinging = pipeline(&mut connection, pings, |_| "PING".to_owned());
        let (cpu, _) = seen(&server, &mut control, pinging).await?;
        Ok(Scene {
            connection,
            server,
            control,
            ping: cpu / pings as f64,
        })
    }

    /// So many join, until there are so many places.
    pub async fn join(&mut self, number: usize, places: usize) -> Result<Stage> {
        let first = 1 + places - number;
        let joins = |which| ask(first + which);
        let stage = self.stage("join", places, (number, 1), joins).await?;
        self.expect(places).await?;
        Ok(stage)
    }

    /// Asks so often again, for each place in turn.
    pub async fn ask_again(&mut self, times: usize, places: usize) -> Result<Stage> {
        let anywhere = |which| ask(1 + which * STRIDE % places);
        self.stage("ask again, anywhere", places, (times, 1), anywhere)
            .await
    }

    /// The same by hand: the rank in one sorted set, and the time until which it is kept in another.
    pub async fn ask_by_hand(&mut self, times: usize, places: usize) -> Result<Stage> {
        let add = |set: &str, score, place| format!("ZADD {set}:{places} {score} {}", owner(place));
        let joins = |command: usize| match command.is_multiple_of(2) {
            true => add("queue", command / 2, command / 2),
            false => add("leases", command / 2, command / 2),
        };
        pipeline(&mut self.connection, places * 2, joins).await?;
        let anywhere = |command: usize| {
            let (which, place) = (command / 2, command / 2 * STRIDE % places);
            match command.is_multiple_of(2) {
                true => format!("ZRANK queue:{places} {}", owner(place)),
                false => add("leases", places + which, place),
            }
        };
        self.stage("(by hand: ZRANK, ZADD)", places, (times, 2), anywhere)
            .await
    }

    /// The holder lets go, and the next claims what it was granted; so many times over.
    pub async fn serve(&mut self, number: usize, places: usize) -> Result<Stage> {
        let serves = |command: usize| match command.is_multiple_of(2) {
            true => release(command / 2),
            false => ask(command / 2 + 1),
        };
        let what = "be served: RELEASE, claim";
        let stage = self.stage(what, places, (number, 2), serves).await?;
        self.expect(places - number).await?;
        Ok(stage)
    }

    /// All are sent away.
    pub async fn drain(&mut self, places: usize) -> Result<Stage> {
        let draining = async {
            let words: [&[u8]; 4] = [b"CONFIG", b"SET", b"lock.drain", b"yes"];
            self.connection.call(&words).await?;
            while kept(&mut self.connection).await? > 0 {
                sleep(LOOK).await;
            }
            Ok(())
        };
        let (cpu, turn) = seen(&self.server, &mut self.control, draining).await?;
        Ok(Stage {
            what: "be sent away: lock.drain",
            places,
            cpu: cpu / places as f64,
            to_ping: None,
            turn,
        })
    }

    /// So many times, so many commands for each.
    async fn stage(
        &mut self,
        what: &'static str,
        places: usize,
        (times, commands_each): (usize, usize),
        command: impl Fn(usize) -> String,
    ) -> Result<Stage> {
        let commands = times * commands_each;
        let all = pipeline(&mut self.connection, commands, command);
        let (cpu, turn) = seen(&self.server, &mut self.control, all).await?;
        Ok(Stage {
            what,
            places,
            cpu: cpu / times as f64,
            to_ping: Some(cpu / commands as f64 / self.ping),
            turn,
        })
    }

    async fn expect(&mut self, places: usize) -> Result<()> {
        let kept = kept(&mut self.connection).await?;
        ensure!(kept == places, "{kept} places were kept of {places}");
        Ok(())
    }
}

async fn kept(connection: &mut Connection) -> Result<usize> {
    field(connection, "lock", "lock_places").await
}

/// Seconds of the server's CPU, and its longest turn.
async fn seen(
    server: &Server,
    control: &mut Control,
    event: impl Future<Output = Result<()>>,
) -> Result<(f64, f64)> {
    let before = control.work().await?.cpu;
    let seen = of_event(server, event).await?;
    let cpu = control.work().await?.cpu - before;
    Ok((cpu, seen.turn()))
}
