//! Where the command line's defaults come from: `SELVEDGE_OPTIONS`, `TSAN_OPTIONS` and `.config/selvedge.toml`.
//!
//! Whatever can be set can be given as a flag. So a setting is nothing but another default of a flag, and the order is that in
//! which defaults replace each other: the built-in one, the configuration file's, that of `TSAN_OPTIONS`, that of
//! `SELVEDGE_OPTIONS`. A flag that is given wins over all.

mod config;
mod nearest;
pub(crate) mod options;

use std::any::TypeId;
use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _, FromArgMatches as _};
use selvedge_findings::ExitCode;

use crate::args::Cli;
use crate::messages::{Failure, note};

/// A default of a flag.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    /// The flag's long name.
    flag: String,
    /// Of this command only.
    command: Option<String>,
    /// Its values.
    values: Vec<String>,
    /// Relative paths are meant from here.
    base: Option<PathBuf>,
    /// As the user wrote it, and where.
    from: String,
}

/// Reads the command line with the defaults that are set.
pub(crate) fn parse(argv: &[OsString]) -> Result<Cli, Failure> {
    let asked = Asked::of(argv);
    let mut settings = Vec::new();
    let environment = options::from_environment(&read_variable, &read_file).map_err(|text| usage(text))?;
    if environment.help {
        write!(std::io::stdout().lock(), "{}", options::help())?;
        std::process::exit(ExitCode::Success.code().into());
    }
    let profile =
        asked.profile.clone().or_else(|| environment.value("profile")).or_else(|| variable("SELVEDGE_PROFILE"));
    if asked.is_configured() {
        let file = match asked.config.clone().or_else(|| variable("SELVEDGE_CONFIG").map(PathBuf::from)) {
            Some(file) => Some(file),
            None => std::env::current_dir().ok().and_then(|dir| config::find(&dir)),
        };
        match (file, &profile) {
            (Some(file), _) => settings.extend(config::read(&file, profile.as_deref(), &Cli::command())?),
            (None, Some(profile)) => {
                let text = format!("there is no profile `{profile}`: no {} here or above", config::FILE);
                return Err(usage(text));
            }
            (None, None) => {}
        }
    }
    settings.extend(environment.settings());
    for warning in &environment.warnings {
        note(warning);
    }
    let cli = with(argv, &settings)?;
    if cli.verbosity > 0 {
        for setting in &settings {
            note(&format!("--{} {} ({})", setting.flag, setting.values.join(" "), setting.from));
        }
    }
    Ok(cli)
}

/// Reads the command line with these defaults. What is wrong with a default is not told as if it were a flag.
fn with(argv: &[OsString], settings: &[Setting]) -> Result<Cli, Failure> {
    let command = settings.iter().fold(Cli::command(), apply);
    let parsed = command.try_get_matches_from(argv).and_then(|matches| Cli::from_arg_matches(&matches));
    let error = match parsed {
        Ok(cli) => return Ok(cli),
        Err(error) if error.use_stderr() => error,
        Err(help) => help.exit(),
    };
    let fails = |settings: &[Setting]| {
        let command = settings.iter().fold(Cli::command(), apply);
        command.try_get_matches_from(argv).err().filter(clap::Error::use_stderr)
    };
    if fails(&[]).is_none() {
        for setting in settings {
            if let Some(why) = fails(std::slice::from_ref(setting)) {
                let text = why.to_string();
                let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
                return Err(usage(format!("{}: {line}", setting.from)));
            }
        }
    }
    error.exit()
}

/// A command line with one more default.
fn apply(command: Command, setting: &Setting) -> Command {
    let is_meant = |name: &str| setting.command.as_deref().is_none_or(|only| only == name);
    let names: Vec<String> = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
    let command = names
        .into_iter()
        .filter(|name| is_meant(name))
        .fold(command, |command, name| command.mut_subcommand(name, |sub| apply_to(sub, setting)));
    if setting.command.is_none() { apply_to(command, setting) } else { command }
}

fn apply_to(command: Command, setting: &Setting) -> Command {
    let Some(arg) = command.get_arguments().find(|arg| arg.get_long() == Some(&setting.flag)) else { return command };
    let id = arg.get_id().clone();
    let is_path = arg.get_value_parser().type_id() == TypeId::of::<PathBuf>();
    let is_switch = matches!(arg.get_action(), clap::ArgAction::SetTrue);
    let values: Vec<OsString> = setting
        .values
        .iter()
        .map(|value| match &setting.base {
            Some(base) if is_path => base.join(value).into_os_string(),
            _ if is_switch => OsString::from(plain_truth(value)),
            _ => OsString::from(value),
        })
        .collect();
    command.mut_arg(id, |arg| arg.default_values(values))
}

