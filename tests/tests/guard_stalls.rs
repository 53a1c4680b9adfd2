//! What a guard does, seen in its log: stalls that end at once, memory that begins anew, and every way in which something
//! runs out. Each test guards a small program by a table of its own.

use std::fs;
use std::path::{Path, PathBuf};

use selvedge_drive::guard::table::RowSpec;
use selvedge_drive::plan::PlanSpec;
use selvedge_events::guard::{Entry, FLAG_WATCH, HEADER, LogCounter, Note, ROW};
use selvedge_events::plan::{Intervene, Observe};
use selvedge_itest::{Built, Deployed, Ending, Guarding, Lab, Outcome};

/// What every program here begins with. `PLAIN` functions have no sites.
const HEAD: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#define PLAIN __attribute__((noinline, no_sanitize("thread")))
#define APART __attribute__((noinline))
PLAIN static long now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000L + t.tv_nsec / 1000;
}
PLAIN static pthread_t go(void *(*body)(void *), void *arg) {
    pthread_t thread;
    if (pthread_create(&thread, 0, body, arg)) abort();
    return thread;
}
"#;

struct Subject {
    lab: Lab,
    built: Built,
}

impl Subject {
    fn new(source: &str) -> Subject {
        let lab = Lab::new();
        let built = Subject::build(&lab, source, "prog");
        Subject { lab, built }
    }

    fn build(lab: &Lab, source: &str, name: &str) -> Built {
        let (file, executable) = (lab.path(format!("{name}.c")), lab.path(name));
        fs::write(&file, format!("{HEAD}{source}")).expect("written");
        let words = ["cc", "-O1", "-g", "-pthread"].map(PathBuf::from);
        let built = lab.tool(words.into_iter().chain([file, "-o".into(), executable.clone()]));
        assert_eq!(built.ending, Ending::Exit(0), "{}", built.stderr);
        Built { executable, companions: Vec::new() }
    }

    fn everything(&self) -> Guarding {
        Guarding::everything(&self.built)
    }

    /// Runs the program under a guard; it must end well.
    fn run(&self, guarding: &Guarding, name: &str) -> (Outcome, Deployed) {
        let deployed = guarding.deploy(&self.lab.path(name)).expect("written");
        let seen = self.run_under(&deployed.plan);
        (seen, deployed)
    }

    fn run_under(&self, plan: &Path) -> Outcome {
        let seen = self.lab.run_with([&self.built.executable], &[(selvedge_events::plan::ENV, plan)]);
        assert_eq!(seen.ending, Ending::Exit(0), "{}{}", seen.stdout, seen.stderr);
        seen
    }
}

/// The only site of a function that has only one.
fn only_site(guarding: &Guarding, function: &str) -> u32 {
    let sites = guarding.sites_in(function);
    assert_eq!(sites.len(), 1, "{function}");
    sites[0]
}

fn set(guarding: &mut Guarding, site: u32, members: &[u32]) {
    guarding.table.rows[site as usize - 1] = RowSpec::of(members.iter().copied());
}

