//! One thread that runs everything: the tasks, their sockets and timers. The client has a core of its own, and the
//! server another.
//!
//! Timers are exact: rounded to milliseconds they would cheat the ways that poll.

use async_executor::LocalExecutor;
pub use async_executor::Task;
use async_io::Timer;
use futures_lite::future;
use std::future::Future;
use std::time::Duration;

thread_local! {
    static TASKS: LocalExecutor<'static> = const { LocalExecutor::new() };
}

/// Runs a future, and all the tasks that it spawns, until it is done.
pub fn block_on<T>(main: impl Future<Output = T>) -> T {
    TASKS.with(|tasks| async_io::block_on(tasks.run(main)))
}

/// Starts a task. It ends when its handle is dropped.
pub fn spawn<T: 'static>(task: impl Future<Output = T> + 'static) -> Task<T> {
    TASKS.with(|tasks| tasks.spawn(task))
}

pub async fn sleep(time: Duration) {
    Timer::after(time).await;
}

/// What a future gives, or nothing if that takes longer: then it is dropped.
pub async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let done = async { Some(future.await) };
    let too_late = async {
        sleep(limit).await;
        None
    };
    future::or(done, too_late).await
}

/// Lets tasks through, one for each permit.
pub struct Turnstile(async_lock::Semaphore);

impl Default for Turnstile {
    fn default() -> Turnstile {
        Turnstile(async_lock::Semaphore::new(0))
    }
}

impl Turnstile {
    /// Lets so many through, those that wait or those that come.
    pub fn open(&self, passes: usize) {
        self.0.add_permits(passes);
    }

    pub async fn pass(&self) {
        self.0.acquire().await.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_sleep_ends_when_it_should_and_not_a_millisecond_later() {
        let slept = block_on(async {
            let mut shortest = Duration::MAX;
            for _ in 0..20 {
                let began = Instant::now();
                sleep(Duration::from_micros(300)).await;
                shortest = shortest.min(began.elapsed());
            }
            shortest
        });
        assert!(slept >= Duration::from_micros(300), "{slept:?}");
        assert!(slept < Duration::from_micros(900), "{slept:?}");
    }
}
