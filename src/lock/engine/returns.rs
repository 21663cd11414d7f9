//! Holds that may have to be given back: see `take_back.rs`.

use std::rc::Rc;

use crate::lock::name::Name;

/// A hold to be looked at. Its record in the ledger says whether it has to be given back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::lock) struct Return {
    pub name: Name,
    pub owner: Rc<[u8]>,
}
