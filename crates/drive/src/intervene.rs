//! Interventions: what a command line asks to be done about bugs, and the same as part of a plan for one build.

use std::path::{Path, PathBuf};

use selvedge_analyze::atomicity::profile::Profile;
use selvedge_analyze::invariant::Invariants;
use selvedge_analyze::sections::text::{self, TextError};
use selvedge_events::heal::How;
use selvedge_events::plan::{self, Intervene};

use crate::enforce;
use crate::enforce::compile::{EnforceError, Enforced};
use crate::enforce::file::ProfileFileError;
use crate::guard::choose::{Choice, choose};
use crate::guard::compile::{CompileError, Guard, GuardHow};
use crate::guard::file::{InvariantsError, parse};
use crate::guard::keys::{ImageFile, Keyed};
use crate::heal;
use crate::plan::{ImageSpec, WritePlanError};

/// What to do about bugs, as it was asked for.
#[derive(Clone, Debug, Default)]
pub struct Asked(Vec<(PathBuf, Source)>);

/// What a guard is made from.
#[derive(Clone, Debug)]
enum Source {
    Invariants(Box<Invariants>),
    Plan(Vec<u8>),
    Heal(Box<heal::Source>),
    Profile(Box<Profile>),
}

/// What to do about bugs in one build.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interventions {
    payloads: Vec<(Intervene, Vec<u8>)>,
    /// Sites that are armed for them alone.
    extra: Vec<ImageSpec>,
    /// All armed sites, where more must be armed than were.
    armed: Option<Vec<ImageSpec>>,
    /// How what was asked for fits the build, in sentences.
    pub fits: Vec<String>,
    /// The options that ask for it again.
    pub again: String,
}