fn violations_of(deployed: &Deployed, site: u32) -> Vec<Entry> {
    let of = |entry: &Entry| entry.note == Note::Violation && entry.site == site;
    deployed.entries().into_iter().filter(of).collect()
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Fifty pairs of functions `a0`, `b0`, …, each with one site, and two threads that meet before each pair.
fn pairs(before_a: &str, before_b: &str, after_a: &str) -> String {
    let mut text = String::from("static long x[512]; static pthread_barrier_t meet; static long stamp[50];\n");
    for i in 0..50 {
        text += &format!("APART static void a{i}(long *at) {{ *at = 1; }}\n");
        text += &format!("APART static void b{i}(long *at) {{ *at = 2; }}\n");
    }
    let calls = |name: &str, before: &str, after: &str| {
        let mut text = format!("static void *{name}(void *arg) {{ (void)arg;\n");
        for i in 0..50 {
            let (before, after) = (before.replace('#', &i.to_string()), after.replace('#', &i.to_string()));
            text += &format!("pthread_barrier_wait(&meet); {before} {}{i}(&x[{i} * 8]); {after}\n", &name[..1]);
        }
        text + "return 0; }\n"
    };
    text += "PLAIN static void note(int i) { stamp[i] = now_us(); }\n";
    text += "PLAIN static void say(int i) { printf(\"%ld\\n\", now_us() - stamp[i]); }\n";
    text += &calls("as", before_a, after_a);
    text += &calls("bs", before_b, "");
    text += "int main(void) { pthread_barrier_init(&meet, 0, 2); pthread_t other = go(bs, 0), one = go(as, 0);\n";
    text + "pthread_join(one, 0); pthread_join(other, 0); return 0; }\n"
}

#[test]
fn threads_that_are_stalled_on_each_other_go_on_at_once() {
    let subject = Subject::new(&pairs("", "", ""));
    let mut guarding = subject.everything();
    // So long that no stall can have ended by the time.
    guarding.table.stall_ns = 20_000_000_000;
    let mut sites = Vec::new();
    for i in 0..50 {
        let (a, b) = (only_site(&guarding, &format!("a{i}")), only_site(&guarding, &format!("b{i}")));
        set(&mut guarding, a, &[b]);
        set(&mut guarding, b, &[a]);
        sites.extend([a, b]);
    }
    let (_, deployed) = subject.run(&guarding, "mutual");
    let count = |counter| deployed.counter(counter);
    let (mutual, resolved) = (count(LogCounter::Mutual), count(LogCounter::Resolved));
    // Where one of the two came so late that the other had been alone, nobody was stalled on anybody.
    let alone = count(LogCounter::Futile);
    assert_eq!(count(LogCounter::TimedOut), 0);
    assert_eq!(mutual + alone, 50, "one of each pair was let go: {mutual} {alone} {resolved}");
    assert_eq!(resolved, mutual, "and the other had what it waited for: {mutual} {alone} {resolved}");
    assert!(mutual >= 25, "{mutual} {alone}");
    let longest = sites.iter().flat_map(|site| violations_of(&deployed, *site)).map(|entry| entry.longest_us.into());
    let median = median(longest.collect());
    assert!(median < 3000, "{median} us");
}

#[test]
fn a_stalled_thread_goes_on_when_the_awaited_access_has_come() {
    // The second thread is held where nobody sees it, so that the first is stalled when it comes.
    let subject = Subject::new(&pairs("", "usleep(3000); note(#);", "say(#);"));
    let names: Vec<String> = (0..50).flat_map(|i| [format!("a{i}"), format!("b{i}")]).collect();
    let mut guarding = subject.everything().only(&names);
    guarding.table.stall_ns = 20_000_000_000;
    for i in 0..50 {
        let (a, b) = (only_site(&guarding, &format!("a{i}")), only_site(&guarding, &format!("b{i}")));
        set(&mut guarding, a, &[b]);
        set(&mut guarding, b, &[0]);
    }
    let (seen, deployed) = subject.run(&guarding, "awaited");
    // On a busy machine the other may come first after all, or be woken so late that it was taken for blocked.
    let stalls = |i: u32| violations_of(&deployed, only_site(&guarding, &format!("a{i}")));
    let all: Vec<Entry> = (0..50).flat_map(stalls).collect();
    let resolved: u32 = all.iter().map(|entry| entry.resolved).sum();
    assert!((40..=50).contains(&resolved), "{resolved}");
    let in_vain: u32 = all.iter().map(|entry| entry.futile).sum();
    assert_eq!(resolved + in_vain, all.iter().map(|entry| entry.count).sum::<u32>());
    assert_eq!(deployed.counter(LogCounter::TimedOut), 0);
    let late: Vec<u64> = seen.stdout.lines().map(|line| line.parse().expect("microseconds")).collect();
    assert_eq!(late.len(), 50);
    // By its own looking around it would be half as late as the time between two looks, 250 us.
    let median = median(late);
    assert!(median < 150, "{median} us");
}

/// A thread that stalls, and a handler that jumps out of the stall; then, from deeper frames, an access that violates.
const JUMPER: &str = r#"
static long x, y;
static sigjmp_buf back;
static volatile sig_atomic_t jumped;
PLAIN static void out(int signal) { (void)signal; jumped++; siglongjmp(back, 1); }
APART static void stalls(long *at) { *at = 1; }
APART static void later(long *at) { *at = 2; }
PLAIN static void deeper(int depth) { volatile char room[512]; room[0] = 0; if (depth) deeper(depth - 1); else for (int i = 0; i < 100; i++) later(&y); room[1] = 0; }
PLAIN static void *thread(void *arg) {
    if (sigsetjmp(back, 1) == 0) stalls(&x);
    deeper((int)(long)arg);
    return 0;
}
PLAIN int main(void) {
    signal(SIGUSR1, out);
    for (long depth = 0; depth < 3; depth++) {
        pthread_t one = go(thread, (void *)(depth * 4));
        usleep(20000);
        pthread_kill(one, SIGUSR1);
        pthread_join(one, 0);
    }
    printf("jumped %d\n", (int)jumped);
    return 0;
}
"#;

#[test]
fn a_thread_that_jumped_out_of_a_stall_is_guarded_as_before() {
    let subject = Subject::new(JUMPER);
    let mut guarding = subject.everything().only(&["stalls", "later"]);
    // The main thread sleeps and could come: only a jump or the time ends a stall.
    guarding.table.stall_ns = 3_000_000_000;
    let (seen, deployed) = subject.run(&guarding, "jumps");
    assert_eq!(seen.stdout, "jumped 3\n");
    assert_eq!(deployed.counter(LogCounter::TimedOut), 0);
    // The first one of each thread is checked, and so are the others until their pair is let go: after so many stalls in vain, and not before.
    // That nobody is inside the stall any more is noticed after a while.
    let later = violations_of(&deployed, only_site(&guarding, "later"));
    let (others, first): (Vec<&Entry>, Vec<&Entry>) = later.iter().partition(|entry| entry.own);
    assert_eq!(first.iter().map(|entry| entry.count).sum::<u32>(), 3, "{later:?}");
    assert!(!others.is_empty() && others.iter().all(|entry| entry.futile == 8 && entry.count > 8), "{later:?}");
    let reentered = deployed.counter(LogCounter::Reentered);
    assert!(reentered < 200, "{reentered}");
    assert!(deployed.counter(LogCounter::Futile) > 0, "stalls are made again");
}

/// One thread stalls for long; another forks, and the child makes accesses that violate too.
const FORKS: &str = r#"
static long x, y;
static volatile int inside;
APART static void stalls(long *at) { *at = 1; }
APART static void in_child(long *at) { *at = 2; }
PLAIN static void *thread(void *arg) { inside = 1; stalls(&x); return arg; }
PLAIN int main(void) {
    pthread_t one = go(thread, 0);
    while (!inside) usleep(100);
    usleep(20000);
    for (int i = 0; i < 5; i++) {
        long begun = now_us();
        pid_t child = fork();
        if (child == 0) { in_child(&x); in_child(&y); _exit(x == 2 && y == 2 ? 7 : 8); }
        int status;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) return 1;
        if (now_us() - begun > 1500000) return 2;
    }
    pthread_join(one, 0);
    printf("x %ld\n", x);
    return 0;
}
"#;

