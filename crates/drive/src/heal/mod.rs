//! Healing's driver: sections of a build become a table that the runtime keeps them by.
//!
//! A section takes part with the sites that it begins at, ends at and is left at, and with the sites at which its thread is
//! next seen after an end. Other accesses to the same global take part by themselves where they would break it. A lock is
//! put around a section only where the assurance analysis allows it; others get the scheduling kind.
//!
//! Sections of the executable only.

pub mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use selvedge_analyze::sections::assure::{Assurance, Refusal};
use selvedge_analyze::sections::text::SectionFile;
use selvedge_analyze::sections::{self, Mode, Root, Section};
use selvedge_events::heal::{FLAG_ONE_FRAME, How, Role, RoleKind};
use selvedge_events::hooks::HookClass;
use selvedge_findings::{Access, Report};
use selvedge_image::cfg::BlockIx;
use selvedge_image::{Callee, Cfg, Code, Functions, Loaded, OpenImageError, Symboliser, load_or_build, site_keys};

use crate::arm::ImageSites;
use crate::plan::ImageSpec;
use crate::sections::{Names, Read, read};
use table::TableSpec;

/// What is to be healed.
#[derive(Clone, Debug)]
pub enum Source {
    /// These sections.
    Sections(SectionFile),
    /// Sections between the lines of these findings.
    Findings(Box<Report>),
}

/// A healed section, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Healed {
    /// Where it is: `` `money`, purse.c:8 to purse.c:9 in shop``, or the key of the site that it begins with where nothing else is known. Empty
    /// where nothing is to be said of it.
    pub place: String,
    /// How others are kept out.
    pub how: How,
    /// Why no lock is put around it, where one was asked for.
    pub refused: Option<Refusal>,
}

/// Healing for one build.
#[derive(Clone, Debug, Default)]
pub struct Healing {
    build_id: Vec<u8>,
    table: TableSpec,
    /// Ordinals of sites 1, 2, …
    ordinals: Vec<u32>,
    /// The site table, for an image that carries none.
    site_table: Vec<u8>,
    /// Sections 0, 1, …
    pub sections: Vec<Healed>,
    /// Sections that were asked for and are not in this build.
    pub missing: usize,
}

impl Healing {
    /// Healing of the image at `path`: others are kept out by `how`, or by `otherwise` where no lock may be used.
    pub fn of(path: &Path, source: &Source, how: How, otherwise: How, wait_ns: u64) -> Result<Healing, OpenImageError> {
        let loaded = load_or_build(path)?;
        let functions = Functions::new(&loaded.image);
        let read = read(&loaded, &Code::new(&loaded, &functions));
        let found = sections::find(&read.program).all;
        let (chosen, missing) = choose(&loaded, &found, source);
        let assurance = Assurance::new(&read.program);
        let mut roles: BTreeMap<u32, BTreeSet<Role>> = BTreeMap::new();
        let mut out = Healing { build_id: loaded.image.build_id().to_vec(), missing, ..Healing::default() };
        out.site_table = ImageSites::of(&loaded).table_spec().map(|spec| spec.table).unwrap_or_default();
        out.table.wait_ns = wait_ns;
        let flow = Flow { loaded: &loaded, read: &read };
        for section in &chosen {
            let number = u32::try_from(out.sections.len()).unwrap_or(u32::MAX);
            let role = |kind| Role { section: number, kind };
            let refused = assurance.check(section).err().filter(|_| how == How::Lock);
            let how = if refused.is_some() { otherwise } else { how };
            let flags = if assurance.is_in_one_function(section) { FLAG_ONE_FRAME } else { 0 };
            out.table.sections.push((how, flags));
            out.sections.push(Healed { place: String::new(), how, refused });
            roles.entry(section.entry).or_default().insert(role(RoleKind::Enter));
            for end in &section.ends {
                roles.entry(end.site).or_default().insert(role(RoleKind::End));
                for site in flow.after(end.site) {
                    roles.entry(site).or_default();
                }
            }
            for exit in &section.exits {
                let site = if exit.leaves { flow.leaves(exit.block) } else { exit.site };
                if let Some(site) = site {
                    roles.entry(site).or_default().insert(role(RoleKind::Leave));
                }
            }
            for site in conflicts(&read, section, &chosen) {
                roles.entry(site).or_default().insert(role(RoleKind::Only));
                for site in flow.after(site) {
                    roles.entry(site).or_default();
                }
            }
        }
        out.name(&flow, &chosen);
        out.ordinals = roles.keys().copied().collect();
        out.table.rows = roles.into_values().map(|roles| roles.into_iter().collect()).collect();
        Ok(out)
    }

