//! Which commands are other modules'.

use std::cell::RefCell;
use std::collections::HashMap;

use super::ffi::{Ctx, Lent, call};

/// For each command that we have asked about, whether it is a module's.
#[derive(Default)]
pub struct Origins(RefCell<HashMap<Vec<u8>, bool>>);

/// So many names are remembered at most.
const MOST_NAMES: usize = 1024;

impl Origins {
    /// Modules have come or gone.
    pub fn forget(&self) {
        self.0.borrow_mut().clear();
    }

    /// Is this command a module's? One that does not exist is not.
    pub fn is_modules(&self, ctx: Ctx<'_>, name: Lent<'_>) -> bool {
        let key = name.bytes().to_ascii_lowercase();
        if let Some(&known) = self.0.borrow().get(&key) {
            return known;
        }
        let Some(info) = call::command_info(ctx, name) else {
            return true;
        };
        let described = info.whole().items().next();
        let flags = described.and_then(|info| info.items().nth(2));
        let exists = flags.is_some();
        let is_modules =
            flags.is_some_and(|list| list.items().any(|flag| flag.text() == b"module"));
        if exists && self.0.borrow().len() < MOST_NAMES {
            self.0.borrow_mut().insert(key, is_modules);
        }
        is_modules
    }
}
