//! What suppressions look at: the names in a finding.

use super::Sort;
use super::pattern::Pattern;
use crate::report::{Access, Finding, Kind};

/// A call of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Call<'a> {
    /// The function.
    pub function: Option<&'a str>,
    /// The source file.
    pub file: Option<&'a str>,
    /// The program or library.
    pub module: Option<&'a str>,
}

impl Call<'_> {
    fn has(&self, pattern: &Pattern) -> bool {
        [self.function, self.file, self.module].into_iter().flatten().any(|name| pattern.matches(name))
    }
}

/// The names in a finding.
#[derive(Clone, Debug, Default)]
pub struct Subject<'a> {
    /// Its fingerprint.
    pub id: Option<&'a str>,
    /// What sort of bug it is; nothing for a violation of a guard's invariants.
    pub kind: Option<Kind>,
    /// The calls that led to each access, innermost first.
    pub stacks: Vec<Vec<Call<'a>>>,
    /// The variables.
    pub variables: Vec<&'a str>,
}

impl<'a> Subject<'a> {
    /// The names in a finding.
    pub fn of(finding: &'a Finding) -> Subject<'a> {
        Subject {
            id: Some(&finding.id),
            kind: Some(finding.kind),
            stacks: finding.accesses.iter().map(calls).collect(),
            variables: finding.accesses.iter().filter_map(|access| access.variable.as_deref()).collect(),
        }
    }

    /// Whether suppressions of this sort are for it.
    pub(super) fn is_of(&self, sort: Sort) -> bool {
        self.kind.map_or(sort == Sort::Invariant, |kind| sort.is_for(kind))
    }

    /// Whether a name that this sort looks at is matched.
    pub(super) fn has(&self, sort: Sort, pattern: &Pattern) -> bool {
        match sort {
            Sort::RaceTop => self.stacks.iter().filter_map(|stack| stack.first()).any(|call| call.has(pattern)),
            Sort::CalledFromLib => {
                let module = |call: &Call<'_>| call.module.is_some_and(|module| pattern.matches(module));
                self.stacks.iter().any(|stack| stack.iter().skip(1).any(module))
            }
            _ => {
                self.stacks.iter().flatten().any(|call| call.has(pattern))
                    || self.variables.iter().any(|name| pattern.matches(name))
            }
        }
    }
}

/// The calls that led to an access; the access alone where they are not known.
fn calls(access: &Access) -> Vec<Call<'_>> {
    let here = Call { function: access.function.as_deref(), file: access.file.as_deref(), module: None };
    let stack = access.stack.iter().map(|frame| Call {
        function: frame.function.as_deref(),
        file: frame.file.as_deref(),
        module: frame.module.as_deref(),
    });
    let mut calls: Vec<Call<'_>> = stack.collect();
    match calls.first_mut() {
        // The access knows its own place best.
        Some(top) => {
            top.function = here.function.or(top.function);
            top.file = here.file.or(top.file);
        }
        None => calls.push(here),
    }
    calls
}
