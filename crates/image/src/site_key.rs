//! Names of sites that stay the same when unchanged code is built again: `bank.c:withdraw+3:12:w4`.
//!
//! A key says the source file, the function, the line counted from the function's own first line, the column, and what
//! the hook does. So code that is added above or in other files, or built in another directory, changes no key; what is
//! changed inside a function changes keys of that function only.
//!
//! ```text
//! bank.c:withdraw+3:12:w4          line 3 after the function's first, column 12: writes 4 bytes
//! list.h:pay/push+1:8:r8           `push`, inlined into `pay`
//! list.h(bank.c):push+1:8:r8       a `static` function of a header, as bank.c has it
//! a/util.c:init+2:5:w4             another util.c has an `init` too
//! bank.c:withdraw+3:12:w4#2        the second of equals, by ascending offset
//! body.inc:withdraw=17:12:w4       the line itself: the function begins in another file
//! bank.c:_GLOBAL__sub_I@1a:w4      where the function begins is not said (the compiler made it, or the debug
//!                                  information has lines alone): the offset in the function's code
//! ?:withdraw@1a4:w4                no line is known
//! ?:@4f1a4:w4                      no name either: the offset in the image
//! ```
//!
//! A column that is not known is 0. Blanks in names (`operator new`) become `_`, or go where nothing is lost. Names of
//! more than [`LONGEST_NAME`] bytes are cut, with a checksum of the rest.
//!
//! Cannot tell: overloads, and the copies that a compiler makes of one function, by anything but their order.

use std::collections::BTreeMap;

use selvedge_events::bytes::checksum;
use selvedge_events::hooks::{AtomicOp, Flavour, Hook, HookClass, Rw};
use selvedge_events::site_table::Entry;

use crate::demangle::demangle;
use crate::index::Loaded;
use crate::lines::Symboliser;

/// Most bytes of a function's name in a key.
pub const LONGEST_NAME: usize = 200;

/// The key of every entry of the site table, in its order. No two are equal.
pub fn site_keys(loaded: &Loaded) -> Vec<String> {
    let symboliser = Symboliser::new(&loaded.image);
    let parts = loaded.entries.iter().map(|entry| Parts::of_entry(entry, &symboliser));
    keys(&parts.collect::<Vec<Parts>>())
}

/// The keys of calls at these offsets, which ascend; they end in `call`. A call has the same key in another build if the offsets are
/// those of the same calls.
pub fn call_keys(loaded: &Loaded, offsets: &[u64]) -> Vec<String> {
    keys_of_code(&Symboliser::new(&loaded.image), offsets, "call")
}

/// Keys of other places in the code, which all do the same.
pub(crate) fn keys_of_code(symboliser: &Symboliser, offsets: &[u64], does: &str) -> Vec<String> {
    let parts = offsets.iter().map(|offset| Parts::new(*offset, does.to_owned(), false, symboliser));
    keys(&parts.collect::<Vec<Parts>>())
}

fn keys(parts: &[Parts]) -> Vec<String> {
    let files = file_names(parts);
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let key = |parts: &Parts| {
        let plain = parts.text(&files);
        let count = seen.entry(plain.clone()).or_insert(0);
        *count += 1;
        if *count == 1 { plain } else { format!("{plain}#{count}") }
    };
    parts.iter().map(key).collect()
}

/// What a key is made of.
struct Parts {
    /// The whole path of the source file; empty where not known.
    file: String,
    /// The unit, where the name is not enough.
    unit: Option<String>,
    /// `outer/inner`, or the only function.
    function: String,
    place: Place,
    does: String,
}

enum Place {
    /// Lines after the function's first, and the column.
    Relative(i64, u32),
    /// The line itself.
    Line(u32, u32),
    /// Offset of code.
    Code(u64),
}

impl Parts {
    fn of_entry(entry: &Entry, symboliser: &Symboliser) -> Parts {
        let does = entry.hook.get().map_or_else(|| format!("hook{}", entry.hook.0), does);
        // The entry is the whole function's; compilers differ about where in its head it is.
        let is_entry = entry.hook.get().is_some_and(|hook| hook.class == HookClass::Function { entry: true });
        Parts::new(u64::from(entry.offset), does, is_entry, symboliser)
    }

