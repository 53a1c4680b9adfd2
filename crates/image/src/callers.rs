//! Who calls whom, as far as the code says it by address: one pass over the branches, without control flow.

use std::collections::{BTreeMap, BTreeSet};

use crate::functions::Functions;
use crate::image::Image;
use crate::x86::{self, Target};

/// By function: those that call it, or jump to its beginning. All are groups of `functions`; the runtime's are left out.
pub fn direct_callers(image: &Image, functions: &Functions) -> BTreeMap<u32, BTreeSet<u32>> {
    let mut callers: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for function in functions.all().iter().filter(|function| !function.runtime) {
        let len = usize::try_from(function.end - function.start).unwrap_or(0);
        let Some(code) = image.loaded_bytes(function.start, len) else { continue };
        x86::branches(code, function.start + image.base(), |branch| {
            let Target::Direct(to) = branch.target else { return };
            let callee =
                to.checked_sub(image.base()).and_then(|to| functions.at(to).filter(|callee| callee.start == to));
            if let Some(callee) = callee.filter(|callee| callee.group != function.group && !callee.runtime) {
                callers.entry(callee.group).or_default().insert(function.group);
            }
        });
    }
    callers
}
