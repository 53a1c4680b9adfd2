//! One of the two objects that are to be joined, with what is asked of it often: whose address is taken, who calls whom, and what
//! its data means whatever the numbers in it.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_events::bytes::u32_at;

use super::object::{
    Home, Object, Reloc, SHF_MERGE, SHT_FINI_ARRAY, SHT_INIT_ARRAY, SHT_PREINIT_ARRAY, STT_FUNC, STT_SECTION, Section,
};

pub(super) const R_64: u32 = 1;
pub(super) const R_PC32: u32 = 2;
const R_PLT32: u32 = 4;
const R_32: u32 = 10;
const R_32S: u32 = 11;
/// How far before the next instruction a relative address stands, where nothing follows it.
pub(super) const BEFORE_NEXT: i64 = 4;

/// A section and an offset in it.
pub(super) type Place = (usize, u64);

/// An object with what is asked of it often.
pub(super) struct Side<'a> {
    pub(super) object: &'a Object,
    /// By section: its group.
    pub(super) groups: Vec<Option<usize>>,
    /// Functions by section and offset: their symbols.
    pub(super) functions: BTreeMap<Place, Vec<usize>>,
    /// Functions whose address is taken, by section and offset.
    pub(super) taken: BTreeSet<Place>,
    /// Functions that take their own address without a relocation, and where.
    pub(super) own: Vec<(Place, u64)>,
    by_key: BTreeMap<(&'a [u8], &'a str), Vec<usize>>,
    /// By section: the symbols in it.
    inside: Vec<Vec<usize>>,
    pub(super) signatures: BTreeSet<&'a [u8]>,
}

impl<'a> Side<'a> {
    pub(super) fn new(object: &'a Object) -> Side<'a> {
        let mut groups = vec![None; object.sections.len()];
        for (at, group) in object.groups.iter().enumerate() {
            for member in &group.members {
                groups[*member] = Some(at);
            }
        }
        let mut functions: BTreeMap<Place, Vec<usize>> = BTreeMap::new();
        for (at, symbol) in object.symbols.iter().enumerate() {
            if let Home::In(home) = symbol.home
                && symbol.kind() == STT_FUNC
                && object.sections[home].is_code()
            {
                functions.entry((home, symbol.value)).or_default().push(at);
            }
        }
        let mut inside = vec![Vec::new(); object.sections.len()];
        for (at, symbol) in object.symbols.iter().enumerate() {
            if let Home::In(home) = symbol.home {
                inside[home].push(at);
            }
        }
        let mut side = Side {
            object,
            groups,
            functions,
            taken: BTreeSet::new(),
            own: Vec::new(),
            by_key: BTreeMap::new(),
            inside,
            signatures: BTreeSet::new(),
        };
        side.signatures = (0..object.groups.len()).map(|group| side.signature(group)).collect();
        for at in 0..object.sections.len() {
            side.by_key.entry(side.key(at)).or_default().push(at);
        }
        for section in object.sections.iter().filter(|section| holds_pointers(section)) {
            let taken = section.relocs.iter().filter_map(|reloc| side.pointed(section, reloc));
            side.taken.extend(taken.collect::<Vec<_>>());
        }
        side.own = side.own_addresses();
        side.taken.extend(side.own.iter().map(|(function, _)| *function));
        side
    }

    /// Each function has a section of its own, so that every reference to another one is a relocation. What an assembler
    /// settles by itself is a function's reference to itself.
    fn own_addresses(&self) -> Vec<(Place, u64)> {
        let mut own = Vec::new();
        for (function, names) in &self.functions {
            let code = &self.object.sections[function.0].data;
            let size = names.iter().map(|name| self.object.symbols[*name].size).max().unwrap_or(0);
            for at in function.1..(function.1 + size).saturating_sub(3) {
                let Some(by) = usize::try_from(at).ok().and_then(|at| u32_at(code, at)) else { break };
                let target = at.wrapping_add(4).wrapping_add_signed(i64::from(by.cast_signed()));
                let is_settled = || !self.object.sections[function.0].relocs.iter().any(|reloc| reloc.offset == at);
                // Functions that the user put into one section settle each other's, too.
                let place = (function.0, target);
                if self.functions.contains_key(&place) && is_lea(code, at) && is_settled() {
                    own.push((place, at));
                }
            }
        }
        own
    }

    pub(super) fn signature(&self, group: usize) -> &'a [u8] {
        let symbol = self.object.groups.get(group).and_then(|group| self.object.symbols.get(group.signature));
        symbol.map_or(&[], |symbol| &symbol.name)
    }

