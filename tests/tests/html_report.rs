//! The page of findings, made by the real tool and used in a real browser; and served by `selvedge view`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use selvedge_itest::{Browser, Ending, Lab};
use serde_json::{Value, json};

/// Withdraws what another thread has withdrawn meanwhile; and two threads that take two locks in two orders.
const BANK: &str = r#"
#include <assert.h>
#include <pthread.h>
static long balance = 100;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, left = PTHREAD_MUTEX_INITIALIZER, right = PTHREAD_MUTEX_INITIALIZER;
static long read_balance(void) { pthread_mutex_lock(&lock); long now = balance; pthread_mutex_unlock(&lock); return now; }
static void withdraw(long amount) { pthread_mutex_lock(&lock); balance -= amount; pthread_mutex_unlock(&lock); }
static void both(pthread_mutex_t *one, pthread_mutex_t *two) {
    pthread_mutex_lock(one); pthread_mutex_lock(two); pthread_mutex_unlock(two); pthread_mutex_unlock(one);
}
static void *first(void *arg) { if (read_balance() >= 60) withdraw(60); both(&left, &right); return 0; }
static void *second(void *arg) { if (read_balance() >= 60) withdraw(60); both(&right, &left); return 0; }
int main(void) {
    pthread_t a, b;
    pthread_create(&a, 0, first, 0);
    pthread_create(&b, 0, second, 0);
    pthread_join(a, 0);
    pthread_join(b, 0);
    assert(balance >= 0);
    return 0;
}
"#;

/// A page of a hunt, and its findings.
fn hunted(lab: &Lab) -> (PathBuf, Value) {
    fs::write(lab.path("bank.c"), BANK).expect("written");
    lab.sh(0, "\"$S\" cc -O1 -g -pthread bank.c -o bank");
    let done = lab.sh(66, "\"$S\" hunt --runs 6 --budget 20s --html page.html --json findings.json -- ./bank");
    assert!(done.stderr.contains("open page.html in a browser"), "{}", done.stderr);
    let findings = serde_json::from_str(&fs::read_to_string(lab.path("findings.json")).expect("findings"));
    (lab.path("page.html"), findings.expect("JSON"))
}

fn browser() -> Option<Browser> {
    let browser = Browser::start();
    if browser.is_none() {
        println!("no Chromium here: pages are not looked at (apt-get install chromium chromium-driver)");
    }
    browser
}

#[test]
fn a_page_has_the_story_of_each_finding_and_can_be_made_again() {
    let lab = Lab::new();
    let (page, findings) = hunted(&lab);
    let text = fs::read_to_string(&page).expect("a page");
    assert!(text.len() < 300_000, "{} bytes", text.len());
    for outside in ["src=\"http", "href=\"http", "url(http", "@import", "<link", "<iframe"] {
        assert!(!text.contains(outside), "{outside}: a page needs nothing but itself");
    }
    let all = findings["findings"].as_array().expect("findings");
    let errors = || all.iter().filter(|finding| finding["status"] == "confirmed" && finding["harm"] != "none-seen");
    assert!(errors().any(|finding| finding["harm"] == "assertion"), "{findings:#}");
    for finding in errors() {
        assert!(text.contains(&format!("id=\"f-{}\"", finding["id"].as_str().expect("an id"))), "{finding:#}");
        assert!(finding["gist"].is_string(), "{finding:#}");
    }
    let deadlock = errors().find(|finding| finding["kind"] == "deadlock").expect("two orders of two locks");
    assert!(deadlock["accesses"].as_array().is_some_and(|steps| steps.iter().any(|step| step["number"].is_u64())));
    assert!(text.contains("waits for left") || text.contains("waits for right"), "what a deadlock waits for");
    // Without a script the page still has the interleaving, the source and the commands.
    for part in ["class=\"sheet\"", "balance -= amount;", "selvedge replay ", "Holding", "What was not looked at"] {
        assert!(text.contains(part), "{part}");
    }
    lab.sh(66, "\"$S\" report findings.json");
    let again = fs::read_to_string(lab.path("findings.html")).expect("a page beside the findings");
    assert_eq!(again.matches("class=\"sheet\"").count(), text.matches("class=\"sheet\"").count());
    // A program that was built anew has other schedules: the page says why there is no interleaving.
    fs::write(lab.path("bank.c"), BANK.replace("60", "70")).expect("written");
    lab.sh(0, "\"$S\" cc -O1 -g -pthread bank.c -o bank");
    lab.sh(66, "\"$S\" report findings.json --html other.html");
    let other = fs::read_to_string(lab.path("other.html")).expect("a page");
    assert!(!other.contains("class=\"sheet\"") && other.contains("No interleaving: "));
}