    fn new(offset: u64, does: String, is_entry: bool, symboliser: &Symboliser) -> Parts {
        let symbol = symboliser.functions().at(offset).filter(|function| function.symbol.is_some());
        let outer = symbol.and_then(|function| Some((symbol_name(function.symbol.as_deref()?), function.start)));
        let frames = symboliser.frames(offset);
        let innermost = frames.first().filter(|frame| frame.file.is_some() || frame.line.is_some());
        let (Some(innermost), Some(outermost)) = (innermost, frames.last()) else {
            let (function, start) = outer.unwrap_or_default();
            return Parts { file: String::new(), unit: None, function, place: Place::Code(offset - start), does };
        };
        let declared = symboliser.declared(offset).unwrap_or_default();
        let column = innermost.column.filter(|_| !is_entry).unwrap_or(0);
        let file = innermost.file.clone().unwrap_or_default();
        // A body may be included from another file than the function's head.
        let is_elsewhere = declared.file.as_deref().is_some_and(|head| head != base_name(&file));
        let place = match (innermost.line, declared.line) {
            (_, Some(_)) if is_entry => Place::Relative(0, 0),
            (Some(line), Some(_)) if is_elsewhere => Place::Line(line, column),
            (Some(line), Some(first)) => Place::Relative(i64::from(line) - i64::from(first), column),
            (None, _) | (_, None) => Place::Code(offset - symbol.map_or(0, |function| function.start)),
        };
        let is_local = symbol.is_none_or(|function| symboliser.functions().is_local(function));
        let unit = declared.unit.filter(|unit| is_local && base_name(&file) != unit);
        // The debug information of what is local to a C++ file has no whole names.
        let mut function = outer.map_or_else(|| name(&outermost.function), |(name, _)| name);
        if innermost.inlined {
            function = format!("{function}/{}", name(&innermost.function));
        }
        Parts { file, unit, function, place, does }
    }

    /// What two files of one name would share.
    fn scope(&self) -> Scope<'_> {
        (base_name(&self.file), self.unit.as_deref(), &self.function)
    }

    fn text(&self, files: &BTreeMap<(Scope<'_>, &str), &str>) -> String {
        let file = files.get(&(self.scope(), self.file.as_str())).copied().unwrap_or("?");
        let unit = self.unit.as_ref().map_or_else(String::new, |unit| format!("({unit})"));
        let place = match self.place {
            Place::Relative(by, column) => format!("{by:+}:{column}"),
            Place::Line(line, column) => format!("={line}:{column}"),
            Place::Code(offset) => format!("@{offset:x}"),
        };
        // A path has any character that a file system allows.
        format!("{}:{}{place}:{}", name(&format!("{file}{unit}")), self.function, self.does)
    }
}

type Scope<'a> = (&'a str, Option<&'a str>, &'a str);

/// The name of each file in each scope: its base name, with as many directories as tell it apart from other
/// files with a function of that name, none of them above what they all share.
fn file_names(parts: &[Parts]) -> BTreeMap<(Scope<'_>, &str), &str> {
    let mut scopes: BTreeMap<Scope<'_>, Vec<&str>> = BTreeMap::new();
    for part in parts.iter().filter(|part| !part.file.is_empty()) {
        scopes.entry(part.scope()).or_default().push(&part.file);
    }
    let mut names = BTreeMap::new();
    for (scope, mut paths) in scopes {
        paths.sort_unstable();
        paths.dedup();
        names.extend(tell_apart(&paths).into_iter().map(|(path, name)| ((scope, path), name)));
    }
    names
}

/// Each of some different paths with a tail of it that no other has.
fn tell_apart<'a>(paths: &[&'a str]) -> Vec<(&'a str, &'a str)> {
    let shared = shared_directory(paths);
    let inside: Vec<&str> = paths.iter().map(|path| path.get(shared..).unwrap_or(path)).collect();
    let tails = |count: usize| -> Vec<&'a str> { inside.iter().map(|path| tail(path, count)).collect() };
    let differ = |tails: &[&str]| {
        let mut sorted = tails.to_vec();
        sorted.sort_unstable();
        sorted.windows(2).all(|pair| pair.first() != pair.last())
    };
    let deepest = inside.iter().map(|path| path.matches('/').count() + 1).max().unwrap_or(1);
    let tails = (1..deepest).map(tails).find(|tails| differ(tails)).unwrap_or(inside);
    paths.iter().copied().zip(tails).collect()
}

/// Bytes of the directories, with their last slash, that all paths begin with.
fn shared_directory(paths: &[&str]) -> usize {
    let (Some(first), Some(last)) = (paths.iter().min(), paths.iter().max()) else { return 0 };
    let same = first.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
    first.get(..same).and_then(|same| same.rfind('/')).map_or(0, |slash| slash + 1)
}

