//! Variables on stacks have names: in C, C++ and Rust, in free runs and under control, and only while they are there.

use std::fs;

use selvedge_itest::{Ending, Lab, instrumented_rustc};
use serde_json::Value;

/// Two threads deposit to an account on `main`'s stack.
const BANK: &str = r#"
#include <pthread.h>
struct account { long id, balance; };
static void *deposit(void *arg) { struct account *account = arg; account->balance += 10; return 0; }
int main(void) {
    struct account ours[2] = { { 0 } };
    pthread_t a, b;
    pthread_create(&a, 0, deposit, &ours[1]);
    pthread_create(&b, 0, deposit, &ours[1]);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return ours[1].balance != 20;
}
"#;

#[test]
fn a_finding_names_the_variable_and_is_the_same_finding_again() {
    let lab = Lab::new();
    fs::write(lab.path("bank.c"), BANK).expect("written");
    lab.sh(0, "\"$S\" cc -O1 -pthread bank.c -o bank");
    let findings = |name: &str| {
        let done = lab.sh(66, &format!("\"$S\" hunt --runs 6 --budget 20s --out {name} --json {name}.json -- ./bank"));
        assert!(done.stdout.contains("`main()::ours[1].balance`"), "{}", done.stdout);
        assert!(!done.stdout.contains("0x7ff"), "{}", done.stdout);
        let text = fs::read_to_string(lab.path(format!("{name}.json"))).expect("findings");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let ids = json["findings"].as_array().expect("a list").iter().map(|finding| finding["id"].to_string());
        ids.collect::<std::collections::BTreeSet<String>>()
    };
    assert_eq!(findings("one"), findings("two"));
}

#[test]
fn variables_of_cxx_threads_are_named() {
    let lab = Lab::new();
    let source = r#"
#include <thread>
struct Account { long id = 0, balance = 0; };
static void deposit(Account &account) { account.balance += 10; }
int main() {
    Account ours;
    std::thread a(deposit, std::ref(ours)), b([&] { ours.id++; });
    ours.id++;
    a.join();
    b.join();
}
"#;
    fs::write(lab.path("bank.cpp"), source).expect("written");
    for flags in ["-O0", "-O2"] {
        lab.sh(0, &format!("\"$S\" c++ {flags} -pthread bank.cpp -o bank"));
        for mode in ["", "--controlled"] {
            let done = lab.sh(0, &format!("\"$S\" record -q {mode} -- ./bank && \"$S\" trace"));
            for name in ["main()::ours.balance", "main()::ours.id"] {
                assert!(done.stdout.contains(name), "{flags} {mode}: {name} in\n{}", done.stdout);
            }
        }
    }
}

#[test]
fn variables_of_rust_scopes_are_named() {
    let lab = Lab::new();
    let source = r#"
use std::sync::atomic::{AtomicU32, Ordering};
fn main() {
    let counter = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| counter.fetch_add(1, Ordering::Relaxed));
        }
    });
}
"#;
    fs::write(lab.path("scope.rs"), source).expect("written");
    let rustc = instrumented_rustc(lab.selvedge(), &lab.path("")).expect("linked");
    let flags = ["--edition=2024".into(), "-g".into(), "-O".into(), "-o".into(), lab.path("scope").into()];
    let built = lab.run(rustc.into_iter().chain(flags).chain([lab.path("scope.rs").into_os_string()]));
    assert_eq!(built.ending, Ending::Exit(0), "{}", built.stderr);
    let done = lab.sh(0, "\"$S\" record -q -- ./scope && \"$S\" trace");
    assert!(done.stdout.contains("scope::main()::counter"), "{}", done.stdout);
}

/// `first` makes a thread and has a variable on the stack; then `second` has another in its place, which `main`'s old
/// thread is given.
const LEFT: &str = r#"
#include <pthread.h>
struct job { long parts[32]; int done; };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct job *next;
static int over;
static void *serve(void *arg) {
    for (;;) {
        pthread_mutex_lock(&lock);
        int stop = over;
        if (next) { next->parts[3]++; next->parts[20]++; next->done = 1; next = 0; }
        pthread_mutex_unlock(&lock);
        if (stop) return 0;
    }
}
static void *once(void *arg) { ((struct job *)arg)->parts[3]++; return 0; }
static __attribute__((noinline)) void first(void) {
    struct job mine = { { 0 } };
    pthread_t a;
    pthread_create(&a, 0, once, &mine);
    pthread_join(a, 0);
    mine.parts[3]++;
}
static __attribute__((noinline)) void second(void) {
    struct job other = { { 0 } };
    pthread_mutex_lock(&lock);
    next = &other;
    for (int done = 0; !done; pthread_mutex_lock(&lock)) { done = other.done; pthread_mutex_unlock(&lock); }
    pthread_mutex_unlock(&lock);
}
int main(void) {
    pthread_t a;
    pthread_create(&a, 0, serve, 0);
    first();
    second();
    pthread_mutex_lock(&lock);
    over = 1;
    pthread_mutex_unlock(&lock);
    return pthread_join(a, 0);
}
"#;

#[test]
fn what_has_been_left_has_no_name() {
    let lab = Lab::new();
    fs::write(lab.path("left.c"), LEFT).expect("written");
    lab.sh(0, "\"$S\" cc -O1 -pthread left.c -o left");
    let done = lab.sh(0, "\"$S\" record -q -- ./left && \"$S\" trace");
    assert!(done.stdout.contains("first()::mine.parts[3]"), "{}", done.stdout);
    let others = done.stdout.lines().filter(|line| line.contains(" serve") && line.contains("stack of"));
    assert!(others.count() >= 2, "{}", done.stdout);
    let wrong = done.stdout.lines().find(|line| line.contains("first()::") && line.contains(" serve"));
    assert_eq!(wrong, None, "{}", done.stdout);
}
