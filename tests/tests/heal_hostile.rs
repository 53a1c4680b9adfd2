//! A healed program is still the program: whatever sections are kept and however, it ends as it does without, only later.
//!
//! Without means the same build without a plan; `hostile_disarmed` holds that against the native one.

use std::path::Path;
use std::process::Command;

use selvedge_itest::{
    Built, Folder, Gaps, Mode, Outcome, Program, Run, Toolchain, Verdict, compare, find_selvedge, run_all,
};

fn run(program: &Program, built: &Built, dir: &Path, plan: Option<&Path>) -> Result<Outcome, String> {
    let mut env = program.directives.env.clone();
    env.extend(plan.map(|plan| ("SELVEDGE_PLAN".to_owned(), plan.display().to_string())));
    let timeout = program.directives.timeout * if plan.is_some() { 3 } else { 1 };
    let run = Run { command: built.command(), env, dir: dir.to_owned(), timeout };
    run.execute().map_err(|error| error.to_string())
}

fn judge(selvedge: &Path, toolchain: &Toolchain, program: &Program) -> Result<(), String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let dir = |name: &str| scratch.path().join(name);
    let built = toolchain.build(program, &dir("built")).map_err(|error| error.to_string())?;
    let expected = run(program, &built, &dir("without"), None)?;
    let tool = |args: &[&Path]| -> Result<(bool, String), String> {
        let done = Command::new(selvedge).args(args).current_dir(scratch.path()).output();
        let done = done.map_err(|error| error.to_string())?;
        Ok((done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned()))
    };
    let (sections, program_file) = (dir("sections"), &built.executable);
    let (is_listed, said) = tool(&["sections".as_ref(), program_file, "-o".as_ref(), &sections])?;
    if !is_listed {
        return Err(format!("no sections: {said}"));
    }
    for kind in ["lock", "yield", "sleep", "priority"] {
        let plan = dir(&format!("{kind}.plan"));
        let args: [&Path; 8] = [
            "heal".as_ref(),
            &sections,
            "--kind".as_ref(),
            kind.as_ref(),
            "--plan".as_ref(),
            &plan,
            "--".as_ref(),
            program_file,
        ];
        let (is_written, said) = tool(&args)?;
        if !is_written && said.contains("nothing to heal") {
            return Ok(());
        }
        if !is_written {
            return Err(format!("{kind}: no plan: {said}"));
        }
        let seen = run(program, &built, &dir(kind), Some(&plan))?;
        let said = seen.stderr.lines().last().unwrap_or("").to_owned();
        compare(Mode::Disarmed, &expected, &seen).map_err(|mismatch| format!("{kind}: {mismatch}; {said}"))?;
    }
    Ok(())
}

#[test]
fn programs_end_as_without_however_sections_are_kept() {
    let selvedge = find_selvedge().unwrap_or_else(|error| panic!("{error}"));
    let toolchain = Toolchain::native().wrapped_by(&selvedge);
    let mut programs = Vec::new();
    for folder in [Folder::Hostile, Folder::Clean] {
        programs.extend(Program::all_in(folder).expect("programs are readable"));
    }
    let report = run_all("healed", &programs, |program| match judge(&selvedge, &toolchain, program) {
        Ok(()) => Verdict::Pass,
        Err(why) if why.starts_with("needs ") => Verdict::Skip(why),
        Err(why) => Verdict::Fail(why),
    });
    let gaps = Gaps::default();
    let text = report.render(&gaps);
    assert!(report.problems(&gaps).is_empty(), "{text}");
    println!("{text}");
}
