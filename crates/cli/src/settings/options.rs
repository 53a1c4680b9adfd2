//! `SELVEDGE_OPTIONS`: `key=value` pairs, split by `:` or blanks, in ThreadSanitizer's form and with its names.
//!
//! What of them `TSAN_OPTIONS` sets is taken from there too: scripts and CTest set it already.

use std::fmt::Write as _;
use std::path::Path;

use super::Setting;
use super::nearest::did_you_mean;

/// A key.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its name.
    pub(crate) name: &'static str,
    /// The flag whose default it is; a key without one is accepted and changes nothing.
    pub(crate) flag: Option<&'static str>,
    /// What it is where nobody sets it.
    pub(crate) default: &'static str,
    /// What it does, or why it changes nothing.
    pub(crate) what: &'static str,
    /// Whether it is taken from `TSAN_OPTIONS` too.
    pub(crate) of_tsan: bool,
}

const fn key(name: &'static str, flag: &'static str, default: &'static str, what: &'static str) -> Key {
    Key { name, flag: Some(flag), default, what, of_tsan: true }
}

const fn idle(name: &'static str, what: &'static str) -> Key {
    Key { name, flag: None, default: "", what, of_tsan: true }
}

/// Every key.
pub(crate) const KEYS: &[Key] = &[
    Key { name: "help", flag: None, default: "0", what: "print this list and end", of_tsan: false },
    Key { name: "include", flag: None, default: "", what: "read further keys from this file", of_tsan: false },
    Key {
        name: "profile",
        flag: Some("profile"),
        default: "default",
        what: "the profile of .config/selvedge.toml",
        of_tsan: false,
    },
    key("suppressions", "suppressions", "", "leave out findings that this file names"),
    key("log_path", "log-path", "stdout", "write the text of findings to log_path.PID"),
    key("exitcode", "exit-code", "66", "the exit code where there are findings"),
    key("halt_on_error", "halt-on-error", "0", "stop at the first finding"),
    key("abort_on_error", "abort-on-error", "0", "where there are findings, end with SIGABRT"),
    key("verbosity", "verbosity", "0", "1 says which settings are in force, and where they are from"),
    key(
        "strip_path_prefix",
        "strip-path-prefix",
        "",
        "take this, and what comes before it, off the names of source files",
    ),
    key("memory_limit_mb", "memory-limit-mb", "1024", "most MiB that the recorder uses inside the program (record)"),
    key("report_atomic_races", "atomics", "0", "watch atomic operations too (detect)"),
    idle("history_size", "changes nothing: a trace has the whole history"),
    idle("force_seq_cst_atomics", "changes nothing: atomics are performed with the order that the program gives them"),
    idle("atexit_sleep_ms", "changes nothing: threads that still run at the end are in the trace as they are"),
    idle("die_after_fork", "changes nothing: children of a fork are followed"),
    idle(
        "ignore_noninstrumented_modules",
        "changes nothing: what was not built with selvedge makes no accesses that are reported",
    ),
    idle("second_deadlock_stack", "changes nothing: every stack that is known is shown"),
    idle("symbolize", "changes nothing: names are found without the help of another program"),
];

