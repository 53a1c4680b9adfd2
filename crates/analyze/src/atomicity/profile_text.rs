//! A profile as text, one fact a line, sorted: two profiles are compared with `diff`.
//!
//! ```text
//! file     = "selvedge-atomicity 2" NL *line
//! line     = "program" SP name
//!          | "time" SP number                             nanoseconds of the longest run; may be left out
//!          | "busy" SP number                             nanoseconds that threads were busy in the busiest run; may be left out
//!          | "call" SP name *( SP lock )                  a call that takes or gives back locks of these classes
//!          | "variable" SP name                           what follows is about it
//!          | "member" SP name                             a variable that is part of it
//!          | "locks" *( SP name )                         held at every access
//!          | "accesses" SP number                         in a run, the most; may be left out
//!          | "lingers" SP number                          nanoseconds in a run that locks would be held after accesses; may be left out
//!          | "site" SP name                               an access in the code that touches it
//!          | "pair" SP atomicity SP function SP first SP second *( SP lock )
//!          | "lasted" SP number                           that pair, nanoseconds in a run, the most; may be left out
//!          | "#" anything | ""                            passed over
//! atomicity = "none" | "read" | "exclusive" | "top"
//! ```
//!
//! Version 1 is the same without numbers, and is read too. In names, blanks, control characters and `%` are `%XX` for each byte; the empty name is `%`. To have a pair left alone, write `none`: a
//! merge with further runs keeps it so.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::profile::{Atomicity, Observed, PairKey, Profile, Variable};

/// The first line, and that of the version before.
const HEADER: &str = "selvedge-atomicity 2";
const OLD_HEADER: &str = "selvedge-atomicity 1";

/// Why text is not a profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ProfileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: ProfileProblem,
}

/// What can be wrong with a line of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileProblem {
    /// It is something else, or of another version.
    #[error("expected \"selvedge-atomicity 2\"; a file of another version needs another Selvedge")]
    Header,
    /// The first word is none of those that begin a line.
    #[error("expected program, time, busy, call, variable, member, locks, accesses, lingers, site, pair or lasted")]
    Word,
    /// Too many or too few words.
    #[error("too many or too few words")]
    Words,
    /// It belongs to a variable, and there is none before it.
    #[error("a line about a variable before the first variable")]
    NoVariable,
    /// It was there before.
    #[error("this is there already")]
    Again,
    /// It is no number, or zero.
    #[error("expected a number above zero")]
    Number,
    /// It is about a pair, and there is none before it.
    #[error("a line about a pair before the first pair of its variable")]
    NoPair,
    /// It is no atomicity.
    #[error("expected none, read, exclusive or top")]
    Atomicity,
    /// A `%` that no byte follows, or bytes that are no text.
    #[error("a name that cannot be read: % needs two hexadecimal digits")]
    Name,
}

impl Profile {
    /// The profile as text.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEADER}\nprogram {}\n", escape(&self.program));
        if self.time > 0 {
            let _ = writeln!(text, "time {}", self.time);
        }
        if self.busy > 0 {
            let _ = writeln!(text, "busy {}", self.busy);
        }
        for (call, locks) in &self.calls {
            let _ = writeln!(text, "call {}{}", escape(call), words(locks));
        }
        for (name, variable) in &self.variables {
            let _ = writeln!(text, "\nvariable {}", escape(name));
            for member in &variable.members {
                let _ = writeln!(text, "member {}", escape(member));
            }
            let _ = writeln!(text, "locks{}", words(&variable.locks));
            if variable.accesses > 0 {
                let _ = writeln!(text, "accesses {}", variable.accesses);
            }
            if variable.lingers > 0 {
                let _ = writeln!(text, "lingers {}", variable.lingers);
            }
            for site in &variable.sites {
                let _ = writeln!(text, "site {}", escape(site));
            }
            for (key, seen) in &variable.pairs {
                let [function, first, second] = [&key.function, &key.first, &key.second].map(|name| escape(name));
                let locks = words(&seen.locks);
                let _ = writeln!(text, "pair {} {function} {first} {second}{locks}", seen.atomicity);
                if seen.lasted > 0 {
                    let _ = writeln!(text, "lasted {}", seen.lasted);
                }
            }
        }
        text
    }

    /// Reads a profile.
    ///
    /// # Errors
    /// With the line and what is wrong there.
    pub fn from_text(text: &str) -> Result<Profile, ProfileError> {
        let mut lines = text.lines().enumerate();
        if !lines.next().is_some_and(|(_, line)| [HEADER, OLD_HEADER].contains(&line)) {
            return Err(ProfileError { line: 1, problem: ProfileProblem::Header });
        }
        let mut reading = Reading::default();
        for (number, line) in lines {
            reading.line(line).map_err(|problem| ProfileError { line: number + 1, problem })?;
        }
        let mut profile = reading.profile;
        profile.variables.extend(reading.open);
        Ok(profile)
    }
}

