//! Tells which functions are too hot for a budget, and what is done about them.

use std::path::PathBuf;

use selvedge_drive::detect::hot::{Body, Hot, Turns};
use selvedge_image::{Functions, Image};

/// How many are named.
const NAMED: usize = 4;

/// Two lines for people; none where nothing is too hot.
pub(crate) fn told(hot: &Hot) -> Vec<String> {
    if hot.is_empty() {
        return Vec::new();
    }
    let mut parts = Vec::new();
    let some = |bodies: &[Body]| (!bodies.is_empty()).then_some(bodies.len());
    if let Some(count) = some(&hot.bursts) {
        let (on, off) = hot.times();
        parts.push(format!("{count} in bursts of {on:?}, about every {:?}", on + off));
    }
    if let Some(count) = some(&hot.seldom) {
        parts.push(format!("{count} that hardly touch what threads share in one burst of {}", hot.whole_every));
    }
    let when = |turns: &Turns| match turns.is_always() {
        true => "always".to_owned(),
        false => format!("in one run of {}", 1_000_000_u64.div_ceil(turns.part.max(1))),
    };
    if let Some(count) = some(&hot.turns.bodies) {
        parts.push(format!("{count} that run for long at a time {}", when(&hot.turns)));
    }
    if let Some(count) = some(&hot.rare.bodies) {
        parts.push(format!("{count} that run for long and hardly touch what threads share {}", when(&hot.rare)));
    }
    let hottest = hot.hottest();
    let have = if hottest.len() == 1 { "1 function is" } else { &*format!("{} functions are", hottest.len()) };
    vec![
        format!("{have} too hot for --overhead: with hooks {}", parts.join(", ")),
        format!("the hottest: {} (--overhead none watches all)", names(&hottest).join(", ")),
    ]
}

fn names(hottest: &[&Body]) -> Vec<String> {
    let mut named = Vec::new();
    let mut opened: Option<(PathBuf, Option<Functions>)> = None;
    for body in hottest.iter().take(NAMED) {
        if opened.as_ref().is_none_or(|(path, _)| *path != body.image) {
            let functions = Image::open(&body.image).ok().map(|image| Functions::new(&image));
            opened = Some((body.image.clone(), functions));
        }
        let functions = opened.as_ref().and_then(|(_, functions)| functions.as_ref());
        let name = functions.and_then(|functions| functions.at(body.hooked.into())).map(|function| function.name());
        named.push(name.unwrap_or_else(|| format!("{}+{:#x}", body.image.display(), body.hooked)));
    }
    named
}
