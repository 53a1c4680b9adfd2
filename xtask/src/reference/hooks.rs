//! `hooks.md`: the hooks and the interposed functions.

use selvedge_events::hooks::{AtomicOp, Flavour, HOOKS, Hook, HookClass, Rw};
use selvedge_events::interpose::{Family, INTERPOSED, Shape};

use super::{code, head, table};
use crate::Outcome;
use crate::doc_comments;

/// The page; families and shapes are described by the doc comments in `interpose`, a source text.
pub(super) fn page(interpose: &str) -> Outcome<String> {
    let hooks = HOOKS.iter().map(|hook| {
        vec![
            code(hook.name),
            class(hook.class),
            disarmed(hook),
            survey(hook).to_owned(),
            record(hook).words().to_owned(),
        ]
    });
    let hooks = table(&["hook", "class", "disarmed site", "armed by survey", "armed by record"], hooks);
    let shapes = doc_comments::variants(interpose, "Shape");
    let shapes = table(&["shape", "how it is wrapped"], shapes.into_iter().map(|(name, doc)| vec![word(&name), doc]));
    Ok(format!(
        "{}
Compilers call these under `-fsanitize=thread` and `-fsanitize-coverage=trace-pc`. A call of a hook is a *site*. A
disarmed site is patched before its code can run: into a nop, or into the few bytes that do the hook's whole job;
where the call must stay, it does what the program asked for and observes nothing.

- a survey arms every site that it can learn from, and finds out which of them touch memory that threads share;
- a recording arms the sites that a survey chose.

{hooks}
## Interposed functions

Each is one indirect jump through a slot: to the real function, or to ours where the plan observes. A program that
defines such a function itself keeps its own.

{shapes}
{}",
        head("Hooks", "`hooks.rs` and `interpose.rs` in `crates/events/src`"),
        families(interpose)?
    ))
}

/// The functions, family by family.
fn families(interpose: &str) -> Outcome<String> {
    let docs = doc_comments::variants(interpose, "Family");
    let mut all: Vec<Family> = INTERPOSED.iter().map(|row| row.family).collect();
    all.sort();
    all.dedup();
    let mut rows = Vec::new();
    for family in all {
        let name = format!("{family:?}");
        let (_, doc) = docs.iter().find(|(variant, _)| *variant == name).ok_or(format!("Family::{name} has no doc"))?;
        for shape in [Shape::Own, Shape::Block, Shape::Note, Shape::Pass] {
            let of = INTERPOSED.iter().filter(|row| row.family == family && row.shape == shape);
            let names: Vec<String> = of.map(|row| code(row.name)).collect();
            if !names.is_empty() {
                let about = format!("{}: {doc}", word(&name));
                rows.push(vec![about, word(&format!("{shape:?}")), names.join(", ")]);
            }
        }
    }
    Ok(table(&["family", "shape", "functions"], rows))
}

/// A variant's name as a word in a sentence.
fn word(variant: &str) -> String {
    code(&variant.to_ascii_lowercase())
}

fn class(class: HookClass) -> String {
    let rw = |rw| match rw {
        Rw::Read => "read",
        Rw::Write => "write",
        Rw::ReadWrite => "read and write",
    };
    match class {
        HookClass::Access { rw: way, size, flavour } => {
            let flavour = match flavour {
                Flavour::Plain => "",
                Flavour::Unaligned => ", unaligned",
                Flavour::Volatile => ", volatile",
                Flavour::UnalignedVolatile => ", unaligned, volatile",
                Flavour::Vptr => ", virtual-table pointer",
            };
            format!("access: {} of {size}{flavour}", rw(way))
        }
        HookClass::Range { rw: way } => format!("range: {}", rw(way)),
        HookClass::Copy => "copy".to_owned(),
        HookClass::Libc => "libc".to_owned(),
        HookClass::Atomic { op, size: 0 } => format!("fence: {}", operation(op)),
        HookClass::Atomic { op, size } => format!("atomic: {} of {size}", operation(op)),
        HookClass::Function { entry: true } => "function entry".to_owned(),
        HookClass::Function { entry: false } => "function exit".to_owned(),
        HookClass::Block => "block".to_owned(),
        HookClass::Init => "initialisation".to_owned(),
        HookClass::Fiber => "fiber".to_owned(),
        HookClass::Annotation => "annotation".to_owned(),
    }
}

