//! Histories: many clients write down every call with its start, its end and its answer, while the
//! server has a bad day; then a checker that knows nothing of servers decides whether a lock may
//! have answered so.
//!
//! `LOCK_SOAK_SECONDS` makes each run longer, `LOCK_SEED` replays the choice of actions. A run that
//! fails says where it has written its history; `LOCK_HISTORY` names it to `record`, which judges it
//! again.

mod aftermath;
mod answers;
mod checker;
mod clients;
mod exclusion;
mod failovers;
mod faults;
mod guarded;
pub mod history;
mod index;
mod judge;
pub mod life;
mod limits;
mod line;
mod loss;
mod networks;
mod numbers;
mod places;
mod planted;
mod queueing;
mod record;
mod released;
pub mod run;
mod shorten;
mod slots;
mod spoilt;
mod takeovers;
mod unheard;
mod way;
