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

/// What is said of a section names its lines, not its key.
#[test]
fn sections_without_a_lock_are_named_by_their_lines() {
    let lab = Lab::new();
    let source = r#"#include <pthread.h>
#include <stdio.h>
static int money = 100;
static void *shop(void *arg) {
    int now = money;
    printf("there are %d\n", now);
    money = now - 80;
    return arg;
}
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, shop, 0);
    pthread_create(&b, 0, shop, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
"#;
    std::fs::write(lab.path("prog.c"), source).expect("written");
    lab.sh(0, "\"$S\" cc -O1 -g -pthread prog.c -o prog && \"$S\" sections ./prog -o s");
    let healed = lab.sh(0, "\"$S\" heal s -- ./prog");
    let lines: Vec<&str> = healed.stderr.lines().filter(|line| line.contains("no lock for")).collect();
    assert_eq!(
        lines,
        [
            "selvedge: no lock for `money`, prog.c:5 to prog.c:7 in shop: it calls printf; others are kept out by sleeping"
        ]
    );
    // Without lines the function is left.
    lab.sh(0, "cp prog bare && strip --strip-debug bare && \"$S\" sections ./bare -o t");
    let healed = lab.sh(0, "\"$S\" heal t -- ./bare");
    let line = "no lock for `money` in shop: it calls printf";
    assert!(healed.stderr.contains(line) && !healed.stderr.contains("shop@"), "{}", healed.stderr);
}
