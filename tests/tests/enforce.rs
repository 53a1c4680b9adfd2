//! `profile` and `enforce`, as a user meets them: what passing runs show is kept in those that would fail.

use selvedge_itest::Lab;

/// Two threads append to a buffer; what one writes, the other writes over.
const LOG: &str = include_str!("../../corpus/apache-log-buffer/buggy.c");

#[test]
fn pairs_of_passing_runs_are_kept() {
    let lab = Lab::new();
    std::fs::write(lab.path("prog.c"), LOG).expect("written");
    let sh = |code: i32, script: &str| lab.sh(code, script);
    sh(0, "\"$S\" cc -O1 -g -pthread prog.c -o prog");
    let learnt = sh(0, "\"$S\" profile -n 40 -- ./prog");
    assert!(learnt.stdout.contains("only those that passed count"), "{}", learnt.stdout);
    assert!(learnt.stdout.contains("written to prog.profile"), "{}", learnt.stdout);

    // Without the locks schedules fail, with them none does, and nobody had to go on without his lock.
    let open = sh(66, "\"$S\" explore --schedules 200 -- ./prog");
    assert!(!open.stderr.contains("200 pass, 0 fail"), "{}", open.stderr);
    let kept = sh(0, "\"$S\" explore --schedules 200 --enforce prog.profile -- ./prog");
    assert!(kept.stderr.contains("200 pass, 0 fail, 0 hang"), "{}", kept.stderr);
    let verified = sh(0, "\"$S\" enforce prog.profile --verify .selvedge/clips/*.clip");
    assert!(verified.stdout.contains("passes: ") && !verified.stdout.contains("still fails"), "{}", verified.stdout);

    let run = sh(0, "\"$S\" enforce prog.profile -- ./prog");
    assert!(run.stderr.contains(" enforced by 1 lock") && run.stderr.contains("locks taken"), "{}", run.stderr);
    assert!(run.stderr.contains("selvedge: 0 waits given up"), "{}", run.stderr);
    sh(0, "\"$S\" enforce prog.profile --plan p -- ./prog && SELVEDGE_PLAN=p ./prog");

    let explained = sh(0, "\"$S\" enforce prog.profile --explain --graph order -- ./prog");
    assert!(explained.stdout.contains("prog.c:"), "{}", explained.stdout);
    let drawn = std::fs::read_to_string(lab.path("order-after.dot")).expect("a graph");
    assert!(drawn.starts_with("digraph"), "{drawn}");

    // A pair that is to be left alone is.
    sh(0, "sed -i 's/^pair exclusive/pair none/; s/^pair read/pair none/' prog.profile");
    let nothing = sh(2, "\"$S\" enforce prog.profile -- ./prog");
    assert!(nothing.stderr.contains("has no pairs"), "{}", nothing.stderr);
}

/// Two threads add to a sum; the argument says for how many microseconds each looks at what it has read.
const SUM: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static long sum;
static void *add(void *arg) {
    int think = (int)(long)arg;
    for (int i = 0; i < 10; i++) {
        long now = sum;
        if (think) usleep(think);
        sum = now + 1;
        usleep(100);
    }
    return arg;
}
int main(int argc, char **argv) {
    long think = argc > 1 ? atoi(argv[1]) : 0;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, add, (void *)think);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

/// Two threads count, as often as the argument says.
const COUNT: &str = r#"
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
static long counted;
static void *count(void *arg) {
    for (long i = 0; i < (long)arg; i++) {
        counted++;
        if (i < 10) usleep(100);
    }
    return arg;
}
int main(int argc, char **argv) {
    long often = argc > 1 ? atol(argv[1]) : 10;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, count, (void *)often);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

#[test]
fn a_lock_that_is_taken_far_more_often_than_it_was_is_given_up_and_named() {
    let lab = Lab::new();
    std::fs::write(lab.path("prog.c"), COUNT).expect("written");
    let sh = |code: i32, script: &str| lab.sh(code, script);
    sh(0, "\"$S\" cc -O1 -g -pthread prog.c -o prog");
    sh(0, "for i in 1 2 3; do \"$S\" record -- ./prog 10; done");
    sh(0, "\"$S\" profile --out p .selvedge/runs/*/");
    let few = sh(0, "\"$S\" enforce p -- ./prog 20");
    assert!(few.stderr.contains(" enforced by 1 lock") && !few.stderr.contains("then given up"), "{}", few.stderr);
    let run = sh(0, "\"$S\" enforce p -- ./prog 20000000");
    assert!(run.stderr.contains("1 locks given up because waiting"), "{}", run.stderr);
    assert!(run.stderr.contains("lock of counted") && run.stderr.contains("given up: it "), "{}", run.stderr);
}

#[test]
fn a_lock_that_slows_a_program_down_is_given_up_and_named() {
    let lab = Lab::new();
    std::fs::write(lab.path("prog.c"), SUM).expect("written");
    let sh = |code: i32, script: &str| lab.sh(code, script);
    sh(0, "\"$S\" cc -O1 -g -pthread prog.c -o prog");
    sh(0, "for i in 1 2 3; do \"$S\" record -- ./prog 0; done");
    sh(0, "\"$S\" profile --out p .selvedge/runs/*/");
    // Thinking for 20 ms each time, under the lock: the other one waits for most of the run.
    let run = sh(0, "\"$S\" enforce p -- ./prog 20000");
    assert!(run.stderr.contains("1 locks given up because waiting"), "{}", run.stderr);
    assert!(run.stderr.contains("for the lock of sum, then given up: it slows the program down"), "{}", run.stderr);
    // Who wants it all the same has it, as long as no single wait is too long.
    let all = sh(0, "\"$S\" enforce p --all -- ./prog 20000");
    assert!(all.stderr.contains("selvedge: 0 waits given up"), "{}", all.stderr);
    assert!(all.stderr.contains("for the lock of sum\n"), "{}", all.stderr);
}
