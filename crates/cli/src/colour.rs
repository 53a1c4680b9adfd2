//! Whether text is coloured, decided once.
//!
//! `--color` says so, else `NO_COLOR`, `CLICOLOR_FORCE`, `CARGO_TERM_COLOR`, else whether somebody is looking.

use anstream::ColorChoice;

/// Decides; `flag` is what `--color` says.
pub(crate) fn choose(flag: Option<&str>) {
    decide(flag, &|name| std::env::var(name).ok()).write_global();
}

fn decide(flag: Option<&str>, variable: &dyn Fn(&str) -> Option<String>) -> ColorChoice {
    let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let cargo = variable("CARGO_TERM_COLOR");
    match (flag, cargo.as_deref()) {
        (Some("always"), _) => ColorChoice::Always,
        (Some("never"), _) => ColorChoice::Never,
        _ if is_set("NO_COLOR") => ColorChoice::Never,
        _ if variable("CLICOLOR_FORCE").is_some_and(|value| !value.is_empty() && value != "0") => ColorChoice::Always,
        (_, Some("always")) => ColorChoice::Always,
        (_, Some("never")) => ColorChoice::Never,
        _ => ColorChoice::Auto,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_counts() {
        type Set = &'static [(&'static str, &'static str)];
        let cases: [(Option<&str>, Set, ColorChoice); 9] = [
            (None, &[], ColorChoice::Auto),
            (None, &[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")], ColorChoice::Never),
            (None, &[("NO_COLOR", "")], ColorChoice::Auto),
            (None, &[("CLICOLOR_FORCE", "1"), ("CARGO_TERM_COLOR", "never")], ColorChoice::Always),
            (None, &[("CLICOLOR_FORCE", "0")], ColorChoice::Auto),
            (None, &[("CARGO_TERM_COLOR", "never")], ColorChoice::Never),
            (None, &[("CARGO_TERM_COLOR", "always")], ColorChoice::Always),
            (Some("always"), &[("NO_COLOR", "1")], ColorChoice::Always),
            (Some("never"), &[("CLICOLOR_FORCE", "1")], ColorChoice::Never),
        ];
        for (flag, set, expected) in cases {
            let variable = |name: &str| set.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            assert_eq!(decide(flag, &variable), expected, "{flag:?} {set:?}");
        }
    }
}
