//! `.config/selvedge.toml`: flags that a project always gives.
//!
//! ```toml
//! required-version = "0.1.0"
//!
//! [profile.default]
//! suppressions = ["selvedge.supp"]
//!
//! [profile.ci]
//! seed = 7
//!
//! [profile.ci.hunt]          # of this command only
//! budget = "5m"
//! ```
//!
//! A key is the long name of a flag. `profile.default` always counts, and the profile that is asked for comes on top.

use std::path::{Path, PathBuf};

use clap::Command;
use toml::{Table, Value};

use super::nearest::did_you_mean;
use super::{Setting, usage};
use crate::messages::Failure;

/// The file, below the directory of a project.
pub(super) const FILE: &str = ".config/selvedge.toml";

/// The nearest file, in a directory or above it.
pub(super) fn find(dir: &Path) -> Option<PathBuf> {
    dir.ancestors().map(|dir| dir.join(FILE)).find(|file| file.is_file())
}

/// The settings of a file, the weakest first.
pub(super) fn read(file: &Path, profile: Option<&str>, command: &Command) -> Result<Vec<Setting>, Failure> {
    let name = file.display();
    let text = std::fs::read_to_string(file).map_err(|error| usage(format!("cannot read `{name}`: {error}")))?;
    // Paths are meant from the project's directory, which has `.config`.
    let dir = file.parent().unwrap_or(Path::new(""));
    let base = if dir.ends_with(".config") { dir.parent().unwrap_or(dir) } else { dir };
    let base = std::path::absolute(base).unwrap_or_else(|_| base.to_owned());
    settings(&text, profile, &base, command, env!("CARGO_PKG_VERSION"))
        .map(|mut settings| {
            settings.iter_mut().for_each(|setting| setting.from = format!("{name}: {}", setting.from));
            settings
        })
        .map_err(|problem| usage(format!("{name}: {problem}")))
}

fn settings(
    text: &str,
    profile: Option<&str>,
    base: &Path,
    command: &Command,
    version: &str,
) -> Result<Vec<Setting>, String> {
    let table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string().trim_end().to_owned())?;
    // First of all: an older selvedge may not know the keys.
    match table.get("required-version") {
        Some(Value::String(wanted)) => {
            let wanted_parts = parts(wanted).ok_or_else(|| format!("`{wanted}` is no version, as 0.1.0"))?;
            if parts(version).is_some_and(|this| this < wanted_parts) {
                return Err(format!("this project needs selvedge {wanted} or later, and this is {version}: update it"));
            }
        }
        Some(_) => return Err("required-version must be a text, as \"0.1.0\"".to_owned()),
        None => {}
    }
    for key in table.keys() {
        if !matches!(key.as_str(), "required-version" | "profile") {
            let near = did_you_mean(key, ["required-version", "profile"]);
            return Err(format!("there is no key `{key}`{near}; flags go below [profile.default]"));
        }
    }
    let none = Table::new();
    let profiles = match table.get("profile") {
        Some(Value::Table(profiles)) => profiles,
        Some(_) => return Err("profile must be tables, as [profile.ci]".to_owned()),
        None => &none,
    };
    let mut settings = Vec::new();
    for (name, value) in profiles {
        let Value::Table(keys) = value else { return Err(format!("profile.{name} must be a table")) };
        // Every profile is looked at: what is wrong is found before the day it is used.
        let read = of_profile(name, keys, base, command)?;
        if name == "default" {
            settings.splice(0..0, read);
        } else if Some(name.as_str()) == profile {
            settings.extend(read);
        }
    }
    if let Some(profile) = profile.filter(|name| *name != "default" && !profiles.contains_key(*name)) {
        let near = did_you_mean(profile, profiles.keys().map(String::as_str));
        return Err(format!("there is no profile `{profile}`{near}"));
    }
    Ok(settings)
}

/// The keys of a profile: those of all commands, then those of one.
fn of_profile(profile: &str, keys: &Table, base: &Path, command: &Command) -> Result<Vec<Setting>, String> {
    let commands: Vec<&Command> = command.get_subcommands().filter(|sub| !sub.is_hide_set()).collect();
    let mut settings = Vec::new();
    let mut of_commands = Vec::new();
    for (key, value) in keys {
        let place = format!("profile.{profile}.{key}");
        if let Value::Table(keys) = value {
            let Some(one) = commands.iter().find(|one| one.get_name() == key) else {
                let near = did_you_mean(key, commands.iter().map(|one| one.get_name()));
                return Err(format!("{place}: there is no command `{key}`{near}"));
            };
            for (flag, value) in keys {
                let place = format!("{place}.{flag}");
                let known: Vec<&str> = flags(one).collect();
                of_commands.push(setting(flag, value, Some(key), &known, base, &place)?);
            }
        } else {
            let known: Vec<&str> = commands.iter().flat_map(|one| flags(one)).chain(flags(command)).collect();
            settings.push(setting(key, value, None, &known, base, &place)?);
        }
    }
    settings.extend(of_commands);
    Ok(settings)
}

