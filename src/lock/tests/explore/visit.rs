//! One thread's way through the states of a level.

use crate::lock::tests::model::Verdict;

use super::fingerprint::{Fingerprint, Reader};
use super::memory::{Moment, Piece};
use super::search::{Found, Link, Walk};
use super::world::{ROUNDS, World};

pub struct Visitor<'w> {
    walk: &'w Walk<'w>,
    world: Piece<World>,
    /// The history of the state that is visited, and its moments: before the first step, after that, …
    path: Vec<usize>,
    moments: Vec<Moment>,
    /// What is done after it.
    action: Option<usize>,
    /// The states on the way to its end.
    drained: Vec<Fingerprint>,
    reader: Reader,
    pub found: Found,
}

impl<'w> Visitor<'w> {
    pub fn new(walk: &'w Walk<'w>) -> Self {
        let world = Piece::new(|| World::new(walk.setting));
        let mut first = Moment::default();
        world.keep(&mut first);
        Self {
            walk,
            world,
            path: Vec::new(),
            moments: vec![first],
            action: None,
            drained: Vec::new(),
            reader: Reader::default(),
            found: Found::default(),
        }
    }

    /// What has been done, step by step.
    pub fn history(&self) -> Vec<usize> {
        let steps = self.path.iter().copied();
        steps.chain(self.action).collect()
    }

    fn does(&mut self, action: usize) -> Verdict<bool> {
        let action = self.walk.setting.actions[action];
        self.world.act(|world| world.act(action))
    }

    fn fingerprint(&mut self) -> Fingerprint {
        self.world.read(|world| self.reader.read(world))
    }

    /// Does all that can be done in this state.
    pub fn go_on_from(&mut self, at: usize) -> Verdict {
        self.go_to(&self.walk.path(at))?;
        let mut is_there = true;
        for action in 0..self.walk.setting.actions.len() {
            if !is_there {
                self.world.go_back(&self.moments[self.path.len()]);
            }
            self.action = Some(action);
            // What can't be done changes nothing.
            is_there = !self.does(action)?;
            if !is_there && self.is_new()? {
                let (parent, action) = (at as u32, action as u8);
                self.found.links.push(Link { parent, action });
            }
        }
        Ok(())
    }

    /// Goes back to where this history parts from the last one, and lives through the rest of it.
    fn go_to(&mut self, path: &[usize]) -> Verdict {
        let same = self.path.iter().zip(path);
        let same = same.take_while(|(one, other)| one == other).count();
        self.path.truncate(same);
        self.world.go_back(&self.moments[same]);
        for &action in &path[same..] {
            self.action = Some(action);
            self.does(action)?;
            self.path.push(action);
            let steps = self.path.len();
            if self.moments.len() == steps {
                self.moments.push(Moment::default());
            }
            self.world.keep(&mut self.moments[steps]);
        }
        self.action = None;
        Ok(())
    }

    /// Has this state not been seen before? Then it must be right.
    fn is_new(&mut self) -> Verdict<bool> {
        self.found.transitions += 1;
        let state = self.fingerprint();
        let is_new = self.walk.seen.insert(state);
        if state.is_multiple_of(self.walk.reach.compare_one_in) {
            self.walk.compare(state, &self.history(), &mut self.found)?;
        }
        if is_new {
            self.world.act(World::check)?;
            (self.drain(state)).map_err(|why| format!("when all let go then: {why}"))?;
        }
        Ok(is_new)
    }

    /// When trouble ends and everybody lets go, all are served and nothing is left. Many ways to that end
    /// meet: what one of them has come through to the end the others need not.
    fn drain(&mut self, state: Fingerprint) -> Verdict {
        self.drained.clear();
        if self.has_been_drained(state) {
            return Ok(());
        }
        let mut is_over = false;
        if self.world.act(World::end_trouble)? {
            let state = self.fingerprint();
            is_over = self.has_been_drained(state);
        }
        while !is_over {
            if self.drained.len() > ROUNDS {
                return Err(self.world.read(World::what_is_left));
            }
            self.found.drained += 1;
            is_over = self.world.act(World::let_go)? || {
                let state = self.fingerprint();
                self.has_been_drained(state)
            };
        }
        (self.drained.iter()).for_each(|&state| _ = self.walk.drained.insert(state));
        Ok(())
    }

    /// Has any thread come from there to the end? If not, this one is there now.
    fn has_been_drained(&mut self, state: Fingerprint) -> bool {
        self.drained.push(state);
        self.walk.drained.contains(state)
    }
}