#[derive(Default)]
struct Reading {
    profile: Profile,
    has_program: bool,
    /// The variable that lines are about.
    open: Option<(String, Variable)>,
    has_locks: bool,
    /// The pair that a line may be about.
    pair: Option<PairKey>,
}

impl Reading {
    fn line(&mut self, line: &str) -> Result<(), ProfileProblem> {
        use ProfileProblem::{Again, NoVariable, Word, Words};
        if line.is_empty() || line.starts_with('#') {
            return Ok(());
        }
        let mut words = line.split(' ');
        let word = words.next().unwrap_or_default();
        let rest = words.map(unescape);
        let pair = self.pair.take();
        match word {
            "time" => {
                if std::mem::replace(&mut self.profile.time, number(rest)?) > 0 {
                    return Err(Again);
                }
            }
            "busy" => {
                if std::mem::replace(&mut self.profile.busy, number(rest)?) > 0 {
                    return Err(Again);
                }
            }
            "accesses" => {
                let (_, variable) = self.open.as_mut().ok_or(NoVariable)?;
                if std::mem::replace(&mut variable.accesses, number(rest)?) > 0 {
                    return Err(Again);
                }
            }
            "lingers" => {
                let (_, variable) = self.open.as_mut().ok_or(NoVariable)?;
                if std::mem::replace(&mut variable.lingers, number(rest)?) > 0 {
                    return Err(Again);
                }
            }
            "lasted" => {
                let (_, variable) = self.open.as_mut().ok_or(NoVariable)?;
                let seen = pair.and_then(|key| variable.pairs.get_mut(&key)).ok_or(ProfileProblem::NoPair)?;
                seen.lasted = number(rest)?;
            }
            "program" => {
                if std::mem::replace(&mut self.has_program, true) {
                    return Err(Again);
                }
                let [name] = exactly(rest)?;
                self.profile.program = name;
            }
            "call" => {
                let mut rest = rest;
                let call = rest.next().unwrap_or(Err(Words))?;
                if self.profile.calls.insert(call, names(rest)?).is_some() {
                    return Err(Again);
                }
            }
            "site" => {
                let [name] = exactly(rest)?;
                let (_, variable) = self.open.as_mut().ok_or(NoVariable)?;
                if !variable.sites.insert(name) {
                    return Err(Again);
                }
            }
            "variable" => {
                let [name] = exactly(rest)?;
                self.profile.variables.extend(self.open.take());
                if self.profile.variables.contains_key(&name) {
                    return Err(Again);
                }
                self.open = Some((name, Variable::default()));
                self.has_locks = false;
            }
            "member" => {
                let [name] = exactly(rest)?;
                let (_, variable) = self.open.as_mut().ok_or(NoVariable)?;
                if !variable.members.insert(name) {
                    return Err(Again);
                }
            }
            "locks" => {
                let (_, variable) = self.open.as_mut().ok_or(NoVariable)?;
                if std::mem::replace(&mut self.has_locks, true) {
                    return Err(Again);
                }
                variable.locks = names(rest)?;
            }
            "pair" => {
                let (_, variable) = self.open.as_mut().ok_or(NoVariable)?;
                let mut rest = rest;
                let mut next = || rest.next().unwrap_or(Err(Words));
                let (word, function, first, second) = (next()?, next()?, next()?, next()?);
                let atomicity = Atomicity::ALL.into_iter().find(|atomicity| atomicity.word() == word);
                let atomicity = atomicity.ok_or(ProfileProblem::Atomicity)?;
                let seen = Observed { atomicity, locks: names(rest)?, lasted: 0 };
                let key = PairKey { function, first, second };
                if variable.pairs.insert(key.clone(), seen).is_some() {
                    return Err(Again);
                }
                self.pair = Some(key);
            }
            _ => return Err(Word),
        }
        Ok(())
    }
}

