//! Blocks of Valgrind's suppression files.
//!
//! ```text
//! {
//!    a name
//!    Helgrind:Race
//!    fun:deposit
//!    ...
//!    obj:*/liboffice.so*
//! }
//! ```
//!
//! Calls are matched from the innermost one outwards, `...` stands for any number of them, and what lies further out does not
//! matter. Blocks for other tools and other errors are read and hide nothing. Function names of C++ are compared
//! as people read them, where Valgrind compares what the compiler made of them.

use super::pattern::Glob;
use super::subject::Call;
use super::{ParseError, Rule, Sort, Suppression};

/// One line of a block's calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `fun:`, a function.
    Function(Glob),
    /// `obj:`, a program or library.
    Object(Glob),
    /// `src:`, a source file.
    Source(Glob),
    /// `...`, any calls.
    Any,
}

impl Step {
    fn parse(line: &str) -> Option<Step> {
        match line.split_once(':') {
            None if line == "..." => Some(Step::Any),
            Some(("fun", name)) => Some(Step::Function(Glob::new(name))),
            Some(("obj", name)) => Some(Step::Object(Glob::new(name))),
            // A line number may follow; it would not outlive the next change.
            Some(("src", name)) => Some(Step::Source(Glob::new(name.split(':').next().unwrap_or(name)))),
            _ => None,
        }
    }

    fn matches(&self, call: &Call<'_>) -> bool {
        let is = |glob: &Glob, name: Option<&str>| name.is_some_and(|name| glob.matches(name));
        match self {
            Step::Function(glob) => is(glob, call.function),
            // Findings name files without their directories.
            Step::Object(glob) => is(glob, call.module) || is(&glob.last_part(), call.module),
            Step::Source(glob) => is(glob, call.file) || is(glob, call.file.and_then(|file| file.rsplit('/').next())),
            Step::Any => true,
        }
    }
}

/// Whether the steps match the calls from the innermost one on: after each step, how many calls it may have taken.
pub(super) fn covers(steps: &[Step], calls: &[Call<'_>]) -> bool {
    let mut taken = vec![false; calls.len() + 1];
    if let Some(none) = taken.first_mut() {
        *none = true;
    }
    for step in steps {
        let mut next = vec![false; taken.len()];
        if *step == Step::Any {
            let first = taken.iter().position(|may| *may).unwrap_or(taken.len());
            next.iter_mut().skip(first).for_each(|may| *may = true);
        } else {
            let after = next.iter_mut().skip(1);
            for ((after, before), call) in after.zip(&taken).zip(calls) {
                *after = *before && step.matches(call);
            }
        }
        taken = next;
    }
    taken.contains(&true)
}

/// Calls that a block may name; Valgrind takes no more than 24.
const MOST_CALLS: usize = 64;

/// A block, from the line after its `{` on; nothing for one that is for another tool.
pub(super) fn block<'a>(
    begin: u32,
    lines: &mut impl Iterator<Item = (u32, &'a str)>,
) -> Result<Option<Suppression>, ParseError> {
    let mut inside = Vec::new();
    loop {
        match lines.next() {
            None => return Err(ParseError::Unclosed { line: begin }),
            Some((_, "}")) => break,
            Some((_, line)) if line.is_empty() || line.starts_with('#') => {}
            Some((number, line)) => inside.push((number, line)),
        }
    }
    let mut inside = inside.into_iter();
    let (Some((_, name)), Some((number, tools))) = (inside.next(), inside.next()) else {
        return Err(ParseError::Empty { line: begin });
    };
    let Some((tools, error)) = tools.split_once(':') else {
        return Err(ParseError::NoTool { line: number, text: tools.to_owned() });
    };
    let sort = match error.trim() {
        "Race" | "ConflictingAccess" => Sort::Race,
        "LockOrder" => Sort::Deadlock,
        _ => return Ok(None),
    };
    if !tools.split(',').any(|tool| matches!(tool.trim().to_ascii_lowercase().as_str(), "helgrind" | "drd")) {
        return Ok(None);
    }
    let mut steps = Vec::new();
    for (number, line) in inside {
        let step = Step::parse(line).ok_or_else(|| ParseError::NoCall { line: number, text: line.to_owned() })?;
        // Two of them in a row say no more than one.
        if !(step == Step::Any && steps.last() == Some(&Step::Any)) {
            steps.push(step);
        }
        if steps.len() > MOST_CALLS {
            return Err(ParseError::TooManyCalls { line: number });
        }
    }
    let text = format!("{{{name}}}");
    Ok(Some(Suppression { rule: Rule::Calls(sort, steps), text, line: begin, expires: None, bug: None }))
}