/// The last `count` components of a path.
fn tail(path: &str, count: usize) -> &str {
    path.rmatch_indices('/').nth(count - 1).and_then(|(slash, _)| path.get(slash + 1..)).unwrap_or(path)
}

fn base_name(path: &str) -> &str {
    tail(path, 1)
}

/// The readable name of a symbol's function, without what a compiler appends to the names of its copies and parts.
fn symbol_name(symbol: &str) -> String {
    let mut plain = symbol;
    loop {
        let unnumbered = plain.rsplit_once('.').filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
        let unnumbered = unnumbered.map_or(plain, |(rest, _)| rest);
        let copies = ["constprop", "part", "isra", "lto_priv", "cold", "llvm", "localalias"];
        match unnumbered.rsplit_once('.') {
            Some((rest, copy)) if copies.contains(&copy) && !rest.is_empty() => plain = rest,
            _ => return name(&demangle(plain)),
        }
    }
}

/// A name without blanks and not too long.
fn name(readable: &str) -> String {
    // What runs before main is called after a file's first function.
    let made = ["_GLOBAL__sub_I", "_GLOBAL__sub_D"].into_iter().find(|made| readable.starts_with(made));
    let readable = made.unwrap_or(readable);
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut out = String::with_capacity(readable.len());
    let mut blank = false;
    for c in readable.chars() {
        if c.is_whitespace() || c.is_control() {
            blank = true;
            continue;
        }
        if std::mem::take(&mut blank) && is_word(out.chars().next_back()) && is_word(Some(c)) {
            out.push('_');
        }
        out.push(c);
    }
    if out.len() > LONGEST_NAME {
        let sum = checksum(out.as_bytes()) as u32;
        let cut = (0..=LONGEST_NAME - 9).rev().find(|at| out.is_char_boundary(*at)).unwrap_or(0);
        out.truncate(cut);
        out.push_str(&format!("~{sum:08x}"));
    }
    out
}

/// What a hook does, in a word.
fn does(hook: &Hook) -> String {
    match hook.class {
        HookClass::Access { rw, size, flavour } => {
            let flavour = match flavour {
                Flavour::Plain => "",
                Flavour::Unaligned => "u",
                Flavour::Volatile => "v",
                Flavour::UnalignedVolatile => "uv",
                Flavour::Vptr => "p",
            };
            format!("{}{size}{flavour}", direction(rw))
        }
        HookClass::Range { rw } => format!("range-{}", direction(rw)),
        HookClass::Copy => hook.name.trim_start_matches("__tsan_mem").to_owned().replace("cpy", "copy"),
        HookClass::Libc => hook.name.trim_matches('_').trim_end_matches("_chk").to_owned(),
        HookClass::Atomic { op, size } => match op {
            AtomicOp::Load => format!("load{size}"),
            AtomicOp::Store => format!("store{size}"),
            AtomicOp::Exchange => format!("exchange{size}"),
            AtomicOp::Add => format!("add{size}"),
            AtomicOp::Sub => format!("sub{size}"),
            AtomicOp::And => format!("and{size}"),
            AtomicOp::Or => format!("or{size}"),
            AtomicOp::Xor => format!("xor{size}"),
            AtomicOp::Nand => format!("nand{size}"),
            AtomicOp::CasStrong | AtomicOp::CasWeak | AtomicOp::CasVal => format!("cas{size}"),
            AtomicOp::ThreadFence => "fence".to_owned(),
            AtomicOp::SignalFence => "signal-fence".to_owned(),
        },
        HookClass::Function { entry: true } => "entry".to_owned(),
        HookClass::Function { entry: false } => "exit".to_owned(),
        HookClass::Block => "block".to_owned(),
        HookClass::Init => "init".to_owned(),
        HookClass::Fiber => "fiber".to_owned(),
        HookClass::Annotation => "annotation".to_owned(),
    }
}

fn direction(rw: Rw) -> &'static str {
    match rw {
        Rw::Read => "r",
        Rw::Write => "w",
        Rw::ReadWrite => "rw",
    }
}

#[cfg(test)]
mod tests {
    use selvedge_events::hooks::{HOOKS, by_name};

    use super::*;