    /// Says where the sections are that something is to be said of. Names take a while in large programs, so others have none.
    fn name(&mut self, flow: &Flow<'_>, chosen: &[Section]) {
        if self.sections.iter().all(|healed| healed.refused.is_none()) {
            return;
        }
        let names = Names::new(flow.loaded, &flow.read.modes);
        let keys = site_keys(flow.loaded);
        for (healed, section) in self.sections.iter_mut().zip(chosen).filter(|(healed, _)| healed.refused.is_some()) {
            let key = || keys.get(section.entry as usize).cloned().unwrap_or_default();
            healed.place = names.span(section).unwrap_or_else(key);
        }
    }

    /// Alone: the table, and the sites that it arms.
    pub fn alone(&self) -> (TableSpec, Vec<ImageSpec>) {
        let sites = self.ordinals.iter().copied().zip(1..).collect();
        let spec = ImageSpec { build_id: self.build_id.clone(), sites, table: self.site_table.clone() };
        (self.table.clone(), vec![spec])
    }

    /// Beside others: the table with the ids of sites that are armed already, and sites to be armed with ids of their own.
    pub fn beside(&self, armed: &[ImageSpec]) -> (TableSpec, ImageSpec) {
        use selvedge_events::plan::POINT_AFTER;
        let most = armed.iter().flat_map(|spec| &spec.sites).map(|(_, id)| (id & !POINT_AFTER) + 1).max().unwrap_or(0);
        let own_from = most.max(1);
        let here = armed.iter().filter(|spec| spec.build_id == self.build_id).flat_map(|spec| &spec.sites);
        let known: BTreeMap<u32, u32> = here.map(|(ordinal, id)| (*ordinal, id & !POINT_AFTER)).collect();
        let mut ids = vec![0; own_from as usize];
        let mut extra = ImageSpec { build_id: self.build_id.clone(), ..ImageSpec::default() };
        for (number, ordinal) in (1_u32..).zip(&self.ordinals) {
            match known.get(ordinal).and_then(|id| ids.get_mut(*id as usize)) {
                Some(slot) => *slot = number,
                None => {
                    extra.sites.push((*ordinal, u32::try_from(ids.len()).unwrap_or(u32::MAX)));
                    ids.push(number);
                }
            }
        }
        (TableSpec { ids, own_from, ..self.table.clone() }, extra)
    }
}

/// The sections that were asked for, and how many are not there.
pub(crate) fn choose(loaded: &Loaded, found: &[Section], source: &Source) -> (Vec<Section>, usize) {
    match source {
        Source::Sections(file) => {
            let keys = site_keys(loaded);
            let key = |site: u32| keys.get(site as usize).cloned().unwrap_or_default();
            let mut chosen = Vec::new();
            for section in found {
                let Some(asked) = file.sections.get(&(key(section.entry), section.kind)) else { continue };
                let mut section = section.clone();
                section.ends.retain_mut(|end| match file.kept(asked, &key(end.site)) {
                    Some(allowed) => {
                        end.allowed = allowed;
                        true
                    }
                    None => false,
                });
                if !section.ends.is_empty() {
                    chosen.push(section);
                }
            }
            let missing = file.kept_sections().count().saturating_sub(chosen.len());
            (chosen, missing)
        }
        Source::Findings(report) => {
            let symboliser = Symboliser::new(&loaded.image);
            let name = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
            let line = |site: u32| {
                let offset = loaded.entries.get(site as usize).map_or(0, |entry| u64::from(entry.offset));
                let frames = symboliser.frames(offset);
                let frame = frames.iter().find(|frame| frame.is_users()).or(frames.first())?;
                Some((name(frame.file.as_deref()?), frame.line?))
            };
            let mut chosen: BTreeSet<Section> = BTreeSet::new();
            let mut missing = 0;
            for finding in &report.findings {
                let place = |access: &Access| Some((name(access.file.as_deref()?), access.line?));
                let lines: BTreeSet<(String, u32)> = finding.accesses.iter().filter_map(place).collect();
                let is_guilty = |site: u32| line(site).is_some_and(|line| lines.contains(&line));
                let ends = |section: &&Section| section.ends.iter().any(|end| is_guilty(end.site));
                let whole = |section: &&Section| is_guilty(section.entry) && ends(section);
                let part = |section: &&Section| is_guilty(section.entry) || ends(section);
                let mut here: Vec<&Section> = found.iter().filter(whole).collect();
                if here.is_empty() {
                    here = found.iter().filter(part).collect();
                }
                missing += usize::from(here.is_empty());
                chosen.extend(here.into_iter().cloned());
            }
            (chosen.into_iter().collect(), missing)
        }
    }
}

