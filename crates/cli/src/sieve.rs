//! The suppressions that are in force, and what they hid.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use selvedge_findings::suppression::{Date, Subject, Suppression, parse};
use selvedge_findings::{ExitCode, Finding};

use crate::messages::{Failure, note};

/// Suppressions, in their order, with what each hid.
#[derive(Debug)]
pub(crate) struct Sieve {
    entries: Vec<Entry>,
    files: usize,
    today: Date,
    hidden: BTreeSet<String>,
}

#[derive(Debug)]
struct Entry {
    suppression: Suppression,
    file: PathBuf,
    /// Findings that it hid, each once.
    hid: BTreeSet<String>,
}

impl Sieve {
    /// Reads the files.
    pub(crate) fn open(files: &[PathBuf]) -> Result<Sieve, Failure> {
        let mut sieve = Sieve { entries: Vec::new(), files: files.len(), today: today(), hidden: BTreeSet::new() };
        for file in files {
            let usage = |text: String| Failure::Error { code: ExitCode::Usage.code(), text };
            let name = file.display();
            let bytes = std::fs::read(file).map_err(|error| {
                usage(format!(
                    "cannot read the suppressions `{name}`: {error}; `--gen-suppressions {name}` makes such a file"
                ))
            })?;
            let all = parse(&String::from_utf8_lossy(&bytes))
                .map_err(|error| usage(format!("the suppressions `{name}`, {error}")))?;
            sieve.add(file, all);
        }
        Ok(sieve)
    }

    fn add(&mut self, file: &Path, all: Vec<Suppression>) {
        let entry = |suppression| Entry { suppression, file: file.to_owned(), hid: BTreeSet::new() };
        self.entries.extend(all.into_iter().map(entry));
    }

    /// Whether a finding is to be left out.
    pub(crate) fn hides(&mut self, finding: &Finding) -> bool {
        self.hides_subject(&Subject::of(finding), &finding.id)
    }

    /// As [`Sieve::hides`], of anything that has names.
    pub(crate) fn hides_subject(&mut self, subject: &Subject<'_>, id: &str) -> bool {
        let today = self.today;
        let fits = |entry: &&mut Entry| !entry.suppression.is_expired(today) && entry.suppression.hides(subject);
        let Some(entry) = self.entries.iter_mut().find(fits) else { return false };
        entry.hid.insert(id.to_owned());
        self.hidden.insert(id.to_owned());
        true
    }

    /// Findings that were left out; nothing where no suppressions were asked for.
    pub(crate) fn count(&self) -> Option<u64> {
        (self.files > 0).then_some(self.hidden.len() as u64)
    }

    /// Says what matched, what did not, and what is over.
    pub(crate) fn tell(&self) {
        if self.files == 0 {
            return;
        }
        let used: Vec<&Entry> = self.entries.iter().filter(|entry| !entry.hid.is_empty()).collect();
        let plural = |count: usize| if count == 1 { "" } else { "s" };
        let end = if used.is_empty() { "" } else { ":" };
        note(&format!("Matched {} suppression{}{end}", used.len(), plural(used.len())));
        for entry in used {
            note(&format!("  {} {} ({})", entry.hid.len(), entry.suppression, entry.place()));
        }
        for entry in &self.entries {
            let about = entry.suppression.bug.as_ref().map(|bug| format!("; see {bug}")).unwrap_or_default();
            if let Some(last) = entry.suppression.expires.filter(|_| entry.suppression.is_expired(self.today)) {
                note(&format!("expired on {last}: {} ({}){about}", entry.suppression, entry.place()));
            } else if entry.hid.is_empty() {
                note(&format!("unused: {} ({}){about}", entry.suppression, entry.place()));
            }
        }
    }
}

impl Entry {
    fn place(&self) -> String {
        format!("{}:{}", self.file.display(), self.suppression.line)
    }
}

/// The day by which suppressions are over: that of `SOURCE_DATE_EPOCH` where it is set, so that a report can be made again.
fn today() -> Date {
    let set = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    Date::of_seconds(set.unwrap_or_else(now))
}
