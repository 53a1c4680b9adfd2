//! `selvedge detect`, as a user meets it: races are seen in the act, correct programs are silent, and whatever happens to a
//! thread that waits with an access announced leaves no false report behind.

use std::fs;
use std::path::PathBuf;

use selvedge_itest::{Ending, Lab, Outcome};
use serde_json::Value;

/// As much noise as there can be: whoever accesses anything announces it and waits.
const LOUD: &[&str] = &["--strength", "1000", "--duration", "300us", "--overhead", "none"];

struct Subject {
    lab: Lab,
    program: PathBuf,
}

impl Subject {
    fn new(source: &str) -> Subject {
        let lab = Lab::new();
        let (file, program) = (lab.path("guest.c"), lab.path("guest"));
        fs::write(&file, source).expect("written");
        let words = ["cc", "-O1", "-g", "-pthread"].map(PathBuf::from);
        let built = lab.tool(words.into_iter().chain([file, "-o".into(), program.clone()]));
        assert_eq!(built.ending, Ending::Exit(0), "{}", built.stderr);
        Subject { lab, program }
    }

    fn detect(&self, options: &[&str]) -> Outcome {
        let (out, json) = (self.lab.path("store"), self.lab.path("found.json"));
        let mut words: Vec<PathBuf> = vec!["detect".into(), "--out".into(), out, "--json".into(), json];
        words.extend(options.iter().map(PathBuf::from));
        words.extend(["--".into(), self.program.clone()]);
        self.lab.tool(words)
    }

    /// The findings of the last call.
    fn found(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.lab.path("found.json")).expect("there is a report");
        let report: Value = serde_json::from_str(&text).expect("it is JSON");
        report["findings"].as_array().expect("findings").clone()
    }

    #[track_caller]
    fn is_silent(&self, options: &[&str]) {
        let outcome = self.detect(options);
        assert_eq!(outcome.ending, Ending::Exit(0), "{}\n{}", outcome.stdout, outcome.stderr);
        assert!(outcome.stdout.is_empty(), "{}", outcome.stdout);
        let passed = outcome.stderr.contains(" 0 fail, 0 hang");
        assert!(passed, "the program does what it does without noise: {}", outcome.stderr);
    }

    /// Waits were made, or silence means nothing.
    #[track_caller]
    fn has_waited(&self, options: &[&str]) {
        let words = [options, &["--counters"]].concat();
        let outcome = self.detect(&words);
        let line = outcome.stderr.lines().find(|line| line.ends_with("waits with an announcement standing"));
        let waits = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        assert!(waits.is_some_and(|waits| waits > 0), "{}", outcome.stderr);
    }
}

