//! Patterns on names: ThreadSanitizer's and Valgrind's.

/// ThreadSanitizer's: `*` stands for anything; without `^` and `$` the name may go on at either end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Glob);

impl Pattern {
    /// Every text is a pattern.
    pub fn new(text: &str) -> Pattern {
        let (from_start, text) = text.strip_prefix('^').map_or((false, text), |rest| (true, rest));
        let (to_end, text) = text.strip_suffix('$').map_or((false, text), |rest| (true, rest));
        let (before, after) = (if from_start { "" } else { "*" }, if to_end { "" } else { "*" });
        Pattern(Glob { text: format!("{before}{text}{after}"), question: false })
    }

    /// Whether it matches.
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(name)
    }
}

/// Valgrind's: `*` and `?`, and the whole name must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    text: String,
    /// Whether `?` stands for one character.
    question: bool,
}

impl Glob {
    /// Every text is a pattern.
    pub fn new(text: &str) -> Glob {
        Glob { text: text.to_owned(), question: true }
    }

    /// Whether it matches the whole name. One look back is enough: what the last `*` took is all that can change.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.text.as_bytes(), name.as_bytes());
        let (mut p, mut n) = (0, 0);
        let mut back: Option<(usize, usize)> = None;
        loop {
            match (pattern.get(p), name.get(n)) {
                (None, None) => return true,
                (Some(b'*'), _) => {
                    back = Some((p + 1, n));
                    p += 1;
                }
                (Some(one), Some(other)) if one == other || (self.question && *one == b'?') => {
                    p += 1;
                    n += 1;
                }
                _ => match back {
                    Some((after, taken)) if taken < name.len() => {
                        back = Some((after, taken + 1));
                        (p, n) = (after, taken + 1);
                    }
                    _ => return false,
                },
            }
        }
    }

    /// What follows the last slash, as a pattern of its own.
    pub fn last_part(&self) -> Glob {
        let text = self.text.rsplit('/').next().unwrap_or_default().to_owned();
        Glob { text, question: self.question }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn anchors_and_stars() {
        let cases = [
            ("foo", "a foo b", true),
            ("^foo", "foo b", true),
            ("^foo", "a foo", false),
            ("foo$", "a foo", true),
            ("foo$", "foo b", false),
            ("^foo$", "foo", true),
            ("f*o", "a fxxo b", true),
            ("^a*c*e$", "abcde", true),
            ("^a*c*e$", "abcdef", false),
            ("", "anything", true),
            ("^$", "", true),
            ("^$", "x", false),
            ("a?c", "abc", false),
            ("a?c", "xa?cx", true),
        ];
        for (pattern, name, expected) in cases {
            assert_eq!(Pattern::new(pattern).matches(name), expected, "{pattern} {name}");
        }
        for (pattern, name, expected) in [
            ("a?c", "abc", true),
            ("foo", "foobar", false),
            ("*bar", "foobar", true),
            ("", "x", false),
            ("*", "", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(name), expected, "{pattern} {name}");
        }
    }

    /// The definition.
    fn naive(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern.split_first(), name.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => (0..=name.len()).any(|taken| naive(rest, &name[taken..])),
            (Some((one, rest)), Some((other, after))) if one == other || *one == b'?' => naive(rest, after),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn the_fast_way_is_the_definition(pattern in "[ab*?]{0,8}", name in "[ab]{0,10}") {
            prop_assert_eq!(Glob::new(&pattern).matches(&name), naive(pattern.as_bytes(), name.as_bytes()));
        }

        #[test]
        fn a_plain_pattern_is_a_substring(pattern in "[abc]{0,3}", name in "[abc]{0,8}") {
            prop_assert_eq!(Pattern::new(&pattern).matches(&name), name.contains(&pattern));
        }
    }
}
