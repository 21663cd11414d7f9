//! What is not remembered any more, and has yet to be freed: a little in each turn, because there may
//! be millions of pieces.

use std::fmt;

/// So few are freed at once.
const FEW: usize = 256;

/// Memory that is to be freed.
#[derive(Default)]
pub struct Discarded {
    /// Each frees one of its pieces when it is asked for the next.
    left: Vec<Box<dyn Iterator<Item = ()>>>,
}

impl Discarded {
    /// Is all freed?
    pub fn is_empty(&self) -> bool {
        self.left.is_empty()
    }

    /// How many collections there are that are not freed.
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// So many things are to be freed, in these pieces.
    pub fn add<T: 'static>(&mut self, things: usize, pieces: impl Iterator<Item = T> + 'static) {
        if things > FEW {
            self.left.push(Box::new(pieces.map(drop)));
        }
    }

    /// Frees the next piece, if there is one.
    pub fn free_one(&mut self) {
        if let Some(pieces) = self.left.last_mut()
            && pieces.next().is_none()
        {
            self.left.pop();
        }
    }
}

impl fmt::Debug for Discarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to be freed", self.left.len())
    }
}