const BANK: &str = r#"
#include <pthread.h>
static long balance = 100;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) static void deposit(long amount) { long now = balance; balance = now + amount; }
static void *one(void *arg) { deposit(10); return 0; }
static void *two(void *arg) { pthread_mutex_lock(&lock); deposit(20); pthread_mutex_unlock(&lock); return 0; }
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, one, 0);
    pthread_create(&b, 0, two, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
"#;

#[test]
fn a_race_is_told_with_both_stacks_locks_and_values() {
    let bank = Subject::new(BANK);
    let outcome = bank.detect(&["--runs", "20"]);
    assert_eq!(outcome.ending, Ending::Exit(66), "{}", outcome.stderr);
    let found = bank.found();
    let race = found.first().expect("a finding");
    assert_eq!((race["kind"].as_str(), race["status"].as_str()), (Some("data-race"), Some("confirmed")));
    for access in race["accesses"].as_array().expect("two") {
        assert_eq!((access["function"].as_str(), access["variable"].as_str()), (Some("deposit"), Some("balance")));
    }
    let text = &outcome.stdout;
    for words in [
        "data race in deposit / deposit",
        "#1 one ",
        "#1 two ",
        "holding `lock` (taken at guest.c:7)",
        "holding no lock",
        "the noise of seed",
        "selvedge detect --again",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // What was seen is where the next command waits.
    let again = bank.detect(&["--again", "--heuristic", "location", "--strength", "1000", "--runs", "10"]);
    assert_eq!(again.ending, Ending::Exit(66), "{}", again.stderr);
    assert!(again.stderr.contains("of them suspects"), "{}", again.stderr);
}

/// One missing lock, and three pairs of accesses that meet.
const HITS: &str = r#"
#include <pthread.h>
static long hits;
__attribute__((noinline)) static void hit(void) { hits = hits + 1; }
__attribute__((noinline)) static long look(void) { return hits; }
static void *serve(void *arg) {
    for (int i = 0; i < 50; i++) { hit(); look(); }
    return arg;
}
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, serve, 0);
    pthread_create(&b, 0, serve, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
"#;

#[test]
fn findings_of_one_root_cause_are_told_as_one_bug() {
    let server = Subject::new(HITS);
    let noise = ["--strength", "500", "--duration", "300us", "--overhead", "none", "--no-clip", "--runs", "60"];
    let outcome = server.detect(&noise);
    assert_eq!(outcome.ending, Ending::Exit(66), "{}", outcome.stderr);
    // Reads meet writes, and writes meet writes: findings for programs, and one bug for people.
    let found = server.found();
    assert!(found.len() > 1, "{found:?}");
    let text = &outcome.stdout;
    assert_eq!(text.matches("WARNING: Selvedge:").count(), 1, "{text}");
    assert!(text.contains(&format!("And {} more of the same root cause:", found.len() - 1)), "{text}");
    let lines = text.lines().filter(|line| line.trim_start().starts_with("data race on `hits`: "));
    assert_eq!(lines.filter(|line| line.contains(" in hit (guest.c:4)")).count(), found.len() - 1, "{text}");
    let told = format!("{} findings of 1 bug", found.len());
    assert!(outcome.stderr.contains(&told), "{}", outcome.stderr);
    // Suppressed findings are no part of what is told.
    fs::write(server.lab.path("known"), "race:hit\n").expect("written");
    let known = server.lab.path("known").display().to_string();
    let outcome = server.detect(&[&noise[..], &["--suppressions", &known]].concat());
    assert_eq!(outcome.ending, Ending::Exit(0), "{}", outcome.stderr);
    assert!(outcome.stdout.is_empty(), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("nothing to report"), "{}", outcome.stderr);
}

#[test]
fn every_kind_of_noise_and_heuristic_works() {
    let bank = Subject::new(BANK);
    for kind in ["sleep", "spin", "yield", "priority"] {
        let outcome = bank.detect(&["--runs", "30", "--noise", kind, "--strength", "500", "--duration", "2ms"]);
        assert_eq!(outcome.ending, Ending::Exit(66), "{kind}: {}", outcome.stderr);
    }
    let outcome = bank.detect(&["--runs", "20", "--again", "--heuristic", "variable", "--strength", "1000"]);
    assert_eq!(outcome.ending, Ending::Exit(66), "{}", outcome.stderr);
}

#[test]
fn sizes_and_copies_meet_and_neighbours_do_not() {
    // A copy of the whole against a write of one byte in its second line.
    let overlap = Subject::new(
        r#"
#include <pthread.h>
#include <string.h>
char block[256] __attribute__((aligned(64))), copy[256];
size_t len = 200;
__attribute__((noinline)) static void put(int i) { block[70] = (char)i; }
static void *copies(void *arg) { for (int i = 0; i < 30; i++) memcpy(copy, block, len); return 0; }
static void *writes(void *arg) { for (int i = 0; i < 30; i++) put(i); return 0; }
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, copies, 0);
    pthread_create(&b, 0, writes, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
"#,
    );
    let outcome = overlap.detect(&[LOUD, &["--runs", "5"]].concat());
    assert_eq!(outcome.ending, Ending::Exit(66), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("block[70]"), "{}", outcome.stdout);
    let neighbours = Subject::new(
        r#"
#include <pthread.h>
static struct { char a; char b; short c; } packed;
static void *one(void *arg) { for (int i = 0; i < 60; i++) packed.a = (char)i; return 0; }
static void *two(void *arg) { for (int i = 0; i < 60; i++) packed.b = (char)i; return 0; }
static void *three(void *arg) { for (int i = 0; i < 60; i++) packed.c = (short)i; return 0; }
int main(void) {
    pthread_t t[3];
    pthread_create(&t[0], 0, one, 0);
    pthread_create(&t[1], 0, two, 0);
    pthread_create(&t[2], 0, three, 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    return packed.a - packed.b;
}
"#,
    );
    neighbours.is_silent(&[LOUD, &["--runs", "5"]].concat());
}

#[test]
fn atomic_and_volatile_accesses_are_watched_where_asked_for() {
    let source = |kind: &str, write: &str| {
        format!(
            r#"
#include <pthread.h>
{kind} flag;
__attribute__((noinline)) static int get(void) {{ return flag; }}
static void *reads(void *arg) {{ long sum = 0; for (int i = 0; i < 40; i++) sum += get(); return (void *)sum; }}
static void *writes(void *arg) {{ for (int i = 0; i < 40; i++) {write}; return 0; }}
int main(void) {{
    pthread_t a, b;
    pthread_create(&a, 0, reads, 0);
    pthread_create(&b, 0, writes, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}}
"#
        )
    };
    let mixed = Subject::new(&source("int", "__atomic_store_n(&flag, i, __ATOMIC_RELEASE)"));
    let loud = [LOUD, &["--runs", "3"]].concat();
    mixed.is_silent(&loud);
    let outcome = mixed.detect(&[&loud[..], &["--atomics"]].concat());
    assert_eq!(outcome.ending, Ending::Exit(66), "{}", outcome.stderr);
    let volatile = Subject::new(&source("volatile int", "flag = i"));
    volatile.is_silent(&loud);
    let outcome = volatile.detect(&[&loud[..], &["--volatile"]].concat());
    assert_eq!(outcome.ending, Ending::Exit(66), "{}", outcome.stderr);
}

#[test]
fn hand_made_synchronisation_is_synchronisation() {
    // No lock that anybody knows: a flag, a pipe, and a lock of the program's own.
    let subject = Subject::new(
        r#"
#include <pthread.h>
#include <unistd.h>
static int data, ready, busy, count, piped, ends[2];
static void take(void) { while (__atomic_exchange_n(&busy, 1, __ATOMIC_ACQUIRE)) ; }
static void give(void) { __atomic_store_n(&busy, 0, __ATOMIC_RELEASE); }
static void *other(void *arg) {
    char c;
    while (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) ;
    for (int i = 0; i < 20; i++) data += i;
    read(ends[0], &c, 1);
    piped++;
    for (int i = 0; i < 50; i++) { take(); count++; give(); }
    return 0;
}
int main(void) {
    pthread_t a;
    pipe(ends);
    pthread_create(&a, 0, other, 0);
    for (int i = 0; i < 20; i++) data += i;
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 20; i++) piped++;
    write(ends[1], "x", 1);
    for (int i = 0; i < 50; i++) { take(); count++; give(); }
    pthread_join(a, 0);
    return count != 100;
}
"#,
    );
    subject.is_silent(&[LOUD, &["--runs", "5"]].concat());
}

#[test]
fn threads_that_die_leave_no_announcement() {
    // Cancelled in the middle of anything, also of a wait; whoever joined them owns the data.
    let subject = Subject::new(
        r#"
#include <pthread.h>
#include <unistd.h>
static long data;
static void *victim(void *arg) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    for (;;) data++;
}
int main(void) {
    for (int i = 0; i < 30; i++) {
        pthread_t a;
        pthread_create(&a, 0, victim, 0);
        usleep(700);
        pthread_cancel(a);
        pthread_join(a, 0);
        data = 0;
        for (int k = 0; k < 20; k++) data += k;
    }
    return 0;
}
"#,
    );
    let loud = [LOUD, &["--runs", "3"]].concat();
    subject.is_silent(&loud);
    subject.has_waited(&loud);
}

#[test]
fn jumps_out_of_handlers_leave_no_announcement() {
    // A timer throws the thread out of its loop; from then on the data is the other thread's.
    let subject = Subject::new(
        r#"
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <unistd.h>
static long data;
static int inside;
static sem_t mine, yours;
static sigjmp_buf out;
static pthread_t worker;
static void handler(int signal) { data++; siglongjmp(out, 1); }
static void *work(void *arg) {
    for (volatile int i = 0; i < 30; i++) {
        if (!sigsetjmp(out, 1)) {
            __atomic_store_n(&inside, 1, __ATOMIC_RELEASE);
            for (;;) data++;
        }
        __atomic_store_n(&inside, 0, __ATOMIC_RELEASE);
        sem_post(&yours);
        sem_wait(&mine);
    }
    return 0;
}
int main(void) {
    struct sigaction action = { .sa_handler = handler };
    sigaction(SIGUSR1, &action, 0);
    sem_init(&mine, 0, 0);
    sem_init(&yours, 0, 0);
    pthread_create(&worker, 0, work, 0);
    for (int i = 0; i < 30; i++) {
        while (!__atomic_load_n(&inside, __ATOMIC_ACQUIRE)) usleep(100);
        usleep(900);
        pthread_kill(worker, SIGUSR1);
        sem_wait(&yours);
        for (int k = 0; k < 20; k++) data += k;
        sem_post(&mine);
    }
    pthread_join(worker, 0);
    return 0;
}
"#,
    );
    let loud = [LOUD, &["--runs", "3"]].concat();
    subject.is_silent(&loud);
    subject.has_waited(&loud);
}

#[test]
fn a_handler_does_not_race_with_its_own_thread() {
    let subject = Subject::new(
        r#"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long data;
static int over;
static void handler(int signal) { data++; }
static void *idle(void *arg) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, 0);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) usleep(500);
    return 0;
}
int main(void) {
    pthread_t a;
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, 0);
    pthread_create(&a, 0, idle, 0);
    pthread_sigmask(SIG_UNBLOCK, &alarm, 0);
    sigaction(SIGALRM, &action, 0);
    setitimer(ITIMER_REAL, &(struct itimerval){ { 0, 400 }, { 0, 400 } }, 0);
    for (int i = 0; i < 100; i++) data++;
    setitimer(ITIMER_REAL, &(struct itimerval){ 0 }, 0);
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    pthread_join(a, 0);
    return 0;
}
"#,
    );
    let loud = [LOUD, &["--runs", "3"]].concat();
    subject.is_silent(&loud);
}

