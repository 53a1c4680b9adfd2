//! Finds every site of an image: each call or tail jump to a hook, by any of the five forms.
//!
//! A hook is reached directly (the image contains the runtime), through a PLT stub or through a GOT
//! slot. Code is decoded function by function, so that data between functions cannot put the
//! decoder out of step for longer than one function; code that no symbol covers is swept too. A
//! byte scan goes first: a function without a byte pattern that would branch to a hook has no site
//! and is not decoded.
//!
//! Calls of libc's memory functions count only where the calling function is instrumented, that is
//! where it, or the part of it that was moved away, calls a `__tsan_` hook.
//!
//! Never a site: the runtime's own code; bodies without hooks; linkage stubs. Cannot see: calls through registers;
//! branches that cannot be patched (conditional, short), which are counted; hooks whose symbols
//! were stripped from the image that defines them (the embedded table outlives `strip`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use selvedge_events::hooks::{self, HOOKS, Hook, HookClass, HookIx};
use selvedge_events::interpose::INTERPOSED;
use selvedge_events::site_table::{Entry, header, seal};

use crate::bodies::Reach;
use crate::functions::{Functions, Part};
use crate::image::{Binding, Bound, Image, SymbolKind};
use crate::x86::{self, Target};

/// What the search could not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct SiteCounters {
    /// Branches to a hook in a form that cannot be patched.
    pub unpatchable: u32,
    /// Byte patterns that would be a site, but begin inside another instruction (usually the tail
    /// of a constant; many of them mean data in code).
    pub misaligned: u32,
    /// Bytes, in decoded functions, that are no instruction.
    pub undecodable_bytes: u64,
    /// Hook symbols that share their address with another hook (identical-code folding): sites of
    /// both are given to the first.
    pub shared_addresses: u32,
    /// Sites beyond the 4 GiB that an entry can express.
    pub out_of_range: u32,
}

/// The sites of an image.
#[derive(Clone, Debug, Default)]
pub struct Sites {
    /// By ascending offset.
    pub entries: Vec<Entry>,
    /// How they are reached.
    pub reach: Reach,
    /// Whether functions have two bodies and nothing says any more which is whose.
    pub bodies_lost: bool,
    /// What was left out.
    pub counters: SiteCounters,
}

/// Finds the sites of `image`.
pub fn find_sites(image: &Image) -> Sites {
    find_sites_in(image, &Functions::new(image))
}

/// As [`find_sites`], with the functions already at hand.
pub fn find_sites_in(image: &Image, functions: &Functions) -> Sites {
    let mut sites = Sites::default();
    let targets = Targets::new(image, &mut sites.counters);
    if targets.is_empty() {
        return sites;
    }
    let stretches = stretches(image, functions);
    // Which groups have at least one candidate for a hook of ours.
    let mut wanted = vec![false; functions.groups().len()];
    let mut candidates = vec![0_u32; stretches.len()];
    for (stretch, candidates) in stretches.iter().zip(&mut candidates) {
        let mut instrumented = false;
        x86::may_branch(stretch.code, stretch.vaddr, |target| {
            if let Some(hook) = targets.get(target) {
                *candidates += u32::from(!is_libc(hook));
                instrumented |= marks_instrumented(hook);
            }
        });
        if let Some(group) = stretch.group {
            wanted[group as usize] |= instrumented;
        }
    }
    let mut libc: BTreeMap<u32, Vec<Entry>> = BTreeMap::new();
    let mut instrumented = vec![false; functions.groups().len()];
    for (stretch, candidates) in stretches.iter().zip(candidates) {
        if stretch.group.is_none_or(|group| !wanted[group as usize]) && candidates == 0 {
            continue;
        }
        let mut confirmed = 0;
        let mut libc_here = Vec::new();
        let mut instrumented_here = false;
        let counters = &mut sites.counters;
        counters.undecodable_bytes += x86::branches(stretch.code, stretch.vaddr, |branch| {
            let Some(hook) = targets.get(branch.target) else {
                return;
            };
            let Some(form) = branch.form else {
                counters.unpatchable += u32::from(!is_libc(hook));
                return;
            };
            let Ok(offset) = u32::try_from(branch.at - image.base()) else {
                counters.out_of_range += 1;
                return;
            };
            let entry = Entry { offset, hook, form, code: branch.code };
            if is_libc(hook) {
                if !form.is_tail() {
                    libc_here.push(entry);
                }
                return;
            }
            confirmed += 1;
            instrumented_here |= marks_instrumented(hook);
            sites.entries.push(entry);
        });
        counters.misaligned += candidates.saturating_sub(confirmed);
        match stretch.group {
            Some(group) => {
                instrumented[group as usize] |= instrumented_here;
                libc.entry(group).or_default().extend(libc_here);
            }
            None if instrumented_here => sites.entries.extend(libc_here),
            None => {}
        }
    }
    for (group, entries) in libc {
        if instrumented[group as usize] {
            sites.entries.extend(entries);
        }
    }
    sites.entries.sort_unstable_by_key(|entry| entry.offset);
    sites.entries.dedup_by_key(|entry| entry.offset);
    sites.reach = Reach::new(image, functions, &sites.entries);
    sites.bodies_lost = sites.reach.is_lost(image, functions, &sites.entries);
    sites
}