#[test]
fn a_page_works_in_a_browser() {
    let Some(browser) = browser() else { return };
    let lab = Lab::new();
    let (page, _) = hunted(&lab);
    browser.screen(1200, 900, false);
    browser.prefers("light");
    browser.open_file(&page);
    browser.until("document.documentElement.classList.contains('script')");
    let count = |selector: &str| browser.eval(&format!("return document.querySelectorAll(`{selector}`).length"));
    let number = |script: &str| browser.eval(&format!("return {script}")).as_f64().expect(script);
    let total = number("document.querySelectorAll('.finding').length");
    assert!(total >= 2.0, "{total}");
    assert_eq!(count(".finding[open]"), 1, "the first one is open");
    // The timeline of the open finding: events, lock spans, arrows, and the finding's own events.
    for part in [".tl-event", ".tl-lock", ".tl-arrow", ".tl-mark"] {
        assert!(number(&format!("document.querySelectorAll('.finding[open] {part}').length")) > 0.0, "{part}");
    }
    let step = || number("+document.querySelector('.finding[open] .timeline svg').dataset.step");
    let before = step();
    browser.click(".finding[open] .timeline .in");
    let nearer = step();
    assert!(nearer > before, "{nearer} {before}");
    browser.click(".finding[open] .timeline .fit");
    assert!(step() < nearer);
    browser.hover(".finding[open] .timeline g[data-at='1'] .tl-hit");
    browser.until("/^#\\d+ T\\d/.test(document.querySelector('.finding[open] .told').textContent)");
    browser.eval("document.querySelector('.finding[open] .timeline .view').focus()");
    let told = || browser.eval("return document.querySelector('.finding[open] .told').textContent");
    let hovered = told();
    browser.press("\u{e014}");
    assert_ne!(told(), hovered, "the arrow keys step");
    // Filter and search.
    browser.eval("scrollTo(0, 0)");
    browser.type_into("#search", "nothing-has-this-name");
    browser.until("[...document.querySelectorAll('.finding')].every(item => item.hidden)");
    assert_eq!(browser.eval("return document.querySelector('#count').textContent"), format!("0 of {total}"));
    browser.eval("document.querySelector('#search').value = ''");
    browser.type_into("#search", "both");
    browser.until("[...document.querySelectorAll('.finding')].some(item => !item.hidden)");
    browser
        .eval("const box = document.querySelector('#search'); box.value = ''; box.dispatchEvent(new Event('input'))");
    browser.eval(
        "const kind = document.querySelector('#kind'); kind.value = 'deadlock'; kind.dispatchEvent(new Event('input'))",
    );
    let deadlocks = number("document.querySelectorAll('.finding[data-kind=deadlock]').length");
    assert_eq!(number("[...document.querySelectorAll('.finding')].filter(item => !item.hidden).length"), deadlocks);
    browser
        .eval("const kind = document.querySelector('#kind'); kind.value = ''; kind.dispatchEvent(new Event('input'))");
    // Keys.
    browser.eval(
        "document.activeElement.blur(); document.querySelectorAll('.finding').forEach(item => { item.open = false })",
    );
    browser.press("j");
    browser.press("j");
    assert_eq!(
        browser.eval("return [...document.querySelectorAll('.finding')].indexOf(document.querySelector('.current'))"),
        1
    );
    browser.press("\u{e007}");
    browser.until("document.querySelector('.current').open && document.querySelector('.current .stack')");
    browser.press("k");
    assert_eq!(
        browser.eval("return [...document.querySelectorAll('.finding')].indexOf(document.querySelector('.current'))"),
        0
    );
    browser.press("/");
    assert_eq!(browser.eval("return document.activeElement.id"), "search");
    browser.press("\u{e00c}");
    browser.press("?");
    browser.until("document.querySelector('#help').open");
    browser.press("\u{e00c}");
    browser.until("!document.querySelector('#help').open");
    // Light and dark.
    let ground = || browser.eval("return getComputedStyle(document.body).backgroundColor");
    let light = ground();
    browser.click("#theme");
    browser.click("#theme");
    assert_eq!(browser.eval("return document.documentElement.dataset.theme"), "dark");
    let dark = ground();
    assert_ne!(light, dark);
    browser.click("#theme");
    assert_eq!(ground(), light, "as the system prefers");
    browser.prefers("dark");
    assert_eq!(ground(), dark, "as the system prefers");
    // A telephone: nothing but the boxes that are meant to scroll sideways.
    browser.screen(390, 844, true);
    browser.eval("document.querySelectorAll('.finding').forEach(item => { item.open = true })");
    browser.until("document.querySelectorAll('.tl-event').length > 0");
    assert_eq!(browser.eval("return [document.documentElement.scrollWidth, innerWidth]"), json!([390, 390]));
    let said = browser.console();
    assert!(said.is_empty(), "{said:#?}");
}