#[test]
fn children_do_not_meet_the_announcements_of_their_parents() {
    for fork in ["fork()", "syscall(SYS_fork)"] {
        let source = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static long data;
static int over;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *arg) {
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        pthread_mutex_lock(&lock);
        data++;
        pthread_mutex_unlock(&lock);
    }
    return 0;
}
int main(void) {
    pthread_t a;
    pthread_create(&a, 0, work, 0);
    for (int i = 0; i < 20; i++) {
        usleep(500);
        int pid = FORK;
        if (pid == 0) {
            for (int k = 0; k < 20; k++) data += k;
            _exit(0);
        }
        int status;
        waitpid(pid, &status, 0);
        if (status) return 1;
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    pthread_join(a, 0);
    return 0;
}
"#;
        let subject = Subject::new(&source.replace("FORK", fork));
        subject.is_silent(&[LOUD, &["--runs", "3"]].concat());
    }
}

#[test]
fn clean_programs_are_silent_and_their_output_is_theirs() {
    let lab = Lab::new();
    for name in ["clean/bank_transfer.c", "clean/bounded_buffer.c", "clean/barrier_stencil.c", "clean/task_queue.cpp"] {
        let program = lab.wrapped(name);
        let out = lab.path("store");
        let mut words: Vec<PathBuf> = ["detect", "--runs", "5", "--out"].map(PathBuf::from).to_vec();
        words.extend([out, "--".into(), program]);
        let outcome = lab.tool(words);
        assert_eq!(outcome.ending, Ending::Exit(0), "{name}: {} {}", outcome.stdout, outcome.stderr);
        assert!(outcome.stderr.contains("5 pass, 0 fail"), "{name}: {}", outcome.stderr);
    }
}

