//! Which code runs with hooks where sites are guarded, and what that takes: functions have two bodies, and one armed site
//! switches all that lead to it, with every hook in them. How many hooks that are is known from a survey of the runs that
//! are learnt from, by function, so that it can be kept with the invariants and holds for the next build, too.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_analyze::invariant::Invariants;
use selvedge_analyze::invariant::group::{FELT, Switching};
use selvedge_trace::Survey;

use crate::guard::keys::Keyed;

/// By function, the hooks that a run met; without functions that hardly run.
pub fn hooks_of(survey: &Survey, images: &[Keyed]) -> BTreeMap<String, u64> {
    let mut hooks: BTreeMap<String, u64> = BTreeMap::new();
    for image in images.iter().filter(|image| !image.sites.reach.bodies.is_empty()) {
        let Some(surveyed) = survey.images().get(&image.sites.build_id) else { continue };
        for (entry, key) in image.sites.entries.iter().zip(&image.keys) {
            if let (Some(seen), Some(function)) = (surveyed.sites.get(&entry.offset), key.outer_function()) {
                *hooks.entry(function.to_owned()).or_default() += u64::from(seen.hits);
            }
        }
    }
    hooks.retain(|_, hooks| *hooks > FELT);
    hooks
}

/// What guarding sites of these images switches.
pub fn switching(invariants: &Invariants, images: &[Keyed]) -> Switching {
    let mut out = Switching::default();
    for image in images {
        let begin = u32::try_from(out.hooks.len()).unwrap_or(u32::MAX);
        let ranges = &image.sites.reach.ranges;
        let mut by_body: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (number, (first, _, bodies)) in (begin..).zip(ranges) {
            let function = image.keys.get(*first as usize).and_then(|key| key.outer_function());
            out.hooks.push(function.and_then(|function| invariants.hooks.get(function)).copied().unwrap_or(0));
            for body in bodies {
                by_body.entry(*body).or_default().insert(number);
            }
        }
        for (number, (first, sites, bodies)) in (begin..).zip(ranges) {
            let switched: BTreeSet<u32> =
                bodies.iter().filter_map(|body| by_body.get(body)).flatten().copied().chain([number]).collect();
            let keys = image.keys.iter().skip(*first as usize).take(*sites as usize);
            for key in keys.filter(|key| invariants.sites.contains_key(key)) {
                out.by_site.entry(key.clone()).or_default().extend(&switched);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use selvedge_analyze::invariant::{Belonging, SiteKey};
    use selvedge_events::HookIx;
    use selvedge_events::site_table::{Body, Entry, Form};
    use selvedge_image::Reach;
    use selvedge_trace::survey::Seen;

    use super::*;
    use crate::arm::ImageSites;

    /// `f`, `g` and the inner function `h` that both call, with two sites each.
    fn image() -> Keyed {
        let names = ["f+1:1:w4", "f+2:1:w4", "g+1:1:w4", "f/inlined+1:1:w4", "h+1:1:w4", "h+2:1:w4"];
        let entry = |at: usize| Entry { offset: at as u32 * 16, hook: HookIx(3), form: Form::Call, code: [0; 8] };
        let ranges = vec![(0, 2, vec![0]), (2, 1, vec![1]), (3, 1, vec![0]), (4, 2, vec![0, 1])];
        let bodies = vec![Body { room: 1000, hooked: 0 }, Body { room: 2000, hooked: 32 }];
        Keyed {
            sites: ImageSites {
                build_id: vec![1],
                entries: (0..names.len()).map(entry).collect(),
                reach: Reach { bodies, ranges },
                ..ImageSites::default()
            },
            keys: names.iter().map(|name| SiteKey(format!("a.c:{name}"))).collect(),
            ..Keyed::default()
        }
    }

    #[test]
    fn hooks_are_counted_by_function() {
        let mut survey = Survey::default();
        for (offset, hits) in [(0, 60_000), (16, 1), (32, 50_000), (48, 7)] {
            let seen = Seen { hook: HookIx(3), shared: false, on_stack: false, hits };
            survey.add(&[1], Path::new("prog"), offset, seen);
        }
        assert_eq!(hooks_of(&survey, &[image()]), [("f".to_owned(), 60_008)].into());
        let one_body = Keyed { sites: ImageSites { reach: Reach::default(), ..image().sites }, ..image() };
        assert_eq!(hooks_of(&survey, &[one_body]), BTreeMap::new());
    }

    #[test]
    fn a_site_switches_all_that_its_entrances_lead_to() {
        let image = image();
        let sites = image.keys.iter().map(|key| (key.clone(), Belonging::default())).collect();
        let hooks = [("f".to_owned(), 5), ("g".to_owned(), 7)].into();
        let all = Invariants { sites, hooks, ..Invariants::default() };
        let switching = switching(&all, std::slice::from_ref(&image));
        assert_eq!(switching.hooks, [5, 7, 5, 0]);
        let of = |name: &str| switching.by_site[&SiteKey(format!("a.c:{name}"))].iter().copied().collect::<Vec<_>>();
        assert_eq!(of("f+1:1:w4"), [0, 2, 3]);
        assert_eq!(of("g+1:1:w4"), [1, 3]);
        assert_eq!(of("h+2:1:w4"), [0, 1, 2, 3]);
    }
}
