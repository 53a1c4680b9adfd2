//! Plans that guard a built program by tables of a test's own making.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use selvedge_drive::guard::keys::{ImageFile, Keyed};
use selvedge_drive::guard::log::{LogFile, logs_in};
use selvedge_drive::guard::table::{RowSpec, TableSpec};
use selvedge_drive::plan::{ImageSpec, PlanSpec};
use selvedge_drive::program::Program as Found;
use selvedge_events::guard::{DEFAULT_STALL_NS, Entry, FLAG_LEARN, LogCounter, Note};
use selvedge_events::plan::{Intervene, Observe};

use crate::toolchain::Built;

/// A guard of a built program.
#[derive(Clone, Debug)]
pub struct Guarding {
    /// What belongs before which site; sites are numbered from 1 in the order of the images and their tables.
    pub table: TableSpec,
    /// Where the sites are.
    pub images: Vec<ImageSpec>,
    /// Memory that the runtime may use, in MiB.
    pub memory_mb: Option<u32>,
    keys: Vec<String>,
}

/// A directory with a plan and the logs that runs under it leave.
#[derive(Clone, Debug)]
pub struct Deployed {
    /// The plan.
    pub plan: PathBuf,
    /// Where the logs go.
    pub logs: PathBuf,
}

impl Guarding {
    /// Guards every site of a program and its companions that can be guarded; nothing belongs before any.
    pub fn everything(built: &Built) -> Guarding {
        Guarding::of(std::iter::once(&built.executable).chain(&built.companions))
    }

    /// As [`Guarding::everything`], of these files.
    pub fn of<'a>(files: impl IntoIterator<Item = &'a PathBuf>) -> Guarding {
        let files = files.into_iter().map(|file| {
            let found = Found::find(file.as_os_str(), "".as_ref()).unwrap_or_else(|error| panic!("{error}"));
            ImageFile { build_id: found.build_id, path: found.path }
        });
        let keyed = Keyed::load_all(&files.collect::<Vec<_>>());
        let (mut images, mut keys) = (Vec::new(), Vec::new());
        for image in &keyed {
            let table = image.sites.table_spec().map(|spec| spec.table).unwrap_or_default();
            let mut spec = ImageSpec { build_id: image.sites.build_id.clone(), sites: Vec::new(), table };
            for (ordinal, key) in image.guardable() {
                keys.push(key.0.clone());
                spec.sites.push((ordinal, keys.len() as u32));
            }
            images.push(spec);
        }
        let rows = vec![RowSpec::default(); keys.len()];
        let table = TableSpec { stall_ns: DEFAULT_STALL_NS, rows, ..TableSpec::default() };
        Guarding { table, images, memory_mb: None, keys }
    }

    /// The same sites, learnt about.
    pub fn learning(&self) -> Guarding {
        let mut learning = self.clone();
        learning.table.flags = FLAG_LEARN;
        learning
    }

    /// What runs that learnt have shown belongs.
    pub fn trained(&self, logs: &[LogFile]) -> Guarding {
        let mut trained = self.clone();
        for entry in logs.iter().filter_map(LogFile::log).flat_map(|log| log.entries()) {
            if entry.note == Note::Member {
                trained.table.rows[entry.site as usize - 1].members.insert((entry.other, entry.own));
            }
        }
        trained
    }

    /// The site's key.
    pub fn key(&self, site: u32) -> &str {
        (site as usize).checked_sub(1).and_then(|at| self.keys.get(at)).map_or("nil", String::as_str)
    }

    /// The numbers of the sites in a function.
    pub fn sites_in(&self, function: &str) -> Vec<u32> {
        let part = format!(":{function}+");
        (1..).zip(&self.keys).filter(|(_, key)| key.contains(&part)).map(|(site, _)| site).collect()
    }

    /// Guards only the sites of these functions.
    pub fn only<S: AsRef<str>>(mut self, functions: &[S]) -> Guarding {
        let kept: Vec<u32> = functions.iter().flat_map(|function| self.sites_in(function.as_ref())).collect();
        for image in &mut self.images {
            image.sites.retain(|(_, site)| kept.contains(site));
        }
        self
    }

    /// The plan's bytes.
    pub fn to_bytes(&self, logs: &Path) -> Vec<u8> {
        let mut plan = PlanSpec::new(Observe::Nothing, logs);
        plan.interventions = vec![(Intervene::Guard, self.table.to_bytes().expect("a small table"))];
        plan.images = self.images.clone();
        plan.memory_limit_mb = self.memory_mb.unwrap_or(plan.memory_limit_mb);
        plan.to_bytes().expect("a small plan")
    }

    /// Writes the plan into a fresh directory.
    pub fn deploy(&self, dir: &Path) -> io::Result<Deployed> {
        let deployed = Deployed { plan: dir.join("plan"), logs: dir.join("logs") };
        fs::create_dir_all(&deployed.logs)?;
        fs::write(&deployed.plan, self.to_bytes(&deployed.logs))?;
        Ok(deployed)
    }
}

impl Deployed {
    /// The variable that makes a program run under the plan.
    pub fn env(&self) -> (String, String) {
        (selvedge_events::plan::ENV.to_owned(), self.plan.to_string_lossy().into_owned())
    }

    /// The logs that are there.
    pub fn read(&self) -> Vec<LogFile> {
        logs_in(&self.logs).unwrap_or_else(|error| panic!("{}: {error}", self.logs.display()))
    }

    /// A counter over all logs.
    pub fn counter(&self, counter: LogCounter) -> u64 {
        self.read().iter().filter_map(LogFile::log).map(|log| log.counter(counter)).sum()
    }

    /// What all logs note.
    pub fn entries(&self) -> Vec<Entry> {
        let logs = self.read();
        logs.iter().filter_map(LogFile::log).flat_map(|log| log.entries()).collect()
    }
}