/// Why an intervention cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterveneError {
    /// Its file.
    #[error("--{} {}: cannot read it", kind.name(), file.display())]
    Read {
        /// What.
        kind: Intervene,
        /// Its file.
        file: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The invariants in it.
    #[error(transparent)]
    Invariants(#[from] InvariantsError),
    /// It does not fit the build.
    #[error("--guard {}", file.display())]
    Guard {
        /// The file.
        file: PathBuf,
        /// Why.
        source: CompileError,
    },
    /// The sections in it.
    #[error("--heal {}: {source}", file.display())]
    Sections {
        /// The file.
        file: PathBuf,
        /// Where, and what is wrong.
        source: TextError,
    },
    /// The program's own file.
    #[error("--heal {}: the program cannot be read", file.display())]
    Image {
        /// The file.
        file: PathBuf,
        /// Why.
        source: selvedge_image::OpenImageError,
    },
    /// The profile in it.
    #[error(transparent)]
    Profile(#[from] ProfileFileError),
    /// The profile does not fit the build.
    #[error("--enforce {}", file.display())]
    Enforce {
        /// The file.
        file: PathBuf,
        /// Why.
        source: EnforceError,
    },
    /// It does not fit into a plan.
    #[error("cannot write the plan")]
    Plan(#[from] WritePlanError),
}

impl Asked {
    /// Adds one: invariants, or a plan that has a guard.
    pub fn add(&mut self, kind: Intervene, file: Option<&Path>) -> Result<(), InterveneError> {
        let Some(file) = file else { return Ok(()) };
        let read = |source| InterveneError::Read { kind, file: file.to_owned(), source };
        let path = file.canonicalize().map_err(read)?;
        let bytes = std::fs::read(&path).map_err(read)?;
        if kind == Intervene::Heal {
            let source = heal_source(file, &bytes)?;
            self.0.push((file.to_owned(), Source::Heal(Box::new(source))));
            return Ok(());
        }
        let source = if kind == Intervene::Enforce {
            Source::Profile(Box::new(enforce::file::load(file)?))
        } else if bytes.starts_with(&plan::MAGIC) {
            Source::Plan(bytes)
        } else {
            Source::Invariants(Box::new(parse(file, &bytes)?))
        };
        self.0.push((file.to_owned(), source));
        Ok(())
    }

    /// Whether nothing was asked for.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was asked for, in a run that arms these sites of these images.
    pub fn beside(&self, armed: &[ImageSpec], files: &[ImageFile]) -> Result<Interventions, InterveneError> {
        let mut all = Interventions::default();
        for (file, source) in &self.0 {
            let refused = |source| InterveneError::Guard { file: file.clone(), source };
            let mut guard = match source {
                Source::Heal(source) => {
                    add_healing(&mut all, file, source, armed, files)?;
                    continue;
                }
                Source::Profile(profile) => {
                    let refused = |source| InterveneError::Enforce { file: file.clone(), source };
                    let enforced = Enforced::of(profile, files).map_err(refused)?;
                    all.enforce(&enforced, armed)?;
                    all.fits.push(format!("--enforce {}: {}", file.display(), enforced.fit()));
                    all.again.push_str(&format!(" --enforce {}", file.display()));
                    continue;
                }
                Source::Plan(bytes) => Guard::in_plan(bytes).map_err(refused)?,
                Source::Invariants(invariants) => {
                    // Hot or not: where schedules are tried, time is not what matters.
                    let chosen = choose(invariants, &Choice::default()).invariants;
                    let images = Keyed::load_all(files);
                    Guard::of(&chosen, &images, &GuardHow::default()).map_err(refused)?
                }
            };
            let (table, unarmed) = guard.beside(armed);
            guard.fit.unarmed = unarmed;
            all.payloads.push((Intervene::Guard, table.to_bytes()?));
            all.fits.push(format!("--guard {}: {}", file.display(), guard.fit));
            all.again.push_str(&format!(" --guard {}", file.display()));
        }
        Ok(all)
    }
}

impl Interventions {
    /// A guard by its table.
    pub fn guard(table: Vec<u8>) -> Interventions {
        Interventions { payloads: vec![(Intervene::Guard, table)], ..Interventions::default() }
    }

    /// Healing, in a run that arms these sites.
    pub fn heal(healing: &heal::Healing, armed: &[ImageSpec]) -> Result<Interventions, WritePlanError> {
        let mut all = Interventions::default();
        all.add_healing(healing, armed).map(|()| all)
    }

    fn add_healing(&mut self, healing: &heal::Healing, armed: &[ImageSpec]) -> Result<(), WritePlanError> {
        let (table, extra) = healing.beside(armed);
        self.payloads.push((Intervene::Heal, table.to_bytes()?));
        self.extra.push(extra);
        Ok(())
    }

    /// Adds locks, in a run that arms these sites.
    pub fn enforce(&mut self, enforced: &Enforced, armed: &[ImageSpec]) -> Result<(), WritePlanError> {
        let (table, sites) = enforced.beside(armed);
        self.payloads.push((Intervene::Enforce, table.to_bytes()?));
        self.armed = Some(sites);
        Ok(())
    }

    /// The sites that a run arms, which would arm these without an intervention.
    pub fn armed(&self, images: &[ImageSpec]) -> Vec<ImageSpec> {
        let mut images = self.armed.clone().unwrap_or_else(|| images.to_vec());
        for extra in &self.extra {
            match images.iter_mut().find(|image| image.build_id == extra.build_id) {
                Some(image) => {
                    image.sites.extend(&extra.sites);
                    image.sites.sort_unstable();
                }
                None => images.push(extra.clone()),
            }
        }
        images
    }

    /// As a plan has them.
    pub fn in_plan(&self) -> Vec<(Intervene, Vec<u8>)> {
        self.payloads.clone()
    }
}

/// What a file asks to be healed: sections, or the lines of findings.
pub fn heal_source(file: &Path, bytes: &[u8]) -> Result<heal::Source, InterveneError> {
    if let Ok(report) = serde_json::from_slice(bytes) {
        return Ok(heal::Source::Findings(Box::new(report)));
    }
    let refused = |source| InterveneError::Sections { file: file.to_owned(), source };
    text::parse(bytes).map(heal::Source::Sections).map_err(refused)
}

fn add_healing(
    all: &mut Interventions,
    file: &Path,
    source: &heal::Source,
    armed: &[ImageSpec],
    files: &[ImageFile],
) -> Result<(), InterveneError> {
    let Some(image) = files.first() else { return Ok(()) };
    let wait = selvedge_events::heal::DEFAULT_WAIT_NS;
    let healing = heal::Healing::of(&image.path, source, How::Lock, How::Sleep, wait)
        .map_err(|source| InterveneError::Image { file: file.to_owned(), source })?;
    all.add_healing(&healing, armed)?;
    let locks = healing.sections.iter().filter(|section| section.how == How::Lock).count();
    all.fits.push(format!("--heal {}: {} sections, {locks} with a lock", file.display(), healing.sections.len()));
    all.again.push_str(&format!(" --heal {}", file.display()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_said_and_what_is_not_asked_for_is_nothing() {
        let mut all = Asked::default();
        assert!(all.add(Intervene::Guard, None).is_ok());
        assert!(all.is_empty() && all.beside(&[], &[]).expect("nothing").in_plan().is_empty());
        let missing = all.add(Intervene::Heal, Some(Path::new("/no/such"))).expect_err("no file");
        assert_eq!(missing.to_string(), "--heal /no/such: cannot read it");
    }
}