/// `1`, `yes` and `on` as clap's switches know them.
fn plain_truth(value: &str) -> &str {
    match value {
        "1" | "yes" | "on" | "true" => "true",
        "0" | "no" | "off" | "false" => "false",
        other => other,
    }
}

/// What must be known before the defaults are.
struct Asked {
    profile: Option<String>,
    config: Option<PathBuf>,
    command: Option<String>,
}

impl Asked {
    fn of(argv: &[OsString]) -> Asked {
        let matches = Cli::command().ignore_errors(true).try_get_matches_from(argv).ok();
        let matches = matches.as_ref();
        let deepest = matches.and_then(|matches| matches.subcommand());
        let text = |name: &str| {
            let of = |matches: &clap::ArgMatches| matches.try_get_one::<String>(name).ok().flatten().cloned();
            deepest.and_then(|(_, sub)| of(sub)).or_else(|| of(matches?))
        };
        let path = |name: &str| {
            let of = |matches: &clap::ArgMatches| matches.try_get_one::<PathBuf>(name).ok().flatten().cloned();
            deepest.and_then(|(_, sub)| of(sub)).or_else(|| of(matches?))
        };
        let command = deepest.map(|(name, _)| name.to_owned());
        Asked { profile: text("use-profile"), config: path("use-config"), command }
    }

    /// Whether the command looks at a configuration: one that writes completions must not fail for it.
    fn is_configured(&self) -> bool {
        !matches!(self.command.as_deref(), None | Some("completions" | "man" | "reference" | "build" | "cc" | "c++"))
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

fn read_variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn read_file(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

fn usage(text: String) -> Failure {
    Failure::Error { code: ExitCode::Usage.code(), text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setting(flag: &str, command: Option<&str>, values: &[&str]) -> Setting {
        Setting {
            flag: flag.to_owned(),
            command: command.map(str::to_owned),
            values: values.iter().map(|value| (*value).to_owned()).collect(),
            base: Some(PathBuf::from("/base")),
            from: "a test".to_owned(),
        }
    }

    fn hunt(words: &[&str], settings: &[Setting]) -> crate::args::HuntArgs {
        let argv: Vec<OsString> = ["selvedge", "hunt"].iter().chain(words).map(OsString::from).collect();
        match with(&argv, settings).expect("parses").command {
            crate::args::Command::Hunt(args) => args,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn later_settings_win_and_flags_win_over_all() {
        let settings =
            [setting("runs", None, &["3"]), setting("runs", Some("hunt"), &["4"]), setting("seed", None, &["7"])];
        let args = hunt(&["--seed", "9", "--", "./p"], &settings);
        assert_eq!((args.runs, args.seed), (4, 9));
        let args = hunt(&["--", "./p"], &settings[..1]);
        assert_eq!((args.runs, args.seed), (3, 1));
        let args = hunt(&["--", "./p"], &[setting("runs", Some("rank"), &["5"])]);
        assert_eq!(args.runs, 10);
    }

    #[test]
    fn paths_are_meant_from_their_file_and_switches_have_many_words() {
        let settings = [
            setting("suppressions", None, &["a.supp", "/b.supp"]),
            setting("all", None, &["1"]),
            setting("halt-on-error", None, &["1"]),
            setting("oracle", None, &["test -e x"]),
        ];
        let args = hunt(&["--", "./p"], &settings);
        let output = &args.trying.output.findings;
        assert_eq!(output.suppressions, [PathBuf::from("/base/a.supp"), PathBuf::from("/b.supp")]);
        assert!(args.trying.all && output.halt_on_error);
        assert_eq!(args.trying.oracle.as_deref(), Some("test -e x"));
        let args = hunt(&["--halt-on-error=no", "--suppressions", "c", "--", "./p"], &settings);
        assert!(!args.trying.output.findings.halt_on_error);
        assert_eq!(args.trying.output.findings.suppressions, [PathBuf::from("c")]);
    }

    #[test]
    fn what_is_wrong_with_a_setting_is_told_with_its_place() {
        let argv: Vec<OsString> = ["selvedge", "hunt", "--", "./p"].map(OsString::from).to_vec();
        let Err(Failure::Error { code, text }) = with(&argv, &[setting("runs", None, &["many"])]) else {
            panic!("a failure");
        };
        assert_eq!(code, 2);
        assert!(text.starts_with("a test: invalid value 'many' for '--runs <N>'"), "{text}");
    }

    #[test]
    fn every_key_of_the_table_has_its_flag() {
        let command = Cli::command();
        let has = |flag: &str| {
            let of = |command: &Command| command.get_arguments().any(|arg| arg.get_long() == Some(flag));
            of(&command) || command.get_subcommands().any(of)
        };
        for key in options::KEYS {
            assert!(key.flag.is_none_or(has), "{}", key.name);
        }
    }
}
