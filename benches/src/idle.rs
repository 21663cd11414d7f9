//! What a server uses of the CPU while nobody asks it for anything, so that it can be left out.

use crate::runtime::sleep;
use crate::server::Server;
use anyhow::Result;
use std::time::{Duration, Instant};

/// Its timers run ten times in a second: this sees some of them.
const LOOK: Duration = Duration::from_millis(500);

/// What it uses by itself, and since when more is being measured.
#[derive(Debug, Default, Clone)]
pub struct Idle {
    /// Seconds of CPU for each second.
    rate: f64,
    since: Option<(Instant, f64)>,
}

impl Idle {
    /// Looks at it for a moment in which nothing happens, and begins.
    pub async fn of(server: &Server) -> Result<Idle> {
        let mut idle = Idle::default();
        idle.begin(server)?;
        sleep(LOOK).await;
        idle.rate = idle.used_beyond(server)? / LOOK.as_secs_f64();
        idle.begin(server)?;
        Ok(idle)
    }

    /// From here on.
    pub fn begin(&mut self, server: &Server) -> Result<()> {
        self.since = Some((Instant::now(), server.cpu()?));
        Ok(())
    }

    /// Seconds of CPU that it has used since then, beyond what it uses by itself.
    pub fn used_beyond(&self, server: &Server) -> Result<f64> {
        let Some((began, before)) = self.since else {
            return Ok(0.0);
        };
        let own = self.rate * began.elapsed().as_secs_f64();
        Ok((server.cpu()? - before - own).max(0.0))
    }
}
