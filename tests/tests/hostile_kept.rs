//! A program whose sections or pairs are kept is still the program: it ends as it does without, only later.
//!
//! Without means the same build without a plan; `hostile_disarmed` holds that against the native one.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use selvedge_itest::{
    Built, Folder, Gaps, Mode, Outcome, Program, Run, Toolchain, Verdict, compare, find_selvedge, run_all,
};

/// A program, its build, and where it is tried.
struct Trial<'a> {
    selvedge: &'a Path,
    program: &'a Program,
    built: Built,
    scratch: tempfile::TempDir,
}

impl Trial<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn run(&self, name: &str, plan: Option<&Path>) -> Result<Outcome, String> {
        let mut env = self.program.directives.env.clone();
        env.extend(plan.map(|plan| ("SELVEDGE_PLAN".to_owned(), plan.display().to_string())));
        let timeout = self.program.directives.timeout * if plan.is_some() { 3 } else { 1 };
        let run = Run { command: self.built.command(), env, dir: self.path(name), timeout };
        run.execute().map_err(|error| error.to_string())
    }

    /// Runs the tool; `Err` has what it said.
    fn tool<W: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = W>) -> Result<(), String> {
        let args: Vec<_> = args.into_iter().collect();
        let done = Command::new(self.selvedge)
            .args(&args)
            .envs(self.program.directives.env.iter().cloned())
            .current_dir(self.scratch.path())
            .output()
            .map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let words = || args.iter().map(|word| word.as_ref().to_string_lossy()).collect::<Vec<_>>().join(" ");
        if done.status.success() { Ok(()) } else { Err(format!("{}: {said}", words())) }
    }

    /// The same on the program's command.
    fn tool_on(&self, args: &[&str]) -> Result<(), String> {
        let words = args.iter().map(OsString::from);
        self.tool(words.chain(self.built.command()))
    }

    /// The program must end under this plan as it did without.
    fn same(&self, name: &str, plan: &str, expected: &Outcome) -> Result<(), String> {
        let seen = self.run(name, Some(&self.path(plan)))?;
        let said = seen.stderr.lines().last().unwrap_or("").to_owned();
        compare(Mode::Disarmed, expected, &seen).map_err(|mismatch| format!("{name}: {mismatch}; {said}"))
    }
}

/// Every hostile and every clean program, each tried by `judge`.
fn all(title: &str, judge: fn(&Trial<'_>, &Outcome) -> Result<(), String>) {
    let selvedge = find_selvedge().unwrap_or_else(|error| panic!("{error}"));
    let toolchain = Toolchain::native().wrapped_by(&selvedge);
    let mut programs = Vec::new();
    for folder in [Folder::Hostile, Folder::Clean] {
        programs.extend(Program::all_in(folder).expect("programs are readable"));
    }
    let try_it = |program: &Program| {
        let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
        let built = toolchain.build(program, &scratch.path().join("built")).map_err(|error| error.to_string())?;
        let trial = Trial { selvedge: &selvedge, program, built, scratch };
        let expected = trial.run("without", None)?;
        judge(&trial, &expected)
    };
    let report = run_all(title, &programs, |program| match try_it(program) {
        Ok(()) => Verdict::Pass,
        Err(why) if why.starts_with("needs ") => Verdict::Skip(why),
        Err(why) => Verdict::Fail(why),
    });
    let gaps = Gaps::default();
    let text = report.render(&gaps);
    assert!(report.problems(&gaps).is_empty(), "{text}");
    println!("{text}");
}

/// Sections of the program are kept, by every kind of healing.
fn healed(trial: &Trial<'_>, expected: &Outcome) -> Result<(), String> {
    let program = trial.built.executable.as_os_str();
    trial.tool([OsStr::new("sections"), program, OsStr::new("-o"), OsStr::new("sections")])?;
    for kind in ["lock", "yield", "sleep", "priority"] {
        match trial.tool_on(&["heal", "sections", "--kind", kind, "--plan", kind, "--"]) {
            Err(said) if said.contains("nothing to heal") => return Ok(()),
            other => other?,
        }
        trial.same(&format!("by-{kind}"), kind, expected)?;
    }
    Ok(())
}

/// Pairs of a recorded run are kept.
fn enforced(trial: &Trial<'_>, expected: &Outcome) -> Result<(), String> {
    // Some end by a signal, or not well, and mean it.
    trial.tool_on(&["record", "-q", "--oracle", "true", "--"])?;
    trial.tool(["profile", "1", "--out", "profile"])?;
    match trial.tool_on(&["enforce", "--all", "profile", "--plan", "plan", "--"]) {
        Err(said) if said.contains("has no pairs") => return Ok(()),
        other => other?,
    }
    trial.same("enforced", "plan", expected)
}

#[test]
fn programs_end_as_without_whatever_is_kept() {
    // Each program is built once for both.
    all("kept", |trial, expected| {
        healed(trial, expected).map_err(|why| format!("healed: {why}"))?;
        enforced(trial, expected).map_err(|why| format!("enforced: {why}"))
    });
}