    #[test]
    fn hooks_have_short_words() {
        let rows = [
            ("__tsan_read4", "r4"),
            ("__tsan_write16", "w16"),
            ("__tsan_read_write8", "rw8"),
            ("__tsan_unaligned_write2", "w2u"),
            ("__tsan_volatile_read1", "r1v"),
            ("__tsan_unaligned_volatile_read8", "r8uv"),
            ("__tsan_vptr_update", "w8p"),
            ("__tsan_vptr_read", "r8p"),
            ("__tsan_atomic32_load", "load4"),
            ("__tsan_atomic64_compare_exchange_val", "cas8"),
            ("__tsan_atomic8_fetch_add", "add1"),
            ("__tsan_atomic_thread_fence", "fence"),
            ("__tsan_read_range", "range-r"),
            ("__tsan_memcpy", "copy"),
            ("__tsan_memmove", "move"),
            ("__tsan_memset", "set"),
            ("memcpy", "memcpy"),
            ("__memcpy_chk", "memcpy"),
            ("__tsan_func_entry", "entry"),
            ("__sanitizer_cov_trace_pc", "block"),
        ];
        for (hook, word) in rows {
            let hook = by_name(hook).and_then(|hook| hook.get()).unwrap();
            assert_eq!(does(hook), word, "{}", hook.name);
        }
        for hook in &HOOKS {
            assert!(does(hook).bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{}", hook.name);
        }
    }

    #[test]
    fn every_word_is_in_the_reference() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/invariants.md");
        let page = std::fs::read_to_string(path).unwrap();
        for hook in HOOKS.iter().filter(|hook| hook.is_site() && hook.class != HookClass::Libc) {
            let word = does(hook);
            let plain = word.trim_end_matches(['u', 'v', 'p']).trim_end_matches(|c: char| c.is_ascii_digit());
            assert!(page.contains(&format!("`{plain}`")) || page.contains(&format!("`{word}`")), "{word}");
        }
    }

    #[test]
    fn names_have_no_blanks_and_an_end() {
        let rows = [
            ("main", "main"),
            ("_GLOBAL__sub_I__Z4bothi", "_GLOBAL__sub_I"),
            ("operator new", "operator_new"),
            ("(anonymous namespace)::f", "(anonymous_namespace)::f"),
            ("std::map<int, unsigned long >::at", "std::map<int,unsigned_long>::at"),
            ("<T as Trait>::f", "<T_as_Trait>::f"),
            ("bank::main::{closure#0}", "bank::main::{closure#0}"),
            ("a\nb\t\u{0}c", "a_b_c"),
            ("", ""),
        ];
        for (readable, short) in rows {
            assert_eq!(name(readable), short);
        }
        let (one, other) = (name(&"é".repeat(150)), name(&format!("{}x", "é".repeat(149))));
        assert!(one.len() <= LONGEST_NAME && other.len() <= LONGEST_NAME);
        assert_ne!(one, other);
    }

    #[test]
    fn copies_are_called_by_their_function() {
        let rows = [
            ("pay", "pay"),
            ("pay.cold", "pay"),
            ("pay.constprop.0.isra.12.cold", "pay"),
            ("pay.lto_priv.3", "pay"),
            ("_ZN4bank7Account8withdrawEi.part.0", "bank::Account::withdraw"),
            ("_ZN4bank3pay17h0123456789abcdefE.llvm.123456", "bank::pay"),
            ("pay.3", "pay.3"),
            (".cold", ".cold"),
        ];
        for (symbol, readable) in rows {
            assert_eq!(symbol_name(symbol), readable);
        }
    }

    #[test]
    fn files_are_told_apart_without_the_build_directory() {
        let rows: [(&[&str], &[&str]); 6] = [
            (&["/x/util.c"], &["util.c"]),
            (&["/x/a/util.c", "/x/b/util.c"], &["a/util.c", "b/util.c"]),
            (&["/x/net/util.c", "/x/util.c"], &["net/util.c", "util.c"]),
            (&["/x/a/deep/util.c", "/x/b/deep/util.c"], &["a/deep/util.c", "b/deep/util.c"]),
            (&["/home/me/p/util.h", "/usr/include/a/util.h"], &["p/util.h", "a/util.h"]),
            (&["/x/a/b/u.c", "/x/a/c/u.c", "/x/u.c"], &["b/u.c", "c/u.c", "u.c"]),
        ];
        for (paths, names) in rows {
            let told: Vec<&str> = tell_apart(paths).into_iter().map(|(_, name)| name).collect();
            assert_eq!(told, names);
        }
    }
}
