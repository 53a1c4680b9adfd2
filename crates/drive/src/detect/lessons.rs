//! What earlier runs taught: where noise paid, where it may, and where it was in vain.
//!
//! A near miss makes both its sites suspects, and so does a race. A suspect at which threads waited often and met
//! nobody loses half of its weight with every such run (TSVD's decay), and is forgotten in the end; a race restores it. The file
//! is text, one site a line, so that it can be read, compared and merged.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use selvedge_trace::DetectLog;

use super::watch::WatchedSite;
use crate::program::{hex, unhex};

/// Waits of a run without which a suspect is not judged.
const ENOUGH_WAITS: u32 = 4;
/// Runs in vain after which a suspect is one no longer.
const MOST_IN_VAIN: u32 = 4;
/// First line of the file.
const TITLE: &str = "# selvedge detect: suspects, version 1";

/// A site by its image and offset.
type Key = (Vec<u8>, u32);

/// What is known of a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Lesson {
    races: u32,
    nears: u32,
    in_vain: u32,
}

/// What earlier runs taught.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lessons {
    sites: BTreeMap<Key, Lesson>,
    /// Suspected variables of the executable: offset and length.
    variables: BTreeSet<(u64, u64)>,
}

impl Lessons {
    /// Reads a file; what cannot be read is not known.
    pub fn load(file: &Path) -> Lessons {
        std::fs::read_to_string(file).map(|text| Lessons::parse(&text)).unwrap_or_default()
    }

    fn parse(text: &str) -> Lessons {
        let mut lessons = Lessons::default();
        let mut lines = text.lines();
        if lines.next() != Some(TITLE) {
            return lessons;
        }
        for line in lines {
            match *line.split_whitespace().collect::<Vec<_>>() {
                ["site", image, offset, "races", races, "near", nears, "vain", vain] => {
                    let offset = u32::from_str_radix(offset.trim_start_matches("0x"), 16);
                    if let (Some(image), Ok(offset), Ok(races), Ok(nears), Ok(in_vain)) =
                        (unhex(image), offset, races.parse(), nears.parse(), vain.parse())
                    {
                        lessons.sites.insert((image, offset), Lesson { races, nears, in_vain });
                    }
                }
                ["variable", offset, len] => {
                    let offset = u64::from_str_radix(offset.trim_start_matches("0x"), 16);
                    if let (Ok(offset), Ok(len)) = (offset, len.parse()) {
                        lessons.variables.insert((offset, len));
                    }
                }
                _ => {}
            }
        }
        lessons
    }

    /// The file's text.
    pub fn text(&self) -> String {
        let mut text = format!("{TITLE}\n");
        for ((image, offset), lesson) in &self.sites {
            let Lesson { races, nears, in_vain } = lesson;
            let _ = writeln!(text, "site {} {offset:#x} races {races} near {nears} vain {in_vain}", hex(image));
        }
        for (offset, len) in &self.variables {
            let _ = writeln!(text, "variable {offset:#x} {len}");
        }
        text
    }

    /// Whether nothing is suspected.
    pub fn is_empty(&self) -> bool {
        self.sites.is_empty()
    }

    /// How many sites are suspected.
    pub fn suspects(&self) -> usize {
        self.sites.values().filter(|lesson| lesson.in_vain < MOST_IN_VAIN).count()
    }

    /// Learns from a run.
    pub fn learn(&mut self, log: &DetectLog, sites: &[WatchedSite]) {
        let key = |id: u32| sites.get(id as usize).map(|site| (site.build_id.clone(), site.offset));
        for near in &log.nears {
            for key in [near.sites.0, near.sites.1].into_iter().filter_map(key) {
                let lesson = self.sites.entry(key).or_default();
                lesson.nears = lesson.nears.saturating_add(near.count);
            }
            self.suspect(log, near.addr, 8);
        }
        for (id, hits) in (0_u32..).zip(&log.hits) {
            let Some(lesson) = key(id).and_then(|key| self.sites.get_mut(&key)) else { continue };
            if hits.races == 0 && hits.waits >= ENOUGH_WAITS {
                lesson.in_vain = lesson.in_vain.saturating_add(1);
            }
        }
        for race in &log.races {
            for key in race.sides.iter().filter_map(|side| key(side.site?)) {
                let lesson = self.sites.entry(key).or_default();
                lesson.races = lesson.races.saturating_add(race.count);
                lesson.in_vain = 0;
            }
            let [one, _] = &race.sides;
            self.suspect(log, one.addr, u64::from(one.size));
        }
    }

    /// A variable of the executable is suspected.
    fn suspect(&mut self, log: &DetectLog, addr: u64, size: u64) {
        if let Some(image) = log.images.first().filter(|image| (image.base..image.end).contains(&addr)) {
            self.variables.insert((addr - image.base, size.clamp(1, 64)));
        }
    }

    /// How much a site is suspected, from 0 to 1.
    pub fn weight(&self, site: &WatchedSite) -> f64 {
        match self.sites.get(&(site.build_id.clone(), site.offset)) {
            Some(lesson) if lesson.in_vain < MOST_IN_VAIN => 0.5_f64.powi(i32::try_from(lesson.in_vain).unwrap_or(0)),
            _ => 0.0,
        }
    }

    /// Whether a race was seen there.
    pub fn raced(&self, site: &WatchedSite) -> bool {
        self.sites.get(&(site.build_id.clone(), site.offset)).is_some_and(|lesson| lesson.races > 0)
    }

    /// Where suspected variables are.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        self.variables.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use selvedge_events::detect::{Hits, NearMiss};

    use super::*;

    fn site(offset: u32) -> WatchedSite {
        WatchedSite { build_id: vec![1, 2], path: "/p".into(), offset, hits: 0 }
    }

    #[test]
    fn suspects_gain_and_lose_weight() {
        let sites = [site(0x10), site(0x20), site(0x30)];
        let mut lessons = Lessons::default();
        let near = NearMiss { sites: (0, 1), addr: 9, count: 2, least_ns: 5 };
        lessons.learn(&DetectLog { nears: vec![near], ..DetectLog::default() }, &sites);
        assert_eq!([0, 1, 2].map(|at| lessons.weight(&sites[at])), [1.0, 1.0, 0.0]);
        // The first waited in vain, the second did not wait.
        let hits = vec![Hits { waits: 9, ..Hits::default() }, Hits::default()];
        let vain = DetectLog { hits, ..DetectLog::default() };
        lessons.learn(&vain, &sites);
        assert_eq!([0, 1].map(|at| lessons.weight(&sites[at])), [0.5, 1.0]);
        for _ in 0..MOST_IN_VAIN {
            lessons.learn(&vain, &sites);
        }
        assert_eq!((lessons.weight(&sites[0]), lessons.suspects()), (0.0, 1));
        assert_eq!(Lessons::parse(&lessons.text()), lessons);
        assert_eq!(Lessons::parse("something else\n"), Lessons::default());
    }
}
