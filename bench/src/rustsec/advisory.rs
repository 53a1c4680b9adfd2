//! A test and what it is about: read from the `//@` lines of the source, and made into a package around it.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::error::{BenchError, Result, at};
use crate::place;

/// A crate in an exact version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exact {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Features; all others are off if there are any.
    pub features: Vec<String>,
}

/// An advisory with a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advisory {
    /// Name of the source, without its ending.
    pub name: String,
    /// Its number in the database.
    pub id: String,
    /// The crates of the test; the first is the one that the advisory is about.
    pub crates: Vec<Exact>,
    /// What the test does, in a sentence.
    pub about: String,
    #[serde(skip)]
    source: PathBuf,
}

/// All tests, by name.
pub fn all() -> Result<Vec<Advisory>> {
    let dir = place::programs().join("rustsec");
    let mut found = Vec::new();
    for entry in at("list", &dir, fs::read_dir(&dir))? {
        let path = at("list", &dir, entry)?.path();
        let text = at("read", &path, fs::read_to_string(&path))?;
        found.push(parse(&path, &text)?);
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

fn parse(path: &Path, text: &str) -> Result<Advisory> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let values = |key: &str| {
        let key = format!("//@ {key}: ");
        text.lines().filter_map(|line| line.strip_prefix(&key)).map(str::to_owned).collect::<Vec<_>>()
    };
    let crates: Vec<Exact> = values("crate")
        .iter()
        .filter_map(|value| {
            let mut words = value.split_whitespace().map(str::to_owned);
            Some(Exact { name: words.next()?, version: words.next()?, features: words.collect() })
        })
        .collect();
    let about = text.lines().find_map(|line| line.strip_prefix("//! ")).unwrap_or_default().to_owned();
    match (values("advisory").first(), crates.is_empty()) {
        (Some(id), false) => Ok(Advisory { name, id: id.clone(), crates, about, source: path.to_owned() }),
        _ => Err(BenchError::Usage(format!("{}: no `//@ crate:` or `//@ advisory:` line", path.display()))),
    }
}

impl Advisory {
    /// Makes a package of the test below `dir`.
    pub fn package(&self, dir: &Path) -> Result<PathBuf> {
        let package = dir.join(&self.name);
        let tests = package.join("tests");
        at("create", &tests, fs::create_dir_all(&tests))?;
        let lib = package.join("lib.rs");
        at("write", &lib, fs::write(&lib, ""))?;
        let test = tests.join("advisory.rs");
        at("copy", &test, fs::copy(&self.source, &test))?;
        let manifest = package.join("Cargo.toml");
        at("write", &manifest, fs::write(&manifest, self.manifest()))?;
        Ok(package)
    }

    fn manifest(&self) -> String {
        let mut text = "[package]\nname = \"advisory\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
             [lib]\npath = \"lib.rs\"\ntest = false\ndoctest = false\n\n[workspace]\n\n[dependencies]\n"
            .to_owned();
        for Exact { name, version, features } in &self.crates {
            let _ = match features.as_slice() {
                [] => writeln!(text, "{name} = \"={version}\""),
                features => writeln!(
                    text,
                    "{name} = {{ version = \"={version}\", default-features = false, features = {features:?} }}"
                ),
            };
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_test_says_what_it_is_about() {
        let all = all().expect("readable");
        assert!(all.len() >= 8);
        for advisory in all {
            assert!(advisory.id.starts_with("RUSTSEC-20"), "{advisory:?}");
            assert!(!advisory.about.is_empty(), "{advisory:?}");
            assert!(advisory.manifest().contains(&format!("{} = ", advisory.crates[0].name)), "{advisory:?}");
        }
    }

    #[test]
    fn features_are_the_only_ones() {
        let text = "//@ crate: tokio 1.13.0 sync\n//@ advisory: RUSTSEC-2021-0124\n//! Closed.\n";
        let advisory = parse(Path::new("x/tokio.rs"), text).expect("a test");
        let wanted = "tokio = { version = \"=1.13.0\", default-features = false, features = [\"sync\"] }\n";
        assert!(advisory.manifest().ends_with(wanted), "{}", advisory.manifest());
        assert!(parse(Path::new("x.rs"), "//! Nothing.\n").is_err());
    }
}
