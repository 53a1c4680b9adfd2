//! A guarded program is still the program: whatever the table says, it ends as it does unguarded, only later.
//!
//! Unguarded means the same build without a plan; `hostile_disarmed` holds that against the native one.

use std::path::Path;

use selvedge_drive::guard::table::RowSpec;
use selvedge_itest::{
    Built, Deployed, Folder, Gaps, Guarding, Mode, Outcome, Program, Run, Toolchain, Verdict, compare, find_selvedge,
    run_all,
};

/// A small generator; every run of the tests draws the same.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Half of all pairs belong.
fn random_rows(guarding: &Guarding, seed: u64) -> Guarding {
    let mut dice = Dice(seed);
    let mut random = guarding.clone();
    let sites = random.table.rows.len() as u64;
    for row in &mut random.table.rows {
        let count = dice.below(6) * dice.below(sites + 1) / 4;
        let members = (0..count).map(|_| (dice.below(sites + 1) as u32, dice.below(2) == 1)).collect();
        *row = RowSpec { members };
    }
    random
}

fn run(program: &Program, built: &Built, dir: &Path, plan: Option<&Deployed>) -> Result<Outcome, String> {
    let mut env = program.directives.env.clone();
    env.extend(plan.map(Deployed::env));
    // Ten milliseconds for each of many stalls, on a machine that does other things too.
    let timeout = program.directives.timeout * if plan.is_some() { 3 } else { 1 };
    let run = Run { command: built.command(), env, dir: dir.to_owned(), timeout };
    run.execute().map_err(|error| error.to_string())
}

fn judge(toolchain: &Toolchain, program: &Program) -> Result<(), String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let dir = |name: &str| scratch.path().join(name);
    let built = toolchain.build(program, &dir("built")).map_err(|error| error.to_string())?;
    let expected = run(program, &built, &dir("unguarded"), None)?;
    let empty = Guarding::everything(&built);
    let try_it = |name: &str, guarding: &Guarding| -> Result<Deployed, String> {
        let deployed = guarding.deploy(&dir(&format!("{name}-plan"))).map_err(|error| error.to_string())?;
        let seen = run(program, &built, &dir(name), Some(&deployed))?;
        let said = seen.stderr.lines().last().unwrap_or("").to_owned();
        compare(Mode::Disarmed, &expected, &seen).map_err(|mismatch| format!("{name}: {mismatch}; {said}"))?;
        if deployed.read().is_empty() {
            return Err(format!("{name}: no log; {said}"));
        }
        Ok(deployed)
    };
    let learnt = try_it("learning", &empty.learning())?;
    try_it("trained", &empty.trained(&learnt.read()))?;
    try_it("empty", &empty)?;
    try_it("random", &random_rows(&empty, 7))?;
    Ok(())
}

#[test]
fn programs_end_as_unguarded_whatever_the_table_says() {
    let selvedge = find_selvedge().unwrap_or_else(|error| panic!("{error}"));
    let toolchain = Toolchain::native().wrapped_by(&selvedge);
    let controlled = ["barriers", "cond_queue", "semaphores", "rwlock_kinds", "futexes", "spins"];
    let mut programs = Vec::new();
    for folder in [Folder::Hostile, Folder::Clean, Folder::Controlled] {
        let all = Program::all_in(folder).expect("programs are readable").into_iter();
        programs.extend(all.filter(|p| folder != Folder::Controlled || controlled.contains(&p.stem().as_str())));
    }
    let report = run_all("guarded", &programs, |program| match judge(&toolchain, program) {
        Ok(()) => Verdict::Pass,
        Err(why) if why.starts_with("needs ") => Verdict::Skip(why),
        Err(why) => Verdict::Fail(why),
    });
    let gaps = Gaps::default();
    let text = report.render(&gaps);
    assert!(report.problems(&gaps).is_empty(), "{text}");
    println!("{text}");
}