fn exactly<const N: usize>(
    words: impl Iterator<Item = Result<String, ProfileProblem>>,
) -> Result<[String; N], ProfileProblem> {
    let words = words.collect::<Result<Vec<_>, _>>()?;
    words.try_into().map_err(|_| ProfileProblem::Words)
}

fn number(words: impl Iterator<Item = Result<String, ProfileProblem>>) -> Result<u64, ProfileProblem> {
    let [word] = exactly(words)?;
    word.parse().ok().filter(|number| *number > 0).ok_or(ProfileProblem::Number)
}

fn names(words: impl Iterator<Item = Result<String, ProfileProblem>>) -> Result<BTreeSet<String>, ProfileProblem> {
    let mut names = BTreeSet::new();
    for word in words {
        if !names.insert(word?) {
            return Err(ProfileProblem::Again);
        }
    }
    Ok(names)
}

fn words(names: &BTreeSet<String>) -> String {
    names.iter().fold(String::new(), |text, name| text + " " + &escape(name))
}

fn escape(name: &str) -> String {
    if name.is_empty() {
        return "%".into();
    }
    let mut text = String::new();
    for char in name.chars() {
        if char.is_whitespace() || char.is_control() || char == '%' {
            for byte in char.encode_utf8(&mut [0; 4]).bytes() {
                let _ = write!(text, "%{byte:02X}");
            }
        } else {
            text.push(char);
        }
    }
    text
}

