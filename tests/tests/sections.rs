//! Atomic sections checked in the act, and their refinement, as a user meets them: broken sections are told with the accesses that
//! broke them, correct programs are silent, and whatever happens to a thread inside a section leaves no false report behind.

use std::fs;

use selvedge_itest::Lab;
use serde_json::Value;

/// As much noise as there can be.
const LOUD: &str = "--strength 1000 --duration 300us --overhead none --no-clip";

fn built(source: &str) -> Lab {
    let lab = Lab::new();
    fs::write(lab.path("prog.c"), source).expect("written");
    lab.sh(0, "\"$S\" cc -O1 -g -pthread prog.c -o prog && \"$S\" sections ./prog -o s > list");
    lab
}

fn findings(lab: &Lab) -> Vec<Value> {
    let text = fs::read_to_string(lab.path("found.json")).expect("there is a report");
    let report: Value = serde_json::from_str(&text).expect("it is JSON");
    report["findings"].as_array().expect("findings").clone()
}

/// Every access is under the lock, the check and the sale are not one: no data race.
const TICKETS: &str = r#"
#include <pthread.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int left = 3, sold[2];
__attribute__((noinline)) static int get(void) { pthread_mutex_lock(&lock); int n = left; pthread_mutex_unlock(&lock); return n; }
__attribute__((noinline)) static void put(int n) { pthread_mutex_lock(&lock); left = n; pthread_mutex_unlock(&lock); }
static void *sell(void *arg) {
    long me = (long)arg;
    for (int i = 0; i < 2; i++) {
        int n = get();
        if (n > 0) { put(n - 1); sold[me]++; }
    }
    return 0;
}
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, sell, (void *)0);
    pthread_create(&b, 0, sell, (void *)1);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return sold[0] + sold[1] + left != 3;
}
"#;

#[test]
fn a_broken_section_is_told_and_refinement_drops_what_is_not_meant() {
    let lab = built(TICKETS);
    let outcome = lab.sh(66, "\"$S\" detect --no-clip --sections s --runs 30 --json found.json -- ./prog");
    let found = findings(&lab);
    let guilty = |finding: &&Value| {
        let lines: Vec<u64> =
            finding["accesses"].as_array().into_iter().flatten().filter_map(|access| access["line"].as_u64()).collect();
        finding["kind"] == "atomicity-violation" && finding["status"] == "confirmed" && lines == [5, 6, 6]
    };
    assert!(found.iter().any(|finding| guilty(&finding)), "{}", outcome.stdout);
    assert!(found.iter().all(|finding| finding["kind"] != "data-race"), "{}", outcome.stdout);
    // The whole report, or a line below that of another finding of the same bug.
    let told = ["atomicity violation in put / put", "read in get (prog.c:5), write in put (prog.c:6), write in put"];
    assert!(told.iter().any(|words| outcome.stdout.contains(words)), "{}", outcome.stdout);
    for words in ["comes between", "ends it", "holding `lock`", "#1 sell"] {
        assert!(outcome.stdout.contains(words), "{words}: {}", outcome.stdout);
    }
    // That another sale lies between one sale and the next check is as it should be: correct runs show it.
    lab.sh(0, "\"$S\" refine s --runs 150 --quiet 8 -o r -- ./prog");
    let refined = fs::read_to_string(lab.path("r")).expect("refined");
    assert!(refined.contains("end anything") && refined.contains(" seen"), "{refined}");
    let outcome = lab.sh(66, "\"$S\" detect --no-clip --sections r --runs 30 --json found.json -- ./prog");
    let found = findings(&lab);
    assert!(found.iter().all(|finding| guilty(&finding)), "{}", outcome.stdout);
    // What is refined is not forgotten by a merge, whatever the order.
    lab.sh(0, "\"$S\" refine s --merge r -o one && \"$S\" refine r --merge s -o two && cmp one two && cmp one r");
    let refused = lab.sh(2, "\"$S\" refine s");
    assert!(refused.stderr.contains("name a program"), "{}", refused.stderr);
}

#[test]
fn sections_of_atomic_operations_and_declared_ones_are_checked() {
    let lab = built(
        r#"
#include <pthread.h>
#include <stdatomic.h>
static atomic_int hits;
static void *work(void *arg) {
    for (int i = 0; i < 50; i++) { int now = atomic_load(&hits); atomic_store(&hits, now + 1); }
    return 0;
}
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, work, 0);
    pthread_create(&b, 0, work, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    return 0;
}
"#,
    );
    lab.sh(66, &format!("\"$S\" detect {LOUD} --sections s --runs 5 -- ./prog"));
    let declared = |inside: &str| {
        TICKETS
            .replace("#include <pthread.h>", "#include <pthread.h>\n#include <selvedge.h>")
            .replace("        int n = get();", "        SELVEDGE_SECTION_BEGIN(left);\n        int n = get();")
            .replace("sold[me]++; }", &format!("sold[me]++; }}\n        {inside}"))
    };
    let lab = built(&declared("SELVEDGE_SECTION_END(left);"));
    let outcome = lab.sh(66, "\"$S\" detect --no-clip --runs 30 -- ./prog");
    assert!(outcome.stdout.contains("declared by the program"), "{}", outcome.stdout);
    // What lies between two declared sections is nobody's business.
    assert!(!outcome.stdout.contains("between its write"), "{}", outcome.stdout);
}