    /// A section's group and name.
    pub(super) fn key(&self, section: usize) -> (&'a [u8], &'a str) {
        (self.groups[section].map_or(&[], |group| self.signature(group)), &self.object.sections[section].name)
    }

    /// The only section with this key.
    pub(super) fn only(&self, key: (&[u8], &str)) -> Option<usize> {
        match self.by_key.get(&key).map(Vec::as_slice) {
            Some([only]) => Some(*only),
            _ => None,
        }
    }

    /// The function whose address a relocation takes, rather than branch to it.
    pub(super) fn pointed(&self, section: &Section, reloc: &Reloc) -> Option<Place> {
        let target = self.object.symbols.get(reloc.symbol)?;
        let Home::In(home) = target.home else { return None };
        let ahead = match reloc.kind {
            R_64 | R_32 | R_32S => 0,
            R_PC32 if section.is_code() && is_lea(&section.data, reloc.offset) => BEFORE_NEXT,
            _ => return None,
        };
        let place = (home, target.value.checked_add_signed(reloc.addend.checked_add(ahead)?)?);
        self.functions.contains_key(&place).then_some(place)
    }

    pub(super) fn name(&self, symbol: usize) -> &'a [u8] {
        &self.object.symbols[symbol].name
    }

    /// Who branches to whom, by name; the part of a function that was moved away counts as the function.
    pub(super) fn calls(&self) -> BTreeMap<&'a [u8], BTreeSet<&'a [u8]>> {
        let mut calls: BTreeMap<&[u8], BTreeSet<&[u8]>> = BTreeMap::new();
        for (at, section) in self.object.sections.iter().enumerate().filter(|(_, section)| section.is_code()) {
            for reloc in &section.relocs {
                let caller = self.functions.range(..=(at, reloc.offset)).next_back();
                let Some((_, caller)) = caller.filter(|((home, _), _)| *home == at) else { continue };
                let Some(callee) = self.branched(section, reloc) else { continue };
                calls.entry(whole(self.name(caller[0]))).or_default().insert(whole(callee));
            }
        }
        calls
    }

    /// The function that a relocation in code branches to.
    fn branched(&self, section: &Section, reloc: &Reloc) -> Option<&'a [u8]> {
        let is_branch = reloc.kind == R_PLT32 || reloc.kind == R_PC32 && !is_operand(&section.data, reloc.offset);
        let target = self.object.symbols.get(reloc.symbol).filter(|_| is_branch)?;
        if !target.is_local() {
            return Some(&target.name);
        }
        let Home::In(home) = target.home else { return None };
        let place = target.value.checked_add_signed(reloc.addend.checked_add(BEFORE_NEXT)?)?;
        Some(self.name(*self.functions.get(&(home, place))?.first()?))
    }
}

/// The name of the function that a part belongs to.
fn whole(name: &[u8]) -> &[u8] {
    name.strip_suffix(b".cold").unwrap_or(name)
}

/// The functions of a set that a function calls, by itself or through others that are not in the set.
pub(super) fn reached<'a>(
    calls: &BTreeMap<&'a [u8], BTreeSet<&'a [u8]>>,
    caller: &'a [u8],
    set: &BTreeSet<&'a [u8]>,
) -> BTreeSet<&'a [u8]> {
    let mut out = BTreeSet::new();
    let mut seen = BTreeSet::from([caller]);
    let mut work = vec![caller];
    while let Some(caller) = work.pop() {
        for callee in calls.get(caller).into_iter().flatten() {
            if *callee == caller {
                // Its other part, or itself again.
            } else if set.contains(callee) {
                out.insert(*callee);
            } else if seen.insert(callee) {
                work.push(callee);
            }
        }
    }
    out
}

