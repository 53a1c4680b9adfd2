//! What commands that guard have in common.

use std::path::Path;

use selvedge_analyze::invariant::Invariants;
use selvedge_analyze::invariant::select::{Pattern, Selection};
use selvedge_drive::guard::site_names::{SiteName, SiteNames};
use selvedge_drive::guard::violations::{Violation as Pair, Violations};
use selvedge_image::{Variables, load_or_build};
use selvedge_report::violation::{Side, Stalls, Violation};

use crate::messages::{Failure, note};

/// `1 site`, `2 sites`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// The violations of logs, for people.
pub(crate) fn told(all: &Violations, known: Option<&Invariants>, log: &Path, program: Option<&Path>) -> Vec<Violation> {
    let image = program.unwrap_or(&all.names.program);
    let variables = load_or_build(image).ok().map(|loaded| Variables::new(&loaded.image));
    let invariants = &all.names.invariants;
    all.pairs.iter().map(|pair| told_one(pair, all, known, (log, invariants), variables.as_ref())).collect()
}

fn told_one(
    pair: &Pair,
    all: &Violations,
    known: Option<&Invariants>,
    (log, file): (&Path, &Path),
    variables: Option<&Variables>,
) -> Violation {
    let nobody = SiteName::default();
    let site = all.names.get(pair.site).unwrap_or(&nobody);
    let side = |name: &SiteName, thread: Option<u32>| Side {
        verb: name.verb().to_owned(),
        place: name.place(),
        thread,
        function: name.frame().map(|frame| frame.function.clone()),
        file: name.frame().and_then(|frame| frame.file.clone()),
        line: name.frame().and_then(|frame| frame.line),
    };
    let offset = pair.addr.checked_sub(pair.base).filter(|_| pair.base > 0);
    let variable = offset.and_then(|offset| variables?.variable(offset)).map(|variable| variable.name);
    let mut belongs = Vec::new();
    if let Some(set) = all.names.key(pair.site).and_then(|key| known?.sites.get(&key)) {
        let place = |key: &selvedge_analyze::invariant::SiteKey| place_of(&all.names, &key.0);
        belongs.extend(set.members().into_iter().map(place));
        belongs.dedup();
        if set.has(None) {
            belongs.push("nothing".to_owned());
        }
    }
    Violation {
        site: side(site, Some(pair.threads.0)),
        before: all.names.get(pair.other).map(|before| side(before, pair.threads.1)),
        variable,
        belongs,
        count: pair.count,
        stalls: Stalls {
            resolved: pair.resolved,
            timed_out: pair.timed_out,
            futile: pair.futile,
            stalled_us: pair.stalled_us,
            longest_us: pair.longest_us,
        },
        relax: format!("selvedge relax {} {} --only '{}'", file.display(), log.display(), site.key),
    }
}

/// Where the site with a key is.
fn place_of(names: &SiteNames, key: &str) -> String {
    names.sites.iter().find(|site| site.key == key).map_or_else(|| key.to_owned(), SiteName::place)
}

/// Sites by name, as they were asked for.
pub(crate) fn selection(only: &[String], except: &[String]) -> Result<Selection, Failure> {
    let patterns = |texts: &[String]| -> Result<Vec<Pattern>, Failure> {
        texts.iter().map(|text| Pattern::new(text).map_err(|error| Failure::usage(&error))).collect()
    };
    Ok(Selection { only: patterns(only)?, except: patterns(except)? })
}

/// Says which patterns mean nothing.
pub(crate) fn say_idle(selection: &Selection, invariants: &Invariants) {
    for pattern in selection.idle(invariants) {
        note(&format!("`{}` means no site of these invariants", pattern.as_str()));
    }
}
