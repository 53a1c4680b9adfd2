//! Files of suppressions.

use super::pattern::Pattern;
use super::valgrind;
use super::{Date, Rule, SHORTEST, Sort, Suppression};

/// Why a file of suppressions cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// A line is neither a comment nor `TYPE:PATTERN`.
    NoEntry {
        /// Its number, from 1.
        line: u32,
        /// What it is.
        text: String,
    },
    /// A type that nobody knows.
    NoSort {
        /// The line's number.
        line: u32,
        /// The type.
        word: String,
    },
    /// Nothing follows the type.
    NoPattern {
        /// The line's number.
        line: u32,
        /// The type.
        sort: Sort,
    },
    /// A fingerprint that is too short to name one finding.
    ShortId {
        /// The line's number.
        line: u32,
        /// What there is.
        id: String,
    },
    /// `expires=` without a day.
    NoDate {
        /// The line's number.
        line: u32,
        /// What there is.
        text: String,
    },
    /// A block of Valgrind's without its `}`.
    Unclosed {
        /// The line of its `{`.
        line: u32,
    },
    /// A block of Valgrind's without a name and a tool.
    Empty {
        /// The line of its `{`.
        line: u32,
    },
    /// A block of Valgrind's whose second line is no `TOOL:ERROR`.
    NoTool {
        /// The line's number.
        line: u32,
        /// What it is.
        text: String,
    },
    /// A line of a block of Valgrind's that is no call.
    NoCall {
        /// The line's number.
        line: u32,
        /// What it is.
        text: String,
    },
    /// A block of Valgrind's with more calls than anybody can mean.
    TooManyCalls {
        /// The line's number.
        line: u32,
    },
}

impl std::fmt::Display for ParseError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ParseError::NoEntry { line, text } => {
                write!(f, "line {line}: `{text}` is no suppression: write TYPE:PATTERN, as in race:deposit")
            }
            ParseError::NoSort { line, word } => {
                let words: Vec<&str> = Sort::ALL.iter().map(|(_, word, _)| *word).collect();
                write!(f, "line {line}: there is no type `{word}`: use one of {}", words.join(", "))
            }
            ParseError::NoPattern { line, sort } => {
                let word = sort.word();
                write!(f, "line {line}: nothing follows `{word}:`; write {word}:* if you mean all")
            }
            ParseError::ShortId { line, id } => {
                write!(f, "line {line}: `{id}` is too short: give at least {SHORTEST} characters of the finding's id")
            }
            ParseError::NoDate { line, text } => {
                write!(f, "line {line}: `{text}` is no day: write expires=YYYY-MM-DD")
            }
            ParseError::Unclosed { line } => write!(f, "line {line}: this block has no `}}`"),
            ParseError::Empty { line } => {
                write!(f, "line {line}: this block needs a name and, in the next line, TOOL:ERROR as in Helgrind:Race")
            }
            ParseError::NoTool { line, text } => {
                write!(f, "line {line}: `{text}` is no TOOL:ERROR, as in Helgrind:Race")
            }
            ParseError::NoCall { line, text } => {
                write!(f, "line {line}: `{text}` is no call: write fun:NAME, obj:FILE, src:FILE or ...")
            }
            ParseError::TooManyCalls { line } => write!(f, "line {line}: this block has too many calls"),
        }
    }
}

impl std::error::Error for ParseError {}

/// What a comment says about the entry below it, or before it in the line.
#[derive(Default)]
struct About {
    expires: Option<Date>,
    bug: Option<String>,
}

impl About {
    fn read(&mut self, comment: &str, line: u32) -> Result<(), ParseError> {
        for word in comment.split_whitespace() {
            if let Some(text) = word.strip_prefix("expires=") {
                let date = Date::parse(text).ok_or_else(|| ParseError::NoDate { line, text: text.to_owned() })?;
                self.expires = Some(date);
            } else if let Some(bug) = word.strip_prefix("bug=") {
                self.bug = Some(bug.to_owned());
            }
        }
        Ok(())
    }
}