#[test]
fn a_child_that_was_forked_around_a_stall_goes_on() {
    let subject = Subject::new(FORKS);
    let mut guarding = subject.everything().only(&["stalls", "in_child"]);
    guarding.table.stall_ns = 2_000_000_000;
    let (seen, deployed) = subject.run(&guarding, "forks");
    assert_eq!(seen.stdout, "x 1\n");
    let child = violations_of(&deployed, only_site(&guarding, "in_child"));
    assert_eq!(child.iter().map(|entry| entry.count).sum::<u32>(), 10, "{child:?}");
    assert!(child.iter().all(|entry| entry.timed_out == 0 && entry.futile > 0), "{child:?}");
}

/// The first thread ends before the others; then one stalls.
const WITHOUT_MAIN: &str = r#"
static long x;
APART static void stalls(long *at) { *at = 1; }
PLAIN static void *thread(void *arg) {
    pthread_join(*(pthread_t *)arg, 0);
    long begun = now_us();
    stalls(&x);
    printf("%s\n", now_us() - begun < 2000000 ? "soon" : "late");
    fflush(stdout);
    exit(0);
}
PLAIN int main(void) {
    static pthread_t own;
    own = pthread_self();
    go(thread, &own);
    pthread_exit(0);
}
"#;

#[test]
fn a_first_thread_that_is_gone_is_not_waited_for() {
    let subject = Subject::new(WITHOUT_MAIN);
    let mut guarding = subject.everything().only(&["stalls"]);
    guarding.table.stall_ns = 4_000_000_000;
    let (seen, deployed) = subject.run(&guarding, "without-main");
    assert_eq!((seen.stdout.as_str(), deployed.counter(LogCounter::Futile)), ("soon\n", 1));
}