#[test]
fn a_budget_is_kept_and_hot_sites_are_switched_off_and_on() {
    let subject = Subject::new(
        r#"
#include <pthread.h>
#include <stdio.h>
static long grid[2][4096];
static void *work(void *arg) {
    long *own = grid[(long)arg];
    for (long n = 0; n < 6000; n++)
        for (int i = 1; i < 4096; i++) own[i] += own[i - 1] + n;
    return 0;
}
int main(void) {
    pthread_t a, b;
    for (int i = 0; i < 4096; i++) grid[0][i] = grid[1][i] = i;
    pthread_create(&a, 0, work, (void *)0);
    pthread_create(&b, 0, work, (void *)1);
    pthread_join(a, 0);
    pthread_join(b, 0);
    printf("%ld\n", grid[0][4095] == grid[1][4095]);
    return grid[0][4095] != grid[1][4095];
}
"#,
    );
    // A function that runs for long at a time has no hooks in most runs with a small budget.
    subject.is_silent(&["--overhead", "5%", "--runs", "2"]);
    let small = subject.detect(&["--overhead", "5%", "--runs", "2"]);
    assert!(small.stderr.contains("1 that run for long at a time in one run of "), "{}", small.stderr);
    let outcome = subject.detect(&["--overhead", "25%", "--counters", "--runs", "2"]);
    assert!(outcome.stderr.contains("1 that run for long at a time always"), "{}", outcome.stderr);
    assert!(
        counted(&outcome, "times that a hot site was switched off for the budget's sake") > 0,
        "{}",
        outcome.stderr
    );
}