/// Other accesses to a section's global that would break it.
fn conflicts(read: &Read, section: &Section, chosen: &[Section]) -> BTreeSet<u32> {
    let inside =
        |site: u32| chosen.iter().any(|other| other.entry == site || other.ends.iter().any(|end| end.site == site));
    let breaks = |mode: Mode| {
        section.ends.iter().any(|end| mode != Mode::Write && !end.allowed.reads || mode.writes() && !end.allowed.writes)
    };
    let blocks = read.program.functions.iter().flat_map(|function| &function.blocks);
    blocks
        .flat_map(|block| &block.accesses)
        .filter(|access| section.variable.root == Root::Global && access.place == section.variable)
        .filter(|access| breaks(access.mode) && !inside(access.site))
        .map(|access| access.site)
        .collect()
}

/// How control flows between sites.
pub(crate) struct Flow<'a> {
    pub(crate) loaded: &'a Loaded,
    pub(crate) read: &'a Read,
}

impl Flow<'_> {
    /// The sites that may be the next after one.
    fn after(&self, site: u32) -> BTreeSet<u32> {
        let mut out = BTreeSet::new();
        let of_site =
            |graph: &usize| self.read.graphs.get(*graph).and_then(|graph| graph.block_of_site(site)).is_some();
        let Some(graph) = (0..self.read.graphs.len()).find(of_site) else { return out };
        let Some(at) = self.read.graphs.get(graph).and_then(|graph| graph.block_of_site(site)) else { return out };
        let mut seen = BTreeSet::new();
        let mut work = vec![(graph, at, site + 1)];
        while let Some((graph, at, from)) = work.pop() {
            let Some(block) = self.read.graphs.get(graph).and_then(|graph| graph.block(at)) else { continue };
            let from = from.max(block.sites.start);
            if block.sites.contains(&from) {
                out.insert(from);
                continue;
            }
            if let Some(Callee::Function(group)) = block.call.as_ref().map(|call| &call.callee) {
                let callee = self.read.graphs.iter().position(|graph| graph.group() == *group);
                let entry = callee.and_then(|callee| Some((callee, self.read.graphs.get(callee)?.entry()?)));
                work.extend(entry.filter(|entry| seen.insert(*entry)).map(|(callee, entry)| (callee, entry, 0)));
            }
            let next = block.successors.iter().map(|edge| (graph, edge.to));
            let fresh: Vec<(usize, BlockIx)> = next.filter(|next| seen.insert(*next)).collect();
            work.extend(fresh.into_iter().map(|(graph, at)| (graph, at, 0)));
        }
        out
    }

    /// The site by which the block at an offset leaves its function.
    pub(crate) fn leaves(&self, block: u64) -> Option<u32> {
        let at =
            |graph: &&Cfg| graph.block_at(block).is_some_and(|at| graph.block(at).is_some_and(|at| at.start == block));
        let graph = self.read.graphs.iter().find(at)?;
        let sites = graph.block(graph.block_at(block)?)?.sites.clone();
        let is_exit = |site: &u32| {
            let hook = self.loaded.entries.get(*site as usize).and_then(|entry| entry.hook.get());
            hook.is_some_and(|hook| hook.class == HookClass::Function { entry: false })
        };
        sites.rev().find(is_exit)
    }

    /// The site by which the function of a site tells that it begins.
    pub(crate) fn begin_of(&self, site: u32) -> Option<u32> {
        let graph = self.read.graphs.iter().find(|graph| graph.block_of_site(site).is_some())?;
        let is_entry = |site: &u32| {
            let hook = self.loaded.entries.get(*site as usize).and_then(|entry| entry.hook.get());
            hook.is_some_and(|hook| hook.class == HookClass::Function { entry: true })
        };
        graph.blocks().iter().find_map(|block| block.sites.clone().find(is_entry))
    }
}
