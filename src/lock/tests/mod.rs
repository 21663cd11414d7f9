//! Tests of the core, on simulated keys under a simulated clock.
//!
//! | file | idea |
//! |---|---|
//! | `simulated` | keys, and a little server around them: connections, answers, ends, its clock |
//! | `model` | what a lock may do, judged by what goes in and what comes out |
//! | `interleavings` | random histories of the core, which the model follows |
//! | `explore` | every history of some small worlds, the shortest first |
//! | `fairness` | random histories of one lock with FAIR, beside an order that is worked out anew |
//! | `graphs` | random graphs of owners that wait, for the search for deadlocks alone |
//! | `replicated` | random and all short histories of three nodes, with REPLICAS and a promotion |
//! | `rules` | single rules, one short history each |
//! | `sums` | counts of what histories got to see |
#![allow(
    clippy::arithmetic_side_effects,
    clippy::cast_possible_truncation,
    reason = "an overflow in a test is a failed test, and the numbers are small"
)]

mod explore;
mod fairness;
mod graphs;
mod interleavings;
mod model;
mod replicated;
mod rules;
mod simulated;
mod sums;