/// Memory that has a second life at the same address, in other threads.
const REUSE: &str = r#"
APART static void heap_first(long *at) { *at = 1; }
APART static void heap_second(long *at) { *at = 2; }
APART static void moved_first(long *at) { *at = 1; }
APART static void moved_second(long *at) { *at = 2; }
APART static void stack_first(long *at) { *at = 1; }
APART static void stack_second(long *at) { *at = 2; }
APART static void kept_first(long *at) { *at = 1; }
APART static void kept_second(long *at) { *at = 2; }
struct call { void (*function)(long *); long *at; };
PLAIN static void *call(void *arg) { struct call *it = arg; it->function(it->at); return 0; }
PLAIN static void in_thread(void (*function)(long *), long *at) {
    struct call it = {function, at};
    pthread_join(go(call, &it), 0);
}
PLAIN static void *on_stack(void *arg) {
    long local[4];
    ((void (*)(long *))arg)(local);
    return local;
}
PLAIN static void *volatile_malloc(size_t size) { return malloc(size); }
PLAIN int main(void) {
    long *one = volatile_malloc(100);
    in_thread(heap_first, one);
    free(one);
    long *two = volatile_malloc(100);
    in_thread(heap_second, two);
    printf("heap %d\n", one == two);
    in_thread(moved_first, two);
    long *three = realloc(two, 96);
    in_thread(moved_second, three);
    printf("moved %d\n", two == three);
    void *first, *second;
    pthread_join(go(on_stack, stack_first), &first);
    pthread_join(go(on_stack, stack_second), &second);
    printf("stack %d\n", first == second);
    in_thread(kept_first, three);
    in_thread(kept_second, three);
    return 0;
}
"#;

#[test]
fn memory_that_is_handed_out_again_begins_anew() {
    let subject = Subject::new(REUSE);
    let guarding = subject.everything().learning();
    let (seen, deployed) = subject.run(&guarding, "reuse");
    assert_eq!(seen.stdout, "heap 1\nmoved 1\nstack 1\n", "the addresses are the same");
    let members = |function: &str| -> Vec<u32> {
        let site = only_site(&guarding, function);
        let of = |entry: &Entry| entry.note == Note::Member && entry.site == site;
        deployed.entries().iter().filter(|entry| of(entry)).map(|entry| entry.other).collect()
    };
    for function in ["heap_second", "moved_second", "stack_second"] {
        assert_eq!(members(function), [0], "{function}");
    }
    assert_eq!(members("kept_second"), [only_site(&guarding, "kept_first")], "what lives on is known");
}

/// Eighty sites on one word, by two threads in turn: every pair of them, both ways.
fn crowd_of_pairs() -> String {
    let mut text = String::from("long x;\nstatic long turn;\n");
    for i in 0..80 {
        text += &format!("APART static void f{i}(void) {{ x = {i}; }}\n");
    }
    text += "static void (*const all[])(void) = {";
    text.extend((0..80).map(|i| format!("f{i},")));
    text += r#"};
    PLAIN static void *body(void *arg) {
        for (long pair = 0; pair < 80 * 80; pair++) {
            while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != 2 * pair + (long)arg) sched_yield();
            all[arg ? pair / 80 : pair % 80]();
            __atomic_add_fetch(&turn, 1, __ATOMIC_RELEASE);
        }
        return 0;
    }
    PLAIN int main(void) {
        pthread_t one = go(body, (void *)0), two = go(body, (void *)1);
        pthread_join(one, 0); pthread_join(two, 0);
        puts("done");
        return 0;
    }
    "#;
    text
}

#[test]
fn a_log_that_is_full_is_counted_and_slows_nobody_down() {
    let subject = Subject::new(&crowd_of_pairs());
    let mut guarding = subject.everything();
    let begun = std::time::Instant::now();
    let (_, deployed) = subject.run(&guarding, "stalling");
    // Pairs without number, each of them worth eight stalls.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    assert!(deployed.counter(LogCounter::Spared) > 0);
    guarding.table.flags = FLAG_WATCH;
    let (seen, deployed) = subject.run(&guarding, "watching");
    assert_eq!(seen.stdout, "done\n");
    assert!(deployed.counter(LogCounter::NotLogged) > 0);
    assert!(deployed.entries().len() > 2000);
    let stalls = [LogCounter::Resolved, LogCounter::TimedOut, LogCounter::Mutual, LogCounter::Futile];
    assert_eq!(stalls.map(|counter| deployed.counter(counter)), [0; 4]);
}

/// One thread touches a lot of memory, then another.
const WIDE: &str = r#"
static char *area;
APART static void touch(char *at) { *at += 1; }
PLAIN static void *body(void *arg) { for (long i = 0; i < 256; i++) touch(area + i * 65536); return arg; }
PLAIN int main(void) {
    area = calloc(256, 65536);
    for (int i = 0; i < 2; i++) pthread_join(go(body, 0), 0);
    long sum = 0;
    for (long i = 0; i < 256 * 65536L; i++) sum += area[i];
    printf("%ld\n", sum);
    return 0;
}
"#;