/// The site table of an image with this build-id.
pub fn table_bytes(build_id: &[u8], entries: &[Entry], reach: &Reach) -> Vec<u8> {
    let count = |len: usize| u32::try_from(len).unwrap_or(u32::MAX);
    let mut table = header(build_id, count(entries.len()), count(reach.bodies.len())).to_vec();
    table.extend(entries.iter().flat_map(Entry::pack));
    table.extend(reach.pack());
    seal(&mut table);
    table
}

/// Whether a function of this name is the runtime's: a hook, an interposer (exported weakly, so a
/// program's own strong or local function of that name is the program's), or an inner function.
pub(crate) fn is_runtime_name(name: &str, binding: Binding) -> bool {
    let hook = || hooks::by_name(name).and_then(HookIx::get).is_some_and(Hook::is_exported);
    let prefixed = || name.starts_with("__tsan_") || name.starts_with("__sanitizer_") || name.contains("Annotate");
    let interposed = || binding == Binding::Weak && INTERPOSED_NAMES.contains(name);
    name.contains("selvedge_rt") || (prefixed() && hook()) || interposed()
}

static INTERPOSED_NAMES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| INTERPOSED.iter().map(|row| row.name).collect());

/// A stretch of code to decode in one go.
pub(crate) struct Stretch<'a> {
    pub(crate) vaddr: u64,
    pub(crate) code: &'a [u8],
    /// `None` for code that no symbol covers.
    group: Option<u32>,
}

/// Cuts the code sections at function starts and ends; leaves the runtime and plain bodies out.
pub(crate) fn stretches<'a>(image: &'a Image, functions: &Functions) -> Vec<Stretch<'a>> {
    let mut out = Vec::new();
    for (start, code) in image.code_sections() {
        let piece = |from: u64, to: u64| {
            let at = |vaddr: u64| usize::try_from(vaddr - start).ok();
            code.get(at(from)?..at(to)?).filter(|code| !code.is_empty())
        };
        let end = start + code.len() as u64;
        let mut done = start;
        let base = image.base();
        let first = functions.all().partition_point(|function| function.start + base < start);
        for function in &functions.all()[first..] {
            let (from, to) = (function.start + base, (function.end + base).min(end));
            if from >= end {
                break;
            }
            out.extend(piece(done, from).map(|code| Stretch { vaddr: done, code, group: None }));
            if !function.runtime && function.part != Part::Plain {
                out.extend(piece(from, to).map(|code| Stretch { vaddr: from, code, group: Some(function.group) }));
            }
            done = to;
        }
        out.extend(piece(done, end).map(|code| Stretch { vaddr: done, code, group: None }));
    }
    out
}

/// Every address and slot that leads to a hook.
struct Targets {
    direct: Ranged,
    slots: Ranged,
}