fn unescape(word: &str) -> Result<String, ProfileProblem> {
    match word {
        "" => return Err(ProfileProblem::Words),
        "%" => return Ok(String::new()),
        _ => {}
    }
    let mut bytes = Vec::with_capacity(word.len());
    let mut parts = word.split('%');
    bytes.extend(parts.next().unwrap_or_default().bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).ok_or(ProfileProblem::Name)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(ProfileProblem::Name);
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| ProfileProblem::Name)?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).map_err(|_| ProfileProblem::Name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn name() -> impl Strategy<Value = String> {
        prop_oneof!["[a-d]{1,2}", "\\PC{0,6}", any::<String>(), Just("a b%20".to_owned())]
    }

    fn profiles() -> impl Strategy<Value = Profile> {
        let locks = || prop::collection::btree_set(name(), 0..3);
        let seen = (0..4_usize, locks(), any::<u64>()).prop_map(|(n, locks, lasted)| Observed {
            atomicity: Atomicity::ALL[n],
            locks,
            lasted,
        });
        let key = (name(), name(), name()).prop_map(|(function, first, second)| PairKey { function, first, second });
        let variable = (locks(), locks(), (0..3_u64, 0..3_u64), locks(), prop::collection::btree_map(key, seen, 0..4))
            .prop_map(|(members, locks, (accesses, lingers), sites, pairs)| Variable {
                members,
                locks,
                accesses,
                lingers,
                sites,
                pairs,
            });
        let calls = prop::collection::btree_map(name(), locks(), 0..3);
        (name(), (0..3_u64, 0..3_u64), prop::collection::btree_map(name(), variable, 0..4), calls)
            .prop_map(|(program, (time, busy), variables, calls)| Profile { program, time, busy, variables, calls })
    }

    #[test]
    fn a_profile_is_readable() {
        let mut profile = Profile { program: "bank".into(), time: 5_000_000, busy: 4_000_000, ..Profile::default() };
        let key = PairKey { function: "pay(int, int)".into(), first: "bank.c:12".into(), second: "bank.c:14".into() };
        let seen = Observed { atomicity: Atomicity::Read, locks: BTreeSet::from(["log".into()]), lasted: 1200 };
        let members = BTreeSet::from(["balance".into(), "count".into()]);
        let sites = BTreeSet::from(["bank.c:pay+2:5:w4".into()]);
        profile.calls.insert("bank.c:pay+1:0:call".into(), BTreeSet::from(["log".into()]));
        let pairs = BTreeMap::from([(key, seen)]);
        let variable = Variable { members, locks: BTreeSet::new(), accesses: 40, lingers: 900, sites, pairs };
        profile.variables.insert("balance+count".into(), variable);
        let text = "selvedge-atomicity 2\nprogram bank\ntime 5000000\nbusy 4000000\ncall bank.c:pay+1:0:call log\n\n\
                    variable balance+count\nmember balance\nmember count\nlocks\naccesses 40\nlingers 900\nsite bank.c:pay+2:5:w4\n\
                    pair read pay(int,%20int) bank.c:12 bank.c:14 log\nlasted 1200\n";
        assert_eq!(profile.to_text(), text);
        assert_eq!(Profile::from_text(text), Ok(profile));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        use ProfileProblem as P;
        let table = [
            ("", 1, P::Header),
            ("selvedge-atomicity 3\n", 1, P::Header),
            ("selvedge-atomicity 2\ntime 0\n", 2, P::Number),
            ("selvedge-atomicity 2\ntime 7\ntime 7\n", 3, P::Again),
            ("selvedge-atomicity 2\nvariable x\naccesses many\n", 3, P::Number),
            ("selvedge-atomicity 2\nvariable x\nlasted 4\n", 3, P::NoPair),
            ("selvedge-atomicity 2\nvariable x\npair read f a b\nlasted 4\nlasted 4\n", 5, P::NoPair),
            ("selvedge-atomicity 1\nhello\n", 2, P::Word),
            ("selvedge-atomicity 1\nprogram\n", 2, P::Words),
            ("selvedge-atomicity 1\nprogram a b\n", 2, P::Words),
            ("selvedge-atomicity 1\nprogram a\nprogram a\n", 3, P::Again),
            ("selvedge-atomicity 1\nlocks\n", 2, P::NoVariable),
            ("selvedge-atomicity 1\nvariable x\nlocks\nlocks\n", 4, P::Again),
            ("selvedge-atomicity 1\nvariable x\nvariable x\n", 3, P::Again),
            ("selvedge-atomicity 1\nvariable x\nlocks k k\n", 3, P::Again),
            ("selvedge-atomicity 1\nvariable x\npair read f a\n", 3, P::Words),
            ("selvedge-atomicity 1\nvariable x\npair some f a b\n", 3, P::Atomicity),
            ("selvedge-atomicity 1\nvariable x\npair read f a b\npair none f a b k\n", 4, P::Again),
            ("selvedge-atomicity 1\nvariable x%\n", 2, P::Name),
            ("selvedge-atomicity 1\nvariable x%+1\n", 2, P::Name),
            ("selvedge-atomicity 1\nvariable x%FF\n", 2, P::Name),
            ("selvedge-atomicity 1\nvariable  x\n", 2, P::Words),
        ];
        for (text, line, problem) in table {
            assert_eq!(Profile::from_text(text), Err(ProfileError { line, problem }), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(profile in profiles()) {
            prop_assert_eq!(Profile::from_text(&profile.to_text()), Ok(profile));
        }

        #[test]
        fn damage_is_an_error_or_another_profile(
            profile in profiles(),
            edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..3_u8), 1..6),
        ) {
            let mut bytes = profile.to_text().into_bytes();
            for (place, byte, how) in edits {
                let at = place.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
                match how {
                    0 if !bytes.is_empty() => bytes[at] = byte,
                    1 => bytes.truncate(at),
                    _ => bytes.insert(at.min(bytes.len()), byte),
                }
            }
            let text = String::from_utf8_lossy(&bytes);
            if let Ok(read) = Profile::from_text(&text) {
                prop_assert_eq!(Profile::from_text(&read.to_text()), Ok(read));
            }
        }
    }
}
