//! Controlled runs, recorded for what is learnt from whole traces: colours, and where to hold threads.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use selvedge_analyze::invariant::SiteKey;
use selvedge_analyze::invariant::accesses::{self, Home, Location};
use selvedge_findings::Outcome;
use selvedge_image::{Image, Variables};
use selvedge_trace::{Place, Process};

use crate::clip::Clip;
use crate::controlled::Prepared;
use crate::guard::keyring::Keyring;
use crate::hunt::{HuntError, Recorded, record_clip, spec};
use crate::replay::Alone;
use crate::run::Stop;

/// Most accesses of a run that are looked at.
const MOST_ACCESSES: usize = 2_000_000;

/// Numbers for keys, the same in all runs that are looked at together.
#[derive(Debug, Default)]
pub struct Numbers {
    keyring: Keyring,
    keys: Vec<SiteKey>,
    numbers: BTreeMap<SiteKey, u32>,
}

impl Numbers {
    /// The number of a key.
    pub fn of(&mut self, key: &SiteKey) -> u32 {
        if let Some(number) = self.numbers.get(key) {
            return *number;
        }
        let number = u32::try_from(self.keys.len()).unwrap_or(u32::MAX);
        self.keys.push(key.clone());
        self.numbers.insert(key.clone(), number);
        number
    }

    /// The key with a number.
    pub fn key(&self, number: u32) -> Option<&SiteKey> {
        self.keys.get(number as usize)
    }

    /// A recorded process as invariants read it.
    pub fn read(&mut self, process: &Process) -> accesses::Run {
        let site = |place: Place| self.keyring.key(process, place).map(|key| self.of(&key));
        accesses::accesses(process, MOST_ACCESSES, site)
    }
}

/// Records controlled runs of a program, at most so many, and keeps those that passed.
pub fn record_passing(
    prepared: &Prepared,
    base: &Clip,
    (runs, seed): (u32, u64),
    timeout: Duration,
    stop: &Stop,
) -> Result<Vec<Recorded>, HuntError> {
    let mut passed = Vec::new();
    for number in 0..runs {
        if stop.is_set() {
            break;
        }
        let dir: PathBuf = prepared.scratch.path().join(format!("traced-{number}"));
        let clip = Clip { by_strategy: spec(seed, number), ..base.clone() };
        let recorded = record_clip(clip, &dir, timeout, Alone { record: true, ..Alone::default() })?;
        if recorded.clip.outcome == Outcome::Pass {
            passed.push(recorded);
        }
    }
    Ok(passed)
}

/// What a location is called: a global variable's name, else where it is in its heap block.
pub fn name_of(process: &Process, location: &Location) -> String {
    let offset = location.offset;
    match location.home {
        Home::Block(_) => format!("heap+{offset}"),
        Home::Image(module) => {
            let image =
                process.module(selvedge_events::ModuleIx(module)).and_then(|module| Image::open(&module.path).ok());
            let name = image.and_then(|image| Variables::new(&image).variable(offset));
            name.map_or_else(|| format!("image+{offset:#x}"), |variable| variable.name)
        }
        Home::Elsewhere => format!("{offset:#x}"),
    }
}