impl Targets {
    fn new(image: &Image, counters: &mut SiteCounters) -> Targets {
        let by_name: BTreeMap<&str, HookIx> = (0_u8..).zip(&HOOKS).map(|(at, hook)| (hook.name, HookIx(at))).collect();
        let find = |name: &str| by_name.get(name).copied().filter(|hook| hook.get().is_some_and(Hook::is_site));
        let mut direct = Vec::new();
        let mut resolvers = Vec::new();
        for symbol in image.symbols() {
            if let Some(hook) = find(image.symbol_name(symbol)) {
                match symbol.kind {
                    SymbolKind::Function | SymbolKind::Untyped => direct.push((symbol.vaddr, hook)),
                    // Calling it directly would call the resolver.
                    SymbolKind::Indirect => resolvers.push((symbol.vaddr, hook)),
                    _ => {}
                }
            }
        }
        direct.sort_unstable();
        direct.dedup();
        let before = direct.len();
        direct.dedup_by_key(|target| target.0);
        counters.shared_addresses = u32::try_from(before - direct.len()).unwrap_or(u32::MAX);
        let (own, resolvers) = (Ranged::new(direct.clone()), Ranged::new(resolvers));
        let mut slots = Vec::new();
        for (slot, bound) in image.slots() {
            let hook = match bound {
                Bound::Name(name) => find(name),
                Bound::Address(vaddr) => own.get(*vaddr),
                Bound::Resolver(vaddr) => resolvers.get(*vaddr),
            };
            slots.extend(hook.map(|hook| (*slot, hook)));
        }
        let slots = Ranged::new(slots);
        for (stub, slot) in image.stubs() {
            direct.extend(slots.get(*slot).map(|hook| (*stub, hook)));
        }
        Targets { direct: Ranged::new(direct), slots }
    }

    fn is_empty(&self) -> bool {
        self.direct.rows.is_empty() && self.slots.rows.is_empty()
    }

    fn get(&self, target: Target) -> Option<HookIx> {
        match target {
            Target::Direct(vaddr) => self.direct.get(vaddr),
            Target::Slot(vaddr) => self.slots.get(vaddr),
        }
    }
}

/// A sorted map that answers most look-ups from its bounds alone.
struct Ranged {
    rows: Vec<(u64, HookIx)>,
    first: u64,
    span: u64,
}

impl Ranged {
    fn new(mut rows: Vec<(u64, HookIx)>) -> Ranged {
        rows.sort_unstable();
        rows.dedup_by_key(|row| row.0);
        let first = rows.first().map_or(0, |row| row.0);
        let span = rows.last().map_or(0, |row| row.0 - first);
        Ranged { rows, first, span }
    }

    fn get(&self, vaddr: u64) -> Option<HookIx> {
        if vaddr.wrapping_sub(self.first) > self.span {
            return None;
        }
        let at = self.rows.binary_search_by_key(&vaddr, |row| row.0).ok()?;
        Some(self.rows[at].1)
    }
}

fn is_libc(hook: HookIx) -> bool {
    hook.get().is_some_and(|hook| matches!(hook.class, HookClass::Libc))
}

/// Whether a call of this hook shows that the caller was compiled with instrumentation of memory.
/// Block hooks do not: code that opted out of the instrumentation still has them.
fn marks_instrumented(hook: HookIx) -> bool {
    hook.get().is_some_and(|hook| !matches!(hook.class, HookClass::Libc | HookClass::Block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_told_from_the_program() {
        let rows = [
            ("__tsan_read4", Binding::Global, true),
            ("__sanitizer_cov_trace_pc", Binding::Weak, true),
            ("AnnotateHappensBefore", Binding::Global, true),
            ("pthread_mutex_lock", Binding::Weak, true),
            ("write", Binding::Weak, true),
            ("write", Binding::Local, false),
            ("send", Binding::Global, false),
            ("_RNvNtCs1_11selvedge_rt4gate4pass", Binding::Local, true),
            ("memcpy", Binding::Global, false),
            ("main", Binding::Global, false),
        ];
        for (name, binding, ours) in rows {
            assert_eq!(is_runtime_name(name, binding), ours, "{name} {binding:?}");
        }
    }

    #[test]
    fn tables_are_what_the_runtime_parses() {
        use selvedge_events::site_table::{Form, Table};
        let entry = Entry { offset: 16, hook: HookIx(2), form: Form::Call, code: [0xe8, 1, 2, 3, 4, 0, 0, 0] };
        let bytes = table_bytes(&[7; 20], &[entry], &Reach::default());
        let table = Table::parse(&bytes).unwrap();
        assert_eq!((table.get(0), table.build_id()), (Some(entry), &[7_u8; 20][..]));
    }
}
