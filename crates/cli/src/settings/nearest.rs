//! The name that somebody meant.

/// The nearest of some names, where one is near enough to be meant.
pub(super) fn nearest<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let scored = names.into_iter().map(|name| (strsim::jaro_winkler(word, name), name));
    let best = scored.max_by(|(one, a), (other, b)| one.total_cmp(other).then(b.cmp(a)));
    best.filter(|(score, _)| *score > 0.7).map(|(_, name)| name)
}

/// `: did you mean X?`, or nothing.
pub(super) fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, names).map_or_else(String::new, |name| format!(": did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_named() {
        let names = ["budget", "runs", "suppressions"];
        assert_eq!(nearest("bugdet", names), Some("budget"));
        assert_eq!(nearest("suppression", names), Some("suppressions"));
        assert_eq!(nearest("zzz", names), None);
        assert_eq!(did_you_mean("run", names), ": did you mean `runs`?");
    }
}
