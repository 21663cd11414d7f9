//! Holds that may have to be given back.

use std::rc::Rc;

use super::name::Name;

/// A hold to be looked at: what the ledger remembers of it says whether it has to be given back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Return {
    pub name: Name,
    pub owner: Rc<[u8]>,
}
