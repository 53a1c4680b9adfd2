//! Runs the commands of a documentation page, as a reader would.
//!
//! A page is Markdown. Its fenced `console` blocks are sessions:
//!
//! ````text
//! ```console
//! $ selvedge cc -O1 -g prog.c -o prog -pthread
//! $ selvedge hunt -- ./prog
//! WARNING: Selvedge: data race in
//! [66]
//! ```
//! ````
//!
//! - A line with `$ ` is a command of `bash`; it goes on in the next line after a `\` at its end. Directory and exported
//!   variables last to the end of the page.
//! - Other lines must be in the output, as parts of lines, in this order on standard output or on standard error. `…` stands
//!   for anything in a line; a line of only `…` is there for the reader.
//! - The exit code must be 0, or what `[N]` says.
//!
//! A block of another language that follows the words "Save this as `NAME`" is written to that file. Comments of HTML, which
//! readers do not see, say more:
//!
//! - `<!-- file: NAME -->`: the next block is written to this file.
//! - `<!-- copy: PATH -->`: this file or directory of the repository lies in the directory, under its last name.
//! - `<!-- needs: cmake ninja -->`: up to the next heading, commands are run only where these programs are.
//! - `<!-- only if: COMMAND -->`: likewise, where this command succeeds.
//! - `<!-- not run: WHY -->`: the next block is not run.
//!
//! A block of `sh`, `bash` or `shell` would be commands that nobody runs: only `not run` allows it.
//!
//! The page has a temporary directory of its own, with `selvedge`, `selvedge-cc`, `selvedge-c++` and `cargo-selvedge` (where
//! it is built) in front of `PATH`.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Lab;
use crate::directives::Ending;
use crate::run::{Outcome, Run};

/// How long one command of a page may take.
const LIMIT: Duration = Duration::from_secs(120);

/// What is to be done for a page, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes a file.
    File {
        /// Its name.
        name: String,
        /// What is in it.
        text: String,
    },
    /// Copies a file or directory of the repository.
    Copy(String),
    /// Runs a command.
    Run(Command),
}

/// A command of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its line in the page, from 1.
    pub line: usize,
    /// The command, for `bash`.
    pub words: String,
    /// What it must print.
    pub output: Vec<String>,
    /// How it must end.
    pub code: i32,
    /// Programs without which it is passed over.
    pub needs: Vec<String>,
    /// A command without whose success it is passed over.
    pub only_if: Option<String>,
}

/// The steps of a page, or what is wrong with it.
pub fn steps(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut lines = (1_usize..).zip(text.lines());
    let (mut file, mut not_run) = (None, false);
    let (mut needs, mut only_if) = (Vec::new(), None);
    while let Some((number, line)) = lines.next() {
        let trimmed = line.trim();
        if line.starts_with('#') {
            needs.clear();
            only_if = None;
        }
        if let Some(comment) = trimmed.strip_prefix("<!--").and_then(|rest| rest.strip_suffix("-->")) {
            match comment.trim().split_once(':').map(|(key, value)| (key, value.trim())) {
                Some(("file", name)) => file = Some(name.to_owned()),
                Some(("copy", path)) => steps.push(Step::Copy(path.to_owned())),
                Some(("needs", programs)) => needs = programs.split_whitespace().map(str::to_owned).collect(),
                Some(("only if", command)) => only_if = Some(command.to_owned()),
                Some(("not run", why)) if !why.is_empty() => not_run = true,
                Some(("not run", _)) => return Err(format!("line {number}: `not run` must say why")),
                _ => {}
            }
            continue;
        }
        let Some(info) = trimmed.strip_prefix("```") else {
            if let Some((_, name)) = line.split_once("ave this as `") {
                file = name.split('`').next().map(str::to_owned);
            }
            continue;
        };
        let fence = &trimmed[..trimmed.len() - trimmed.trim_start_matches('`').len()];
        let language = info.trim_start_matches('`').split([' ', ',']).next().unwrap_or_default();
        let indent = line.len() - line.trim_start().len();
        let mut block = Vec::new();
        loop {
            let Some((at, line)) = lines.next() else { return Err(format!("line {number}: a block without an end")) };
            if line.trim() == fence {
                break;
            }
            block.push((at, line.get(indent..).unwrap_or(line.trim_start())));
        }
        if std::mem::take(&mut not_run) {
            continue;
        }
        if let Some(name) = file.take() {
            let text = block.iter().map(|(_, line)| format!("{line}\n")).collect();
            steps.push(Step::File { name, text });
            continue;
        }
        match language {
            "console" => {
                let limited =
                    |command| Step::Run(Command { needs: needs.clone(), only_if: only_if.clone(), ..command });
                steps.extend(commands(&block)?.into_iter().map(limited));
            }
            "sh" | "bash" | "shell" => {
                return Err(format!("line {number}: commands that nobody runs: make it a `console` block"));
            }
            _ => {}
        }
    }
    Ok(steps)
}