fn operation(op: AtomicOp) -> &'static str {
    match op {
        AtomicOp::Load => "load",
        AtomicOp::Store => "store",
        AtomicOp::Exchange => "exchange",
        AtomicOp::Add => "add",
        AtomicOp::Sub => "subtract",
        AtomicOp::And => "and",
        AtomicOp::Or => "or",
        AtomicOp::Xor => "xor",
        AtomicOp::Nand => "nand",
        AtomicOp::CasStrong | AtomicOp::CasWeak | AtomicOp::CasVal => "compare-exchange",
        AtomicOp::ThreadFence => "between threads",
        AtomicOp::SignalFence => "between a thread and its signal handlers",
    }
}

/// What a site costs that nobody armed.
fn disarmed(hook: &Hook) -> String {
    match hook.disarmed {
        _ if !hook.is_site() => "not a site".to_owned(),
        None => "call stays".to_owned(),
        Some([]) => "nop".to_owned(),
        Some([_]) => "1 byte inline".to_owned(),
        Some(bytes) => format!("{} bytes inline", bytes.len()),
    }
}

fn survey(hook: &Hook) -> &'static str {
    match record(hook) {
        Armed::NotASite => "-",
        Armed::Never => "no",
        _ => "yes",
    }
}

/// Which sites of a hook a recording arms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Armed {
    NotASite,
    Never,
    Always,
    WhereShared,
    WhereOnStack,
}

impl Armed {
    fn words(self) -> &'static str {
        match self {
            Armed::NotASite => "-",
            Armed::Never => "no",
            Armed::Always => "always",
            Armed::WhereShared => "where it touched shared memory, or did not run",
            Armed::WhereOnStack => "where it was on the stack of what is recorded, or did not run",
        }
    }
}

fn record(hook: &Hook) -> Armed {
    match hook.class {
        HookClass::Access { .. } | HookClass::Range { .. } | HookClass::Copy | HookClass::Libc => Armed::WhereShared,
        // It orders nothing between threads: the runtime has no entry for it.
        HookClass::Atomic { op: AtomicOp::SignalFence, .. } => Armed::Never,
        HookClass::Atomic { .. } => Armed::Always,
        HookClass::Function { .. } => Armed::WhereOnStack,
        HookClass::Block => Armed::Never,
        HookClass::Init | HookClass::Fiber | HookClass::Annotation => Armed::NotASite,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use selvedge_drive::arm::{ImageSites, arm};
    use selvedge_events::hooks::{HookIx, by_name};
    use selvedge_events::site_table::{Entry, Form};
    use selvedge_trace::Survey;
    use selvedge_trace::survey::Seen;

    use super::*;

    /// What the driver does with one site of this hook after each sort of survey.
    fn armed(hook: HookIx) -> Armed {
        let with = |seen: Option<(bool, bool)>| {
            let entry = Entry { offset: 16, hook, form: Form::Call, code: [0xe8, 0, 0, 0, 0, 0, 0, 0] };
            let mut survey = Survey::default();
            if let Some((shared, on_stack)) = seen {
                survey.add(&[1; 20], Path::new("p"), 16, Seen { hook, shared, on_stack, hits: 1 });
            }
            let image = ImageSites {
                build_id: vec![1; 20],
                entries: vec![entry],
                functions: vec![None],
                ..ImageSites::default()
            };
            let (specs, _) = arm(&survey, &[image]);
            specs.iter().any(|spec| !spec.sites.is_empty())
        };
        let seen = [None, Some((false, false)), Some((true, false)), Some((false, true))];
        match seen.map(with) {
            [true, true, ..] => Armed::Always,
            [true, _, true, false] => Armed::WhereShared,
            [true, _, false, true] => Armed::WhereOnStack,
            _ => Armed::Never,
        }
    }

    #[test]
    fn the_page_says_what_the_driver_does() {
        for hook in HOOKS.iter().filter(|hook| hook.is_site()) {
            let signal_fence = matches!(hook.class, HookClass::Atomic { op: AtomicOp::SignalFence, .. });
            if !signal_fence {
                assert_eq!(by_name(hook.name).map(armed), Some(record(hook)), "{}", hook.name);
            }
        }
    }

    #[test]
    fn costs_are_told() {
        let of = |name| by_name(name).and_then(HookIx::get).map(disarmed).unwrap_or_default();
        assert_eq!(of("__tsan_read4"), "nop");
        assert_eq!(of("__tsan_atomic32_load"), "2 bytes inline");
        assert_eq!(of("__tsan_atomic128_load"), "call stays");
        assert_eq!(of("__tsan_init"), "not a site");
    }
}