/// A program of two threads that does nothing but call a small hot function, so many times; `now_and_then` is done in it once in 64 calls.
fn hot_program(calls: u32, now_and_then: &str) -> String {
    let text = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long rounds;
__attribute__((noinline)) void step(unsigned *own, unsigned n) {
    for (int i = 1; i < 64; i++) own[i] = own[i - 1] * 31 + own[i] + n;
    if (n % 64 == 0) { NOW_AND_THEN }
}
static void *work(void *arg) {
    unsigned *own = arg;
    for (unsigned n = 0; n < CALLS; n++) step(own, n);
    return arg;
}
int main(void) {
    pthread_t a, b;
    unsigned *one = calloc(64, 4), *two = calloc(64, 4);
    pthread_create(&a, 0, work, one);
    pthread_create(&b, 0, work, two);
    pthread_join(a, 0);
    pthread_join(b, 0);
    printf("%u\n", one[63]);
    return one[63] != two[63];
}
"#;
    text.replace("NOW_AND_THEN", now_and_then).replace("CALLS", &calls.to_string())
}

fn counted(outcome: &Outcome, sentence: &str) -> u64 {
    let line = outcome.stderr.lines().find(|line| line.ends_with(sentence)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

const BURSTS: &str = "times that hot functions ran with hooks for a moment";
const STUCK: &str = "times that a hot function could not be switched";

#[test]
fn a_race_in_a_hot_function_is_seen_in_bursts() {
    let subject = Subject::new(&hot_program(1_000_000, "rounds++;"));
    let outcome = subject.detect(&["--overhead", "5%", "--runs", "10", "--counters", "--no-clip"]);
    assert!(
        outcome.stderr.contains("1 function is too hot for --overhead: with hooks 1 in bursts of 4ms"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("the hottest: step (--overhead none watches all)"), "{}", outcome.stderr);
    // It looks at no clock outside of them: one when the second thread begins, in every other run.
    assert!((3..=10).contains(&counted(&outcome, BURSTS)), "{}", outcome.stderr);
    assert_eq!(counted(&outcome, STUCK), 0, "{}", outcome.stderr);
    assert_eq!(outcome.ending, Ending::Exit(66), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("`rounds`"), "{}", outcome.stdout);
    let plan = subject.detect(&["--overhead", "none", "--plan-only", "none.plan"]);
    assert!(plan.stderr.contains("none.plan") && !plan.stderr.contains("too hot"), "{}", plan.stderr);
}

#[test]
fn bursts_disturb_nobody() {
    // Locked, it is no race; the fork finds the function as it is, and the child ends its burst by itself.
    let locked = "pthread_mutex_lock(&lock); rounds++; pthread_mutex_unlock(&lock);";
    let forks = "if (n == 640000 || n == 64) { pid_t child = fork(); if (child == 0) { \
                 unsigned *mine = calloc(64, 4); for (unsigned k = 1; k < 300000; k++) step(mine, k | 1); _exit(mine[63] == 0); } \
                 int end = 1; waitpid(child, &end, 0); if (end) abort(); }";
    let subject = Subject::new(&hot_program(5_000_000, &format!("{locked} {forks}")));
    subject.is_silent(&["--overhead", "5%", "--runs", "3"]);
    let outcome = subject.detect(&["--overhead", "5%", "--runs", "3", "--counters"]);
    assert!(counted(&outcome, BURSTS) >= 3, "at locks the time is looked at, so each run has some: {}", outcome.stderr);
    assert_eq!(counted(&outcome, STUCK), 0, "{}", outcome.stderr);
}