/// Whether addresses in a section are what the program may see: not those of debug and unwind information.
pub(super) fn holds_pointers(section: &Section) -> bool {
    section.is_loaded() && section.name != ".eh_frame" && !section.name.starts_with(".gcc_except_table")
}

/// Whether the relative address at an offset is an operand's, and not a branch's.
fn is_operand(code: &[u8], offset: u64) -> bool {
    let before = usize::try_from(offset).ok().and_then(|at| at.checked_sub(1)).and_then(|at| code.get(at));
    before.is_some_and(|mode| mode & 0xc7 == 0x05)
}

/// Whether it is the operand of `lea`.
fn is_lea(code: &[u8], offset: u64) -> bool {
    let before = usize::try_from(offset).ok().and_then(|at| at.checked_sub(2)).and_then(|at| code.get(at));
    is_operand(code, offset) && before == Some(&0x8d)
}

/// Whether a section lists functions that run before or after `main`.
pub(super) fn is_list(section: &Section) -> bool {
    let is_array = matches!(section.kind, SHT_INIT_ARRAY | SHT_FINI_ARRAY | SHT_PREINIT_ARRAY);
    is_array || section.name.starts_with(".ctors") || section.name.starts_with(".dtors")
}

/// Whether two sections hold the same variables with the same first values.
pub(super) fn alike(before: &Side<'_>, there: usize, after: &Side<'_>, here: usize) -> bool {
    let (old, new) = (&before.object.sections[there], &after.object.sections[here]);
    let symbols = |side: &Side<'_>, section: usize| -> BTreeSet<(Vec<u8>, u8, u64, u64)> {
        let own = side.inside[section].iter().map(|at| &side.object.symbols[*at]);
        let named = own.filter(|symbol| symbol.kind() != STT_SECTION && !symbol.name.starts_with(b".L"));
        named.map(|symbol| (symbol.name.clone(), symbol.info, symbol.value, symbol.size)).collect()
    };
    let relocs = |side: &Side<'_>, section: &Section| -> Option<Vec<(u64, u32, Meaning)>> {
        let mut all: Vec<_> = section
            .relocs
            .iter()
            .map(|reloc| Some((reloc.offset, reloc.kind, meaning(side, reloc)?)))
            .collect::<Option<_>>()?;
        all.sort();
        Some(all)
    };
    // An optimiser may have made one of them lie better.
    (old.kind, old.size, &old.data) == (new.kind, new.size, &new.data)
        && symbols(before, there) == symbols(after, here)
        && relocs(before, old).is_some_and(|old| Some(old) == relocs(after, new))
}

/// What an address in data stands for, whatever the object.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Meaning {
    Name(Vec<u8>, i64),
    Function(Vec<u8>),
    Text(Vec<u8>),
    Place(Vec<u8>, String, i64),
}

fn meaning(side: &Side<'_>, reloc: &Reloc) -> Option<Meaning> {
    let target = side.object.symbols.get(reloc.symbol)?;
    let Home::In(home) = target.home else { return Some(Meaning::Name(target.name.clone(), reloc.addend)) };
    if !target.is_local() {
        return Some(Meaning::Name(target.name.clone(), reloc.addend));
    }
    let offset = target.value.checked_add_signed(reloc.addend)?;
    let section = &side.object.sections[home];
    if section.is_code() {
        let symbols = side.functions.get(&(home, offset))?;
        return Some(Meaning::Function(side.name(*symbols.first()?).to_vec()));
    }
    if section.flags & SHF_MERGE != 0 {
        let text = section.data.get(usize::try_from(offset).ok()?..)?;
        return Some(Meaning::Text(text.split(|byte| *byte == 0).next()?.to_vec()));
    }
    let (group, name) = side.key(home);
    Some(Meaning::Place(group.to_vec(), name.to_owned(), i64::try_from(offset).ok()?))
}