/// What the environment sets.
#[derive(Debug, Default)]
pub(crate) struct Environment {
    /// Key, value and variable, the weakest first.
    pairs: Vec<Pair>,
    /// Whether the list of keys was asked for.
    pub(crate) help: bool,
    /// What is not understood.
    pub(crate) warnings: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Pair {
    key: String,
    value: String,
    from: &'static str,
}

const OURS: &str = "SELVEDGE_OPTIONS";
const THEIRS: &str = "TSAN_OPTIONS";

/// Files that include each other end somewhere.
const DEEPEST: u32 = 8;

/// Reads both variables.
pub(super) fn from_environment(
    variable: &dyn Fn(&str) -> Option<String>,
    file: &dyn Fn(&Path) -> Result<String, String>,
) -> Result<Environment, String> {
    let mut environment = Environment::default();
    if let Some(text) = variable(THEIRS) {
        let mut others = Vec::new();
        for (name, value) in pairs(&text) {
            match KEYS.iter().any(|key| key.of_tsan && key.name == name) {
                true => environment.pairs.push(Pair { key: name, value, from: THEIRS }),
                false => others.push(name),
            }
        }
        if !others.is_empty() {
            let list = others.join(", ");
            environment.warnings.push(format!("not taken from {THEIRS}: {list}; `{OURS}=help=1` lists what is"));
        }
    }
    if let Some(text) = variable(OURS) {
        environment.take(&text, file, 0)?;
    }
    Ok(environment)
}

impl Environment {
    fn take(&mut self, text: &str, file: &dyn Fn(&Path) -> Result<String, String>, depth: u32) -> Result<(), String> {
        for (key, value) in pairs(text) {
            match key.as_str() {
                "help" => self.help |= matches!(value.as_str(), "1" | "true" | "yes" | ""),
                "include" if depth >= DEEPEST => return Err(format!("{OURS}: files include each other: `{value}`")),
                "include" => {
                    let included = file(Path::new(&value))
                        .map_err(|why| format!("{OURS}: cannot read the included file `{value}`: {why}"))?;
                    let lines: Vec<&str> =
                        included.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
                    self.take(&lines.join("\n"), file, depth + 1)?;
                }
                name if KEYS.iter().any(|known| known.name == name) => self.pairs.push(Pair { key, value, from: OURS }),
                name => {
                    let near = did_you_mean(name, KEYS.iter().map(|key| key.name));
                    self.warnings.push(format!("{OURS}: there is no key `{name}`{near}; help=1 lists them"));
                }
            }
        }
        Ok(())
    }

    /// What a key is set to, the strongest.
    pub(super) fn value(&self, key: &str) -> Option<String> {
        self.pairs.iter().rev().find(|pair| pair.key == key).map(|pair| pair.value.clone())
    }