/// Reads a file: `TYPE:PATTERN` lines, comments with `#`, and Valgrind's blocks.
///
/// ```
/// use selvedge_findings::suppression::parse;
///
/// let all = parse("# expires=2027-01-01 bug=https://bugs.example/17\nrace:deposit\n").unwrap();
/// assert_eq!(all[0].text, "race:deposit");
/// assert!(all[0].expires.is_some());
/// ```
pub fn parse(text: &str) -> Result<Vec<Suppression>, ParseError> {
    let mut all = Vec::new();
    let mut about = About::default();
    let mut lines = (1_u32..).zip(text.lines().map(str::trim));
    while let Some((number, line)) = lines.next() {
        if line.is_empty() {
            about = About::default();
        } else if let Some(comment) = line.strip_prefix('#') {
            about.read(comment, number)?;
        } else if line == "{" {
            let About { expires, bug } = std::mem::take(&mut about);
            let block = valgrind::block(number, &mut lines)?;
            all.extend(block.map(|block| Suppression { expires, bug, ..block }));
        } else {
            let (entry, comment) = line.split_once(" #").unwrap_or((line, ""));
            about.read(comment, number)?;
            let About { expires, bug } = std::mem::take(&mut about);
            let entry = entry.trim_end();
            let rule = rule(entry, number)?;
            all.push(Suppression { rule, text: entry.to_owned(), line: number, expires, bug });
        }
    }
    Ok(all)
}

fn rule(entry: &str, line: u32) -> Result<Rule, ParseError> {
    let no_entry = || ParseError::NoEntry { line, text: entry.to_owned() };
    let (word, pattern) = entry.split_once(':').ok_or_else(no_entry)?;
    let sort = Sort::from_word(word).ok_or_else(|| ParseError::NoSort { line, word: word.to_owned() })?;
    match (sort, pattern) {
        (_, "") => Err(ParseError::NoPattern { line, sort }),
        (Sort::Id, id) if id.len() < SHORTEST => Err(ParseError::ShortId { line, id: id.to_owned() }),
        (Sort::Id, id) => Ok(Rule::Id(id.to_owned())),
        (sort, pattern) => Ok(Rule::Name(sort, Pattern::new(pattern))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn comments_belong_to_the_entry_below() {
        let text = "# why\n# expires=2027-01-01 bug=B1\nrace:a\nrace:b\n# expires=2028-01-01\n\nrace:c\nrace:d # bug=B2\n\
                    # expires=2026-02-03\n{\nname\nHelgrind:Race\nfun:x\n}\n";
        let about =
            |one: &Suppression| (one.text.clone(), one.line, one.expires.map(|date| date.to_string()), one.bug.clone());
        let all: Vec<_> = parse(text).expect("a file").iter().map(about).collect();
        let own = |text: &str| Some(text.to_owned());
        let expected = [
            ("race:a".to_owned(), 3, own("2027-01-01"), own("B1")),
            ("race:b".to_owned(), 4, None, None),
            ("race:c".to_owned(), 7, None, None),
            ("race:d".to_owned(), 8, None, own("B2")),
            ("{name}".to_owned(), 10, own("2026-02-03"), None),
        ];
        assert_eq!(all, expected);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let cases = [
            ("race", "line 1: `race` is no suppression"),
            ("\nrase:x", "line 2: there is no type `rase`: use one of race, race_top"),
            ("race:", "line 1: nothing follows `race:`"),
            ("id:abc", "line 1: `abc` is too short"),
            ("# expires=soon\nrace:x", "line 1: `soon` is no day"),
            ("{\nx\n", "line 1: this block has no `}`"),
            ("{\n}\n", "line 1: this block needs a name"),
            ("{\nx\nRace\n}\n", "line 3: `Race` is no TOOL:ERROR"),
            ("{\nx\nHelgrind:Race\nfn:x\n}\n", "line 4: `fn:x` is no call"),
        ];
        for (text, words) in cases {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.starts_with(words), "{text:?}: {error}");
        }
    }

    #[test]
    fn blocks_for_other_tools_are_left_out() {
        assert_eq!(parse("{\nx\nMemcheck:Leak\nmatch-leak-kinds: all\nfun:x\n}\nrace:y\n").expect("a file").len(), 1);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(race:|id:|#|\\{|\\}|expires=|\\n|[a-z*^$ :.]){0,40}") {
            let _ = parse(&text);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn entries_keep_their_text_and_line(patterns in proptest::collection::vec("[a-z_*]{1,12}", 0..20)) {
            let text: String = patterns.iter().map(|pattern| format!("race:{pattern}\n")).collect();
            let all = parse(&text).expect("entries");
            prop_assert_eq!(all.len(), patterns.len());
            for (number, (one, pattern)) in (1_u32..).zip(all.iter().zip(&patterns)) {
                prop_assert_eq!(&one.text, &format!("race:{pattern}"));
                prop_assert_eq!(one.line, number);
            }
        }
    }
}