#[test]
fn memory_that_the_guard_may_not_have_is_not_watched_and_counted() {
    let subject = Subject::new(WIDE);
    let mut guarding = subject.everything();
    for (limit, some_are_checked) in [(0, false), (1, true)] {
        guarding.memory_mb = Some(limit);
        let (seen, deployed) = subject.run(&guarding, &format!("limit-{limit}"));
        assert_eq!(seen.stdout, "512\n");
        assert!(deployed.counter(LogCounter::NoMemory) > 400);
        assert_eq!(deployed.counter(LogCounter::Violations) > 0, some_are_checked);
    }
    guarding.memory_mb = None;
    let (_, deployed) = subject.run(&guarding, "plenty");
    assert_eq!(deployed.counter(LogCounter::NoMemory), 0);
}

/// A value that is read before it is made, unless a guard sees to it.
const LATE: &str = r#"
static long value;
APART static void make(long *at) { *at = 7; }
APART static long take(long *at) { return *at; }
PLAIN static void *maker(void *arg) { usleep(100000); make(&value); return arg; }
PLAIN int main(void) {
    pthread_t one = go(maker, 0);
    printf("took %ld\n", take(&value));
    fflush(stdout);
    pthread_join(one, 0);
    return 0;
}
"#;

fn order_of_late(subject: &Subject) -> Guarding {
    let mut guarding = subject.everything().only(&["make", "take"]);
    guarding.table.stall_ns = 20_000_000_000;
    let (make, take) = (only_site(&guarding, "make"), only_site(&guarding, "take"));
    set(&mut guarding, make, &[0]);
    set(&mut guarding, take, &[make]);
    guarding
}

/// As [`LATE`], again and again, on a processor that is so busy that the other thread begins to run much later.
const UNBORN: &str = r#"
#include <sched.h>
static long value[50 * 8];
APART static void make(long *at) { *at = 7; }
APART static long take(long *at) { return *at; }
PLAIN static void *maker(void *arg) { make(arg); return 0; }
PLAIN int main(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    pid_t busy[3];
    for (int i = 0; i < 3; i++) {
        busy[i] = fork();
        if (busy[i] == 0) {
            // No longer than the test, should nobody end it.
            alarm(30);
            for (volatile long turn = 0;; turn++) {}
        }
    }
    int good = 0;
    for (int i = 0; i < 50; i++) {
        pthread_t thread = go(maker, &value[i * 8]);
        good += take(&value[i * 8]) == 7;
        pthread_join(thread, 0);
    }
    for (int i = 0; i < 3; i++) { kill(busy[i], SIGKILL); waitpid(busy[i], 0, 0); }
    printf("took %d\n", good);
    return 0;
}
"#;

#[test]
fn a_thread_that_has_not_begun_to_run_can_still_come() {
    let subject = Subject::new(UNBORN);
    let (seen, deployed) = subject.run(&order_of_late(&subject), "unborn");
    assert_eq!((seen.stdout.as_str(), deployed.counter(LogCounter::Futile)), ("took 50\n", 0));
}

#[test]
fn a_log_that_cannot_be_written_is_said_once_and_the_program_is_guarded() {
    let subject = Subject::new(LATE);
    let guarding = order_of_late(&subject);
    assert_eq!(subject.lab.run([&subject.built.executable]).stdout, "took 0\n");
    assert_eq!(subject.run(&guarding, "kept").0.stdout, "took 7\n");
    let nowhere = subject.lab.path("prog.c/logs");
    let plan = subject.lab.path("nowhere.plan");
    fs::write(&plan, guarding.to_bytes(&nowhere)).expect("written");
    let seen = subject.run_under(&plan);
    assert_eq!(seen.stdout, "took 7\n");
    let said: Vec<&str> = seen.stderr.lines().collect();
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].contains("cannot write the guard's log") && said[0].contains("is guarded"), "{said:?}");
}