fn setting(
    flag: &str,
    value: &Value,
    command: Option<&str>,
    known: &[&str],
    base: &Path,
    place: &str,
) -> Result<Setting, String> {
    if !known.contains(&flag) {
        return Err(format!("{place}: there is no key `{flag}`{}", did_you_mean(flag, known.iter().copied())));
    }
    let one = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => Ok(value.to_string()),
        _ => Err(format!("{place}: use a text, a number, true or false, or a list of texts")),
    };
    let values = match value {
        Value::Array(list) => list.iter().map(one).collect::<Result<_, _>>()?,
        value => vec![one(value)?],
    };
    let (flag, command) = (flag.to_owned(), command.map(str::to_owned));
    Ok(Setting { flag, command, values, base: Some(base.to_owned()), from: place.to_owned() })
}

/// Flags that a file may set: all that have a long name, but those that say which file.
fn flags(command: &Command) -> impl Iterator<Item = &str> {
    let long = |arg: &clap::Arg| !matches!(arg.get_long(), Some("help" | "version" | "profile" | "config"));
    command.get_arguments().filter(move |arg| long(arg)).filter_map(|arg| arg.get_long())
}

/// `0.1.0`, `0.1` or `1`.
fn parts(version: &str) -> Option<[u64; 3]> {
    let mut numbers = [0; 3];
    let mut given = version.split('.');
    for number in &mut numbers {
        match given.next() {
            Some(text) => *number = text.parse().ok()?,
            None => break,
        }
    }
    given.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use proptest::prelude::*;

    use super::*;
    use crate::args::Cli;

    fn read(text: &str, profile: Option<&str>) -> Result<Vec<(String, Option<String>, String)>, String> {
        let all = settings(text, profile, Path::new("/p"), &Cli::command(), "0.5.1")?;
        Ok(all.into_iter().map(|one| (one.flag, one.command, one.values.join(" "))).collect())
    }

    const FILE: &str = "required-version = \"0.5\"\n[profile.ci]\nseed = 7\n[profile.ci.hunt]\nbudget = \"5m\"\n\
        [profile.default]\nsuppressions = [\"a\", \"b\"]\nhalt-on-error = true\n";

    #[test]
    fn profiles_come_on_top_of_the_default() {
        let one = |flag: &str, command: Option<&str>, values: &str| {
            (flag.to_owned(), command.map(str::to_owned), values.to_owned())
        };
        let default = [one("halt-on-error", None, "true"), one("suppressions", None, "a b")];
        assert_eq!(read(FILE, None).expect("a file"), default);
        let ci = [one("seed", None, "7"), one("budget", Some("hunt"), "5m")];
        assert_eq!(read(FILE, Some("ci")).expect("a file"), [&default[..], &ci[..]].concat());
    }

    #[test]
    fn what_is_wrong_is_said_with_the_nearest_key() {
        let cases = [
            (
                "[profile.default]\nbugdet = 1",
                "profile.default.bugdet: there is no key `bugdet`: did you mean `budget`?",
            ),
            ("[profile.ci.hunt]\nstrategy = \"pct\"", "profile.ci.hunt.strategy: there is no key `strategy`"),
            ("[profile.ci.hunter]\nx = 1", "profile.ci.hunter: there is no command `hunter`: did you mean `hunt`?"),
            ("budget = 1", "there is no key `budget`; flags go below [profile.default]"),
            ("profiles = 1", "there is no key `profiles`: did you mean `profile`?"),
            ("required-version = \"0.6\"", "this project needs selvedge 0.6 or later, and this is 0.5.1"),
            ("required-version = \"new\"", "`new` is no version"),
            ("profile = 1", "profile must be tables"),
            ("[profile.default]\nseed = 1979-05-27", "profile.default.seed: use a text"),
            ("[profile", "TOML parse error at line 1"),
        ];
        for (text, words) in cases {
            let error = read(text, None).expect_err(text);
            assert!(error.starts_with(words), "{text}: {error}");
        }
        assert_eq!(read(FILE, Some("cl")).expect_err("no profile"), "there is no profile `cl`: did you mean `ci`?");
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(\\[profile\\.(default|ci)\\]|\\n|=|[a-z\"0-9 .-]){0,30}") {
            let _ = read(&text, Some("ci"));
        }
    }
}