/// The commands of one block.
fn commands(block: &[(usize, &str)]) -> Result<Vec<Command>, String> {
    let mut all: Vec<Command> = Vec::new();
    let mut open = false;
    for (number, line) in block {
        if open {
            let Some(command) = all.last_mut() else { break };
            command.words.push('\n');
            command.words.push_str(line.strip_prefix("> ").unwrap_or(line));
            open = line.ends_with('\\');
        } else if let Some(words) = line.strip_prefix("$ ") {
            let words = words.to_owned();
            all.push(Command { line: *number, words, output: Vec::new(), code: 0, needs: Vec::new(), only_if: None });
            open = line.ends_with('\\');
        } else {
            let Some(command) = all.last_mut() else {
                return Err(format!("line {number}: output before any command"));
            };
            let code = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            match code.and_then(|code| code.parse().ok()) {
                Some(code) => command.code = code,
                None if line.trim().is_empty() || *line == "…" => {}
                None => command.output.push((*line).to_owned()),
            }
        }
    }
    Ok(all)
}

/// Whether a line of output has what the page shows.
fn is_like(shown: &str, line: &str) -> bool {
    let mut rest = line;
    shown.split('…').map(str::trim).all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

/// The first line that the page shows and neither of the two outputs has at its place.
fn missing<'a>(shown: &'a [String], outcome: &Outcome) -> Option<&'a str> {
    let mut outputs = [outcome.stdout.lines(), outcome.stderr.lines()];
    'shown: for line in shown {
        for output in &mut outputs {
            let mut ahead = output.clone();
            if ahead.any(|there| is_like(line, there)) {
                *output = ahead;
                continue 'shown;
            }
        }
        return Some(line);
    }
    None
}

/// The repository.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// Runs a page, named from the root of the repository; what is not as the page says is a failed test. Answers how many
/// commands were run.
pub fn run_page(name: &str) -> usize {
    let text = fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let steps = steps(&text).unwrap_or_else(|problem| panic!("{name}: {problem}"));
    let lab = Lab::new();
    let session = Session::new(&lab);
    let mut run = 0;
    for step in &steps {
        match step {
            Step::File { name, text } => {
                let path = session.work.join(name);
                fs::create_dir_all(path.parent().unwrap_or(&session.work)).expect("made");
                fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            }
            Step::Copy(path) => {
                let from = root().join(path);
                let to = session.work.join(from.file_name().unwrap_or_default());
                copy(&from, &to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
            }
            Step::Run(command) => {
                if let Some(missing) = command.needs.iter().find(|need| !session.has(need)) {
                    println!("{name}:{}: passed over, there is no {missing} here: {}", command.line, command.words);
                    continue;
                }
                if let Some(condition) = &command.only_if
                    && session.run(condition, 0).ending != Ending::Exit(0)
                {
                    println!("{name}:{}: passed over, as not `{condition}`: {}", command.line, command.words);
                    continue;
                }
                run += 1;
                let outcome = session.run(&command.words, run);
                let told =
                    || format!("{name}:{}: {}\n{}{}", command.line, command.words, outcome.stdout, outcome.stderr);
                assert_eq!(outcome.ending, Ending::Exit(command.code), "{}", told());
                if let Some(line) = missing(&command.output, &outcome) {
                    panic!("{}\nthe page shows, and the command does not: {line}", told());
                }
            }
        }
    }
    run
}

/// Copies a file, or a directory with all that is in it.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return fs::copy(from, to).map(drop);
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

/// A shell that remembers where it is and what was exported.
struct Session<'a> {
    lab: &'a Lab,
    work: PathBuf,
    path: String,
}

