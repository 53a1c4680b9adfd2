//! Variables, as functions name them.

use serde::Serialize;

/// What a place is reached from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Root {
    /// The program: the first step is where a global lies.
    Global,
    /// The function's n-th argument, from 1.
    Argument(u8),
    /// The function's own frame, or the thread's own memory.
    Private,
    /// Some value of the function.
    Local(u32),
}

/// An address: from the root on, each step but the last adds a number and loads what lies there; the last only adds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// Where it begins.
    pub root: Root,
    /// The steps; never empty.
    pub path: Vec<i64>,
}

/// Longest path that crosses a call.
const LONGEST: usize = 6;

impl Place {
    /// Whether other threads do not see it.
    pub fn is_private(&self) -> bool {
        self.root == Root::Private && self.path.len() == 1
    }

    /// Whether the name means something to callers.
    pub(super) fn is_known_outside(&self) -> bool {
        matches!(self.root, Root::Global | Root::Argument(_))
    }

    /// What a callee's place is called by a caller that passes these arguments.
    pub(super) fn in_caller(&self, arguments: &[Option<Place>]) -> Option<Place> {
        match self.root {
            Root::Global => Some(self.clone()),
            Root::Argument(number) => {
                let value = arguments.get(usize::from(number).checked_sub(1)?)?.as_ref()?;
                let (first, rest) = self.path.split_first()?;
                let mut path = value.path.clone();
                let last = path.last_mut()?;
                *last = last.checked_add(*first)?;
                path.extend(rest);
                (path.len() <= LONGEST).then_some(Place { root: value.root, path })
            }
            Root::Private | Root::Local(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(root: Root, path: &[i64]) -> Place {
        Place { root, path: path.to_vec() }
    }

    #[test]
    fn a_callees_names_become_the_callers() {
        let arguments = [
            Some(place(Root::Global, &[100, 8])),
            None,
            Some(place(Root::Local(3), &[0])),
            Some(place(Root::Private, &[-8])),
        ];
        let rows = [
            (place(Root::Global, &[5]), Some(place(Root::Global, &[5]))),
            (place(Root::Argument(1), &[4]), Some(place(Root::Global, &[100, 12]))),
            (place(Root::Argument(1), &[4, 16]), Some(place(Root::Global, &[100, 12, 16]))),
            (place(Root::Argument(2), &[4]), None),
            (place(Root::Argument(3), &[-4]), Some(place(Root::Local(3), &[-4]))),
            (place(Root::Argument(4), &[4]), Some(place(Root::Private, &[-4]))),
            (place(Root::Argument(9), &[4]), None),
            (place(Root::Local(1), &[0]), None),
        ];
        for (callee, caller) in rows {
            assert_eq!(callee.in_caller(&arguments), caller, "{callee:?}");
        }
    }
}