/// Programs in which sections are left in every way there is, and nobody breaks one.
#[track_caller]
fn is_silent(source: &str) {
    let lab = built(source);
    // Flags are read again and again until somebody writes them: no section was meant.
    let all = fs::read_to_string(lab.path("s")).expect("sections");
    let meant = |block: &&str| !["variable over", "variable inside"].iter().any(|flag| block.contains(flag));
    fs::write(lab.path("s"), all.split("\n\n").filter(meant).collect::<Vec<_>>().join("\n\n")).expect("written");
    let outcome = lab.sh(0, &format!("\"$S\" detect {LOUD} --sections s --runs 4 -- ./prog"));
    assert!(outcome.stdout.is_empty(), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("4 pass, 0 fail"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("atomic sections began"), "or silence means nothing: {}", outcome.stderr);
}

#[test]
fn threads_that_die_inside_a_section_leave_none() {
    is_silent(
        r#"
#include <pthread.h>
#include <unistd.h>
static long data;
__attribute__((noinline)) static void more(void) { long now = data; data = now + 1; }
static void *victim(void *arg) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    for (;;) more();
}
int main(void) {
    for (int i = 0; i < 20; i++) {
        pthread_t a;
        pthread_create(&a, 0, victim, 0);
        usleep(700);
        pthread_cancel(a);
        pthread_join(a, 0);
        for (int k = 0; k < 20; k++) more();
    }
    return 0;
}
"#,
    );
}

#[test]
fn children_are_inside_no_section_of_their_parents() {
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
__attribute__((noinline)) static void more(void) { long now = data; data = now + 1; }
static void *work(void *arg) {
    pthread_mutex_lock(&lock);
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) more();
    pthread_mutex_unlock(&lock);
    return 0;
}
int main(void) {
    pthread_t a;
    pthread_create(&a, 0, work, 0);
    for (int i = 0; i < 15; i++) {
        usleep(500);
        int pid = FORK;
        if (pid == 0) {
            for (int k = 0; k < 20; k++) more();
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
        is_silent(&source.replace("FORK", fork));
    }
}

#[test]
fn handlers_and_jumps_out_of_them_leave_sections() {
    is_silent(
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
__attribute__((noinline)) static void more(void) { long now = data; data = now + 1; }
static void handler(int signal) { more(); siglongjmp(out, 1); }
__attribute__((noinline)) static void loop(void) { for (;;) more(); }
static void *work(void *arg) {
    for (volatile int i = 0; i < 20; i++) {
        if (!sigsetjmp(out, 1)) {
            __atomic_store_n(&inside, 1, __ATOMIC_RELEASE);
            loop();
        }
        __atomic_store_n(&inside, 0, __ATOMIC_RELEASE);
        sem_post(&yours);
        sem_wait(&mine);
    }
    return 0;
}
static int is_inside(void) { return __atomic_load_n(&inside, __ATOMIC_ACQUIRE); }
int main(void) {
    struct sigaction action = { .sa_handler = handler };
    sigaction(SIGUSR1, &action, 0);
    sem_init(&mine, 0, 0);
    sem_init(&yours, 0, 0);
    pthread_create(&worker, 0, work, 0);
    for (int i = 0; i < 20; i++) {
        int is = 0;
        while (!is) { usleep(100); is = is_inside(); }
        usleep(900);
        pthread_kill(worker, SIGUSR1);
        sem_wait(&yours);
        for (int k = 0; k < 20; k++) more();
        sem_post(&mine);
    }
    pthread_join(worker, 0);
    return 0;
}
"#,
    );
}

#[test]
fn recursion_and_circles_of_one_owner_are_silent() {
    is_silent(
        r#"
#include <pthread.h>
#include <stdlib.h>
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long depth_sum, total;
struct node { long value; struct node *next; };
static struct node *head;
__attribute__((noinline)) static void down(int depth) {
    long now = depth_sum;
    if (depth > 0) down(depth - 1);
    depth_sum = now + 1;
}
static void *work(void *arg) {
    pthread_mutex_lock(&lock);
    for (int i = 0; i < 10; i++) {
        down(3);
        struct node *node = malloc(sizeof *node);
        node->value = i;
        node->next = head;
        head = node;
        for (struct node *at = head; at; at = at->next) total += at->value;
        if (i % 2) { head = node->next; free(node); }
    }
    pthread_mutex_unlock(&lock);
    return 0;
}
int main(void) {
    pthread_t t[3];
    for (int i = 0; i < 3; i++) pthread_create(&t[i], 0, work, 0);
    for (int i = 0; i < 3; i++) pthread_join(t[i], 0);
    return 0;
}
"#,
    );
}