#[test]
fn a_hostile_name_is_only_a_name() {
    let Some(browser) = browser() else { return };
    let lab = Lab::new();
    let name = "</script></style><img src=x onerror=\"window.pwned=1\"><script>window.pwned=1</script>' \" & `x` ${y}";
    let access = |thread| {
        json!({"thread": thread, "op": name, "function": name, "file": lab.path(name.replace('/', "_")), "line": 1,
            "variable": name, "value": name, "holds": [{"lock": name, "taken": name}], "number": 3,
            "stack": [{"function": name, "file": name, "line": 1, "module": name}]})
    };
    let finding = json!({"id": name, "kind": "data-race", "status": "confirmed", "harm": "crash", "accesses": [access(1), access(2)],
        "clip": name, "replay": name, "proved": name, "pattern": name, "gist": name, "why": name});
    let report = json!({"version": 1, "program": {"path": name, "build_id": ""},
        "runs": {"total": 1, "pass": 1, "fail": 0, "hang": 0}, "findings": [finding]});
    fs::write(lab.path(name.replace('/', "_")), name).expect("a source file");
    fs::write(lab.path("hostile.json"), report.to_string()).expect("written");
    lab.sh(66, "\"$S\" report hostile.json");
    browser.open_file(&lab.path("hostile.html"));
    browser.until("document.documentElement.classList.contains('script')");
    assert_eq!(
        browser.eval("return [typeof window.pwned, document.images.length, document.scripts.length]"),
        json!(["undefined", 0, 1])
    );
    assert_eq!(browser.eval("return document.querySelector('.gist').textContent"), name.replace('`', ""));
    assert!(browser.console().is_empty());
}

/// What `selvedge view` answers to a request.
fn answer(port: &str, head: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).expect("it listens");
    write!(stream, "{head}\r\n\r\n").expect("asked");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    text
}

#[test]
fn pages_are_served_to_this_machine_only() {
    let lab = Lab::new();
    fs::write(lab.path("a.html"), "<p>the page").expect("written");
    fs::write(lab.path("key.txt"), "secret").expect("written");
    let served = |what: &Path, once: bool| {
        let mut view = Command::new(lab.selvedge());
        view.arg("view").arg(what).stdout(Stdio::piped());
        let mut view = if once { view.arg("--once") } else { &mut view }.spawn().expect("it starts");
        let mut url = String::new();
        BufReader::new(view.stdout.take().expect("piped")).read_line(&mut url).expect("its address");
        let port = url.trim().trim_end_matches('/').rsplit(':').next().expect("a port").to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{url}");
        (view, port)
    };
    let (mut view, port) = served(&lab.path("a.html"), true);
    let refused = answer(&port, "GET / HTTP/1.1\r\nHost: example.org");
    assert!(refused.starts_with("HTTP/1.1 403 ") && !refused.contains("the page"), "{refused}");
    let page = answer(&port, &format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}"));
    assert!(page.starts_with("HTTP/1.1 200 ") && page.ends_with("<p>the page"), "{page}");
    assert!(view.wait().expect("it ends").success(), "one page was fetched");
    let (mut view, port) = served(&lab.path(""), false);
    let get = |path: &str| answer(&port, &format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}"));
    assert!(get("/").contains("<a href=\"/a.html\">a.html</a>"));
    assert!(get("/a.html").ends_with("<p>the page"));
    for path in ["/key.txt", "/../key.txt", "/%2e%2e/key.txt", "//etc/passwd", "/a.html/../key.txt"] {
        let told = get(path);
        assert!(told.starts_with("HTTP/1.1 404 ") && !told.contains("secret"), "{path}: {told}");
    }
    view.kill().expect("it runs until it is ended");
    view.wait().expect("it ends");
    let missing = lab.tool(["view", "no-such-file.html"].map(PathBuf::from));
    assert_eq!(missing.ending, Ending::Exit(2), "{}", missing.stderr);
    assert!(missing.stderr.contains("no-such-file.html"), "{}", missing.stderr);
}
