//! `heal`, as a user meets it: schedules that fail do not fail any more, and a plan is the same healing.

use selvedge_itest::Lab;

/// Two tellers and a lost deposit.
const BANK: &str = include_str!("../../corpus/bank-account/buggy.c");

#[test]
fn sections_of_findings_and_files_are_kept() {
    let lab = Lab::new();
    std::fs::write(lab.path("prog.c"), BANK).expect("written");
    let sh = |code: i32, script: &str| lab.sh(code, script);
    sh(0, "\"$S\" cc -O1 -g -pthread prog.c -o prog && \"$S\" sections ./prog -o s");
    sh(66, "\"$S\" explore --schedules 200 --json f.json -- ./prog");
    for file in ["f.json", "s"] {
        let healed = sh(0, &format!("\"$S\" explore --schedules 200 --heal {file} -- ./prog"));
        assert!(healed.stderr.contains("200 pass, 0 fail, 0 hang"), "{}", healed.stderr);
    }
    for kind in ["lock", "yield", "sleep", "priority"] {
        let healed = sh(0, &format!("\"$S\" heal --kind {kind} s -- ./prog"));
        assert!(healed.stderr.contains("sections were entered"), "{}", healed.stderr);
    }
    sh(0, "\"$S\" heal s --plan p -- ./prog && SELVEDGE_PLAN=p ./prog");
    let refused = sh(2, "echo odd > odd; \"$S\" heal odd -- ./prog");
    assert!(refused.stderr.contains("not a file of sections"), "{}", refused.stderr);
}
