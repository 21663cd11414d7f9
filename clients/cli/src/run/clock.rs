//! Time since the machine has started. It goes on while the machine sleeps, no step of the wall clock changes it, and
//! all processes of the machine read the same.

use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// Now.
pub fn now() -> Duration {
    // Linux has had it since 2.6.39; without a clock we can't say when a hold ends.
    let time = nix::time::clock_gettime(nix::time::ClockId::CLOCK_BOOTTIME);
    time.map_or(Duration::MAX, Duration::from)
}

/// Rings at a time by that clock; immediately if the machine has slept past it.
pub struct Alarm(Arc<TimerFd>);

impl Alarm {
    /// Not set yet. `ring` runs on its own thread, until it returns false.
    pub fn start(mut ring: impl FnMut(&Alarm) -> bool + Send + 'static) -> io::Result<Alarm> {
        let timer = TimerFd::new(ClockId::CLOCK_BOOTTIME, TimerFlags::TFD_CLOEXEC)?;
        let timer = Arc::new(timer);
        let alarm = Alarm(Arc::clone(&timer));
        thread::Builder::new()
            .spawn(move || while timer.wait().is_ok() && ring(&Alarm(Arc::clone(&timer))) {})?;
        Ok(alarm)
    }

    /// Rings then; an earlier setting is forgotten.
    pub fn set(&self, at: Duration) {
        let at = at.max(Duration::from_nanos(1)); // zero would unset it
        let once = Expiration::OneShot(TimeSpec::from_duration(at));
        _ = self.0.set(once, TimerSetTimeFlags::TFD_TIMER_ABSTIME);
    }

    /// Does not ring.
    pub fn unset(&self) {
        _ = self.0.unset();
    }
}