impl<'a> Session<'a> {
    fn new(lab: &'a Lab) -> Session<'a> {
        let (work, bin) = (lab.path("work"), lab.path("bin"));
        fs::create_dir(&work).expect("made");
        fs::create_dir(&bin).expect("made");
        for name in ["selvedge", "selvedge-cc", "selvedge-c++"] {
            symlink(lab.selvedge(), bin.join(name)).expect("linked");
        }
        let cargo = lab.selvedge().with_file_name("cargo-selvedge");
        if cargo.exists() {
            symlink(cargo, bin.join("cargo-selvedge")).expect("linked");
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        Session { lab, work, path }
    }

    fn has(&self, program: &str) -> bool {
        self.path.split(':').any(|dir| Path::new(dir).join(program).is_file())
    }

    fn run(&self, words: &str, number: usize) -> Outcome {
        // What a command changed in its shell is there for the next one.
        let script = "words=$WORDS; [ ! -e \"$STATE\" ] || . \"$STATE\"; eval \"$words\"\n\
                      code=$?; { export -p; printf 'cd %q\\n' \"$PWD\"; } >\"$STATE\"; exit $code";
        let mut env: Vec<(String, String)> = [
            ("PATH", self.path.as_str()),
            ("WORDS", words),
            ("STATE", &self.lab.path("state").to_string_lossy()),
            ("NO_COLOR", "1"),
            ("GITHUB_ACTIONS", "false"),
            ("TSAN_OPTIONS", ""),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
        env.push(("WORK".to_owned(), self.work.to_string_lossy().into_owned()));
        let script = format!("cd \"$WORK\"; {script}");
        let run = Run {
            command: vec!["bash".into(), "-c".into(), script.into()],
            env,
            dir: self.lab.path(format!("command-{number}")),
            timeout: LIMIT,
        };
        run.execute().unwrap_or_else(|error| panic!("{error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: usize, words: &str, output: &[&str], code: i32) -> Step {
        let output = output.iter().map(|line| (*line).to_owned()).collect();
        Step::Run(Command { line, words: words.to_owned(), output, code, needs: Vec::new(), only_if: None })
    }

    #[test]
    fn a_page_becomes_steps() {
        let page = "# A page\nSave this as `a/b.c`:\n\n```c\nint x;\n```\ntext\n```console\n$ one \\\n    two\nout …\n\n…\n\
                    [66]\n$ three\n```\n<!-- copy: corpus/x.c -->\n<!-- not run: needs a server -->\n\
                    ```sh\nfour\n```\n```c\nint y;\n```\n";
        let file = Step::File { name: "a/b.c".to_owned(), text: "int x;\n".to_owned() };
        let expected = [
            file,
            command(9, "one \\\n    two", &["out …"], 66),
            command(15, "three", &[], 0),
            Step::Copy("corpus/x.c".to_owned()),
        ];
        assert_eq!(steps(page).expect("a page"), expected);
    }

    #[test]
    fn needs_end_with_their_section() {
        let page = "<!-- needs: cmake ninja -->\n```console\n$ a\n```\n## Next\n```console\n$ b\n```\n";
        let needs: Vec<usize> = steps(page)
            .expect("a page")
            .iter()
            .map(|step| match step {
                Step::Run(command) => command.needs.len(),
                _ => 9,
            })
            .collect();
        assert_eq!(needs, [2, 0]);
    }

    #[test]
    fn what_nobody_would_run_is_refused() {
        for page in ["```sh\nx\n```\n", "```console\nx\n```\n", "```c\nx\n", "<!-- not run: -->\n"] {
            assert!(steps(page).is_err(), "{page}");
        }
    }

    #[test]
    fn lines_are_compared_with_gaps() {
        let like =
            [("a … c", "a b c"), ("…", "x"), ("  abc", "xabcx"), ("runs … fail", "20 runs, 3 fail"), ("a…b…c", "abbc")];
        let unlike = [("a … c", "a b d"), ("abcd", "abc"), ("fail … runs", "20 runs, 3 fail"), ("aa…aa", "aaa")];
        for (shown, line) in like {
            assert!(is_like(shown, line), "{shown} {line}");
        }
        for (shown, line) in unlike {
            assert!(!is_like(shown, line), "{shown} {line}");
        }
    }

    #[test]
    fn output_is_in_order_on_each_stream() {
        let outcome = Outcome { ending: Ending::Exit(0), stdout: "a\nb\nc\n".to_owned(), stderr: "x\ny\n".to_owned() };
        let missed = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            missing(&lines, &outcome).map(str::to_owned)
        };
        assert_eq!(missed(&["a", "x", "c", "y"]), None);
        assert_eq!(missed(&["b", "a"]).as_deref(), Some("a"));
        assert_eq!(missed(&["z"]).as_deref(), Some("z"));
    }
}
