//! Memory of forgotten holds that has yet to be freed. It is freed a little in each tick, because there
//! may be millions of pieces.

use std::fmt;

/// Collections of up to this many things are freed at once, not in portions.
const FEW: usize = 256;

/// Collections that are yet to be freed.
#[derive(Default)]
pub struct Discarded {
    /// Each iterator frees one piece of its collection for each call of `next`.
    left: Vec<Box<dyn Iterator<Item = ()>>>,
}

impl Discarded {
    pub fn len(&self) -> usize {
        self.left.len()
    }

    /// Frees these pieces, of `things` things in all: at once if there are few, or else later, one by one.
    pub fn add<T: 'static>(&mut self, things: usize, pieces: impl Iterator<Item = T> + 'static) {
        if things > FEW {
            self.left.push(Box::new(pieces.map(drop)));
        }
    }

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
