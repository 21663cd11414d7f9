//! The other judge: whether the calls at each lock can be put into one order, each at a moment between its start
//! and its end, that a lock which does one thing after the other would have answered so. What searches for that order is
//! not ours (`todc_utils`); ours are the lock and the way from a history to what was done at it.

mod lock;
mod numbers;
mod order;
mod step;
mod steps;

use super::history::{History, Micros};
use lock::Lock;
use numbers::Numbers;
use order::Queue;
use std::cell::Cell;
use std::fmt::Debug;
use std::marker::PhantomData;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History as Search};
use todc_utils::specifications::Specification;

/// To say that there is no order can take endless time: after so many tries the judge says nothing.
const MOST_TRIES: u32 = 200_000;

thread_local! {
    static TRIES: Cell<u32> = const { Cell::new(0) };
}

/// What the judge says of a history.
#[derive(Debug, Default)]
pub struct Opinion {
    /// What no order explains: of each lock, and of the numbers of all of them together, the last few steps up to the
    /// first that can't have been answered so.
    pub refused: Vec<String>,
    /// Of what it found no order in time.
    pub undecided: Vec<&'static str>,
}

/// What was done at some moment between these two.
#[derive(Clone, Debug)]
pub struct Span<T> {
    start: Micros,
    end: Micros,
    step: T,
}

/// Whether the calls at each lock have an order, and the numbers of all of them together.
pub fn accepts(history: &History) -> bool {
    let mut locks = steps::of_each_lock(history).into_values();
    let mut queues = order::of_each_lock(history).into_values();
    locks.all(|steps| has_an_order::<Lock, _>(&steps, Micros::MAX - 1))
        && queues.all(|turns| has_an_order::<Queue, _>(&turns, Micros::MAX - 1))
        && has_an_order::<Numbers, _>(&numbers::of_all_locks(history), Micros::MAX - 1)
}

pub fn opinion(history: &History) -> Opinion {
    let mut opinion = opinion_of_order(history);
    for (key, steps) in steps::of_each_lock(history) {
        opinion.add::<Lock, _>(key, steps);
    }
    opinion.add::<Numbers, _>("numbers", numbers::of_all_locks(history));
    opinion
}

/// Of the queues alone. That is said soon also of long histories, and of locks that move.
pub fn opinion_of_order(history: &History) -> Opinion {
    let mut opinion = Opinion::default();
    for (key, turns) in order::of_each_lock(history) {
        opinion.add::<Queue, _>(key, turns);
    }
    opinion
}

impl Opinion {
    fn add<S, T>(&mut self, of: &'static str, spans: Vec<Span<T>>)
    where
        S: Specification<Operation = Span<T>>,
        T: Clone + Debug,
    {
        TRIES.set(MOST_TRIES);
        match shortest::<S, T>(spans) {
            Some(last) => self.refused.push(format!("{of}: {last:#?}")),
            None if TRIES.get() == 0 => self.undecided.push(of),
            None => {}
        }
    }
}

/// What had begun by the earliest time from which on there is no order.
fn shortest<S, T>(mut spans: Vec<Span<T>>) -> Option<Vec<Span<T>>>
where
    S: Specification<Operation = Span<T>>,
    T: Clone + Debug,
{
    spans.sort_by_key(|span| span.start);
    let mut times: Vec<_> = spans.iter().map(|span| span.end).collect();
    times.sort_unstable();
    if has_an_order::<S, T>(&spans, *times.last()?) {
        return None;
    }
    let first = times.partition_point(|time| has_an_order::<S, T>(&spans, *time));
    let begun = spans.partition_point(|span| span.start <= times[first]);
    let mut last = spans[begun.saturating_sub(10)..begun].to_vec();
    last.extend(spans.iter().find(|span| span.end == times[first]).cloned());
    Some(last)
}

/// Whether there is one of what was over by this time. What was under way by then may be in it or not.
fn has_an_order<S, T>(spans: &[Span<T>], time: Micros) -> bool
where
    S: Specification<Operation = Span<T>>,
    T: Clone + Debug,
{
    // Each is a process of its own. Those that touch count as if they were under way at once.
    let mut moments = Vec::new();
    for (process, span) in spans.iter().enumerate().filter(|(_, span)| span.start <= time) {
        moments.push((span.start, false, process));
        moments.push((if span.end <= time { span.end } else { Micros::MAX }, true, process));
    }
    let end = spans.len();
    moments.push((time + 1, false, end));
    moments.push((time + 1, true, end));
    moments.sort_unstable();
    let actions = moments.into_iter().map(|(_, is_end, process)| {
        let step = spans.get(process).cloned();
        (process, if is_end { Action::Response(step) } else { Action::Call(step) })
    });
    TRIES.set(MOST_TRIES);
    WGLChecker::<Begun<S>>::is_linearizable(Search::from_actions(actions.collect()))
}

/// The same thing up to some time: `None`. What is not done by then has not been done.
struct Begun<S>(PhantomData<S>);

impl<S: Specification> Specification for Begun<S> {
    type State = (bool, S::State);
    type Operation = Option<S::Operation>;

    fn init() -> Self::State {
        (false, S::init())
    }

    fn apply(step: &Self::Operation, (is_over, state): &Self::State) -> (bool, Self::State) {
        let left = TRIES.get().saturating_sub(1);
        TRIES.set(left);
        match step {
            _ if left == 0 => (true, (true, S::init())),
            Some(step) if !is_over => {
                let (is_right, state) = S::apply(step, state);
                (is_right, (false, state))
            }
            _ => (true, (true, state.clone())),
        }
    }
}