#[test]
fn a_damaged_plan_is_said_and_the_program_runs_without() {
    let subject = Subject::new(LATE);
    let guarding = order_of_late(&subject);
    let logs = subject.lab.path("logs");
    fs::create_dir_all(&logs).expect("made");
    let whole = guarding.to_bytes(&logs);
    let plan = subject.lab.path("plan");
    let expect_without = |bytes: &[u8], what: &str| {
        fs::write(&plan, bytes).expect("written");
        let seen = subject.run_under(&plan);
        assert_eq!(seen.stdout, "took 0\n", "{what}");
        let said: Vec<&str> = seen.stderr.lines().collect();
        assert!(said.len() == 1 && said[0].contains("runs without it"), "{what}: {said:?}");
        assert_eq!(fs::read_dir(&logs).expect("there").count(), 0, "{what}");
    };
    for part in 0..8 {
        expect_without(&whole[..whole.len() * part / 8], &format!("{part} of 8"));
        let mut bytes = whole.clone();
        bytes[whole.len() * part / 8 + 3] ^= 0x40;
        expect_without(&bytes, &format!("another bit in {part} of 8"));
    }
    // A sound plan around a table that is not.
    let table = guarding.table.to_bytes().expect("small");
    let mut damaged = vec![Vec::new(), table[..table.len() / 2].to_vec(), vec![0xff; table.len()]];
    // Sites, where the rows are, and of the row that has something its first site, its length and where its bits are.
    let row = HEADER + ROW * (only_site(&guarding, "take") as usize - 1);
    for at in [28, 34, row, row + 4, row + 10] {
        let mut bytes = table.clone();
        bytes[at] ^= 0xff;
        damaged.push(bytes);
    }
    for table in damaged {
        let mut spec = PlanSpec::new(Observe::Nothing, &logs);
        spec.interventions = vec![(Intervene::Guard, table)];
        spec.images = guarding.images.clone();
        expect_without(&spec.to_bytes().expect("small"), "table");
    }
}

#[test]
fn armed_ids_that_the_table_does_not_know_and_numbers_of_its_own_do_no_harm() {
    let subject = Subject::new(LATE);
    let sound = order_of_late(&subject);
    // Ids that are no site numbers: the table says what they mean.
    let mut mapped = sound.clone();
    for (_, id) in mapped.images.iter_mut().flat_map(|image| &mut image.sites) {
        *id += 1000;
    }
    let sites = mapped.table.rows.len() as u32;
    mapped.table.ids = (0..1000).map(|_| 0).chain(0..=sites).collect();
    let (seen, deployed) = subject.run(&mapped, "mapped");
    assert_eq!((seen.stdout.as_str(), deployed.counter(LogCounter::Resolved)), ("took 7\n", 1));
    // Ids beyond all that there is.
    let mut beyond = mapped;
    beyond.table.ids = Vec::new();
    let (seen, deployed) = subject.run(&beyond, "beyond");
    assert_eq!((seen.stdout.as_str(), deployed.counter(LogCounter::Violations)), ("took 0\n", 0));
    // Colours that lead anywhere.
    let mut coloured = sound;
    coloured.table.stall_ns = 1_000_000;
    let far = [i32::MAX, i32::MIN + 1, 0, -1, 7].map(Some);
    coloured.table.shifts = far.into_iter().cycle().take(sites as usize).collect();
    subject.run(&coloured, "coloured");
}

#[test]
fn a_plan_of_another_build_arms_nothing() {
    let subject = Subject::new(LATE);
    let other = Subject::build(&subject.lab, &LATE.replace("= 7", "= 8"), "other");
    let mut foreign = Guarding::everything(&other);
    foreign.table.stall_ns = 20_000_000_000;
    let (seen, deployed) = subject.run(&foreign, "foreign");
    assert_eq!((seen.stdout.as_str(), seen.stderr.as_str()), ("took 0\n", ""));
    assert_eq!(deployed.counter(LogCounter::Violations), 0);
}

/// As [`LATE`], but somebody cuts the plan's file before.
const CUT: &str = r#"
#include <fcntl.h>
static long value;
APART static void make(long *at) { *at = 7; }
APART static long take(long *at) { return *at; }
PLAIN static void *maker(void *arg) { usleep(50000); make(&value); return arg; }
PLAIN int main(void) {
    if (truncate(getenv("SELVEDGE_PLAN"), 0)) return 1;
    pthread_t one = go(maker, 0);
    printf("took %ld\n", take(&value));
    fflush(stdout);
    pthread_join(one, 0);
    return 0;
}
"#;

#[test]
fn a_plan_that_is_cut_while_the_program_runs_goes_on_being_kept() {
    let subject = Subject::new(CUT);
    let (seen, _) = subject.run(&order_of_late(&subject), "cut");
    assert_eq!(seen.stdout, "took 7\n");
}