    /// Defaults of flags, the weakest first.
    pub(super) fn settings(&self) -> Vec<Setting> {
        let setting = |pair: &Pair| {
            let key = KEYS.iter().find(|key| key.name == pair.key)?;
            // ThreadSanitizer's word for no limit.
            let no_limit = key.name == "memory_limit_mb" && pair.value == "0";
            Some(Setting {
                flag: key.flag.filter(|flag| !no_limit && *flag != "profile")?.to_owned(),
                command: None,
                values: vec![pair.value.clone()],
                base: None,
                from: format!("{}: {}={}", pair.from, pair.key, pair.value),
            })
        };
        self.pairs.iter().filter_map(setting).collect()
    }
}

/// Splits `key=value` pairs. A value may stand in quotes, and then have blanks and colons.
fn pairs(text: &str) -> Vec<(String, String)> {
    let is_gap = |c: char| c == ':' || c == ',' || c.is_whitespace();
    let mut all = Vec::new();
    let mut rest = text.trim_start_matches(is_gap);
    while !rest.is_empty() {
        let end = rest.find(|c| c == '=' || is_gap(c)).unwrap_or(rest.len());
        let name = rest[..end].to_owned();
        rest = &rest[end..];
        let mut value = String::new();
        if let Some(after) = rest.strip_prefix('=') {
            let quote = after.chars().next().filter(|c| matches!(c, '\'' | '"'));
            let (inside, more) = match quote {
                Some(quote) => after[1..].split_once(quote).unwrap_or((&after[1..], "")),
                None => after.split_at(after.find(is_gap).unwrap_or(after.len())),
            };
            value = inside.to_owned();
            rest = more;
        }
        all.push((name, value));
        rest = rest.trim_start_matches(is_gap);
    }
    all
}

/// The list of keys, for people.
pub(crate) fn help() -> String {
    let mut text = "Keys of SELVEDGE_OPTIONS, as key=value, split by ':' or blanks:\n".to_owned();
    for key in KEYS {
        let _ = write!(text, "\n  {}\n      {}", key.name, key.what);
        if !key.default.is_empty() {
            let _ = write!(text, " (default: {})", key.default);
        }
        if let Some(flag) = key.flag {
            let _ = write!(text, "; as a flag: --{flag}");
        }
    }
    let not: Vec<&str> = KEYS.iter().filter(|key| !key.of_tsan).map(|key| key.name).collect();
    let _ = writeln!(
        text,
        "\n\nAll but {} are taken from TSAN_OPTIONS too. A flag wins over SELVEDGE_OPTIONS, which wins over\n\
         TSAN_OPTIONS, which wins over .config/selvedge.toml.",
        not.join(", ")
    );
    text
}

/// The page of the reference.
pub(crate) fn page() -> String {
    let mut text = "# SELVEDGE_OPTIONS\n\n\
        *Written by `cargo xtask gen` from `crates/cli/src/settings/options.rs`: change the code, then run it again.*\n\n\
        `key=value` pairs, split by `:` or blanks; a value with blanks or colons stands in quotes. A key that is not in the \
        table is warned of.\nA flag wins over `SELVEDGE_OPTIONS`, which wins over `TSAN_OPTIONS`, which wins over \
        `.config/selvedge.toml`, which wins over the default.\n\n\
        | key | default | as a flag | from `TSAN_OPTIONS` | what it does |\n| --- | --- | --- | --- | --- |\n"
        .to_owned();
    let code = |text: &str| if text.is_empty() { "-".to_owned() } else { format!("`{text}`") };
    for key in KEYS {
        let flag = key.flag.map_or_else(|| "-".to_owned(), |flag| format!("`--{flag}`"));
        let tsan = if key.of_tsan { "yes" } else { "no" };
        let _ = writeln!(text, "| `{}` | {} | {flag} | {tsan} | {} |", key.name, code(key.default), key.what);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(ours: &str, theirs: &str) -> Environment {
        let variable = |name: &str| Some(if name == OURS { ours.to_owned() } else { theirs.to_owned() });
        let file = |path: &Path| match path.to_str() {
            Some("more") => Ok("# a comment: x=1\nexitcode=3 verbosity=1\n".to_owned()),
            Some("loop") => Ok("include=loop".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        from_environment(&variable, &file).expect("read")
    }

    #[test]
    fn pairs_are_split_as_threadsanitizer_does() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs("a=1:b=2 c=3\n d"), [pair("a", "1"), pair("b", "2"), pair("c", "3"), pair("d", "")]);
        assert_eq!(pairs("log_path='/a b:c' x=\"y z\""), [pair("log_path", "/a b:c"), pair("x", "y z")]);
        assert_eq!(pairs(": ::"), []);
    }

    #[test]
    fn ours_win_over_theirs_and_strangers_are_named() {
        let environment =
            read("exitcode=5:colour=1:supressions=x", "exitcode=4:halt_on_error=1:report_bugs=0:profile=x");
        assert_eq!(environment.value("exitcode").as_deref(), Some("5"));
        assert_eq!(environment.value("halt_on_error").as_deref(), Some("1"));
        let warnings = environment.warnings.join("\n");
        assert!(warnings.contains("not taken from TSAN_OPTIONS: report_bugs, profile"), "{warnings}");
        assert!(warnings.contains("no key `supressions`: did you mean `suppressions`?"), "{warnings}");
        assert!(warnings.contains("no key `colour`"), "{warnings}");
    }

    #[test]
    fn files_are_included_but_not_for_ever() {
        assert_eq!(read("include=more", "").value("exitcode").as_deref(), Some("3"));
        let variable = |name: &str| (name == OURS).then(|| "include=loop".to_owned());
        let error = from_environment(&variable, &|_| Ok("include=loop".to_owned())).expect_err("a loop");
        assert!(error.contains("include each other"), "{error}");
        let error = from_environment(&variable, &|_| Err("gone".to_owned())).expect_err("no file");
        assert_eq!(error, "SELVEDGE_OPTIONS: cannot read the included file `loop`: gone");
    }

    #[test]
    fn the_list_names_every_key() {
        for key in KEYS {
            assert!(help().contains(&format!("\n  {}\n", key.name)), "{}", key.name);
            assert!(page().contains(&format!("| `{}` |", key.name)), "{}", key.name);
            assert!(
                key.flag.is_some()
                    || key.what.starts_with("changes nothing: ")
                    || matches!(key.name, "help" | "include")
            );
        }
        assert!(read("help=1", "").help && !read("help=0", "").help);
    }

    proptest! {
        #[test]
        fn any_text_is_split(text in "\\PC{0,60}") {
            for (name, _) in pairs(&text) {
                prop_assert!(!name.contains([':', ' ']));
            }
        }

        #[test]
        fn what_was_joined_is_split(all in proptest::collection::vec(("[a-z_]{1,8}", "[a-z0-9/.]{0,8}"), 0..8)) {
            let text: Vec<String> = all.iter().map(|(name, value)| format!("{name}={value}")).collect();
            prop_assert_eq!(pairs(&text.join(":")), all);
        }
    }
}
