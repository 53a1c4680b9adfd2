//! Interventions by name: what a command line asks to be done about bugs, before it becomes part of a plan.

use std::path::{Path, PathBuf};

use selvedge_events::plan::Intervene;

/// What to do about bugs, each with the file that it reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interventions(Vec<(Intervene, PathBuf)>);

/// Why an intervention cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InterveneError {
    /// The runtime does not have it.
    #[error("--{} {}: this version of selvedge cannot {}", kind.name(), file.display(), kind.name())]
    Unsupported {
        /// What.
        kind: Intervene,
        /// Its file.
        file: PathBuf,
    },
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
}

/// The interventions that the runtime of this version has.
const SUPPORTED: &[Intervene] = &[];

impl Interventions {
    /// Adds one.
    pub fn add(&mut self, kind: Intervene, file: Option<&Path>) -> Result<(), InterveneError> {
        let Some(file) = file else { return Ok(()) };
        let path =
            file.canonicalize().map_err(|source| InterveneError::Read { kind, file: file.to_owned(), source })?;
        if !SUPPORTED.contains(&kind) {
            return Err(InterveneError::Unsupported { kind, file: file.to_owned() });
        }
        self.0.push((kind, path));
        Ok(())
    }

    /// As a plan has them.
    pub fn in_plan(&self) -> Vec<(Intervene, Vec<u8>)> {
        let bytes = |path: &PathBuf| path.as_os_str().as_encoded_bytes().to_vec();
        self.0.iter().map(|(kind, path)| (*kind, bytes(path))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_had_is_said_and_what_is_not_asked_for_is_nothing() {
        let mut all = Interventions::default();
        assert!(all.add(Intervene::Guard, None).is_ok());
        assert!(all.in_plan().is_empty());
        let missing = all.add(Intervene::Heal, Some(Path::new("/no/such"))).expect_err("no file");
        assert_eq!(missing.to_string(), "--heal /no/such: cannot read it");
        let unsupported = all.add(Intervene::Enforce, Some(Path::new("/"))).expect_err("not yet");
        assert!(unsupported.to_string().contains("cannot enforce"));
    }
}
