//! What is left of a recording when its process dies in any way: everything that was written before.
//!
//! The programs announce their progress in a control file that outlives them, so a test knows what must
//! have been recorded, thread by thread, at the instant of death.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use selvedge_itest::{Ending, Lab, Trace};

/// Threads of `numbered_writes.c`, and how many slots each goes round in. A prime: a lost stretch of any
/// likely length would show as a jump.
const WRITERS: usize = 3;
const SLOTS: u64 = 1009;
/// Words of its control file: pid, limit, ending, then one count for each writer.
const LIMIT: u64 = 1;
const ENDING: u64 = 2;
const DONE: u64 = 3;

/// Words of the control file of `lock_waiters.c`: pid, stay, waiting.
const STAY: u64 = 1;
const WAITING: u64 = 2;

/// How long to wait for a program to get somewhere.
const PATIENCE: Duration = Duration::from_secs(20);

/// The file through which a program and a test talk.
struct Control {
    path: PathBuf,
    file: File,
}

impl Control {
    fn new(lab: &Lab) -> Control {
        let path = lab.path("control");
        let file = File::options().create(true).truncate(false).read(true).write(true).open(&path).expect("created");
        let control = Control { path, file };
        control.clear();
        control
    }

    fn clear(&self) {
        self.file.write_all_at(&[0; 64], 0).expect("written");
    }

    fn set(&self, word: u64, value: u64) {
        self.file.write_all_at(&value.to_le_bytes(), 8 * word).expect("written");
    }

    fn get(&self, word: u64) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, 8 * word).expect("read");
        u64::from_le_bytes(bytes)
    }

    /// What each writer has announced.
    fn done(&self) -> [u64; WRITERS] {
        std::array::from_fn(|writer| self.get(DONE + writer as u64))
    }

    /// The guest, once it has said which process it is.
    fn guest(&self) -> Pid {
        wait_until("the guest starts", || self.get(0) != 0);
        Pid::from_raw(i32::try_from(self.get(0)).expect("a pid")).expect("not zero")
    }
}

/// Polls until something holds, for a bounded time.
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "waited in vain until {what}");
        thread::sleep(Duration::from_micros(200));
    }
}

/// A program with its control file, surveyed while it ends by itself.
struct Subject {
    lab: Lab,
    program: PathBuf,
    control: Control,
}

impl Subject {
    fn new(name: &str, limit: u64) -> Subject {
        let lab = Lab::new();
        let program = lab.wrapped(name);
        let control = Control::new(&lab);
        control.set(LIMIT, limit);
        let out = lab.path("store");
        let args: [&Path; 7] = [
            "record".as_ref(),
            "--survey-only".as_ref(),
            "--out".as_ref(),
            &out,
            "--".as_ref(),
            &program,
            &control.path,
        ];
        assert_eq!(lab.tool(args).ending, Ending::Exit(0));
        control.clear();
        Subject { lab, program, control }
    }

    /// Starts a recording under the kept survey.
    fn start(&self) -> Recorder {
        let out = self.lab.path("store");
        let child = Command::new(self.lab.selvedge())
            .args(["record", "--timeout", "30s", "--out"])
            .arg(out)
            .arg("--")
            .arg(&self.program)
            .arg(&self.control.path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(self.lab.path("record.stderr")).expect("created"))
            .spawn();
        Recorder(child.expect("started"))
    }

    /// The label of the latest run, as `selvedge runs` has it.
    fn label(&self) -> serde_json::Value {
        let out = self.lab.path("store");
        let args: [&Path; 4] = ["runs".as_ref(), "--json".as_ref(), "--out".as_ref(), &out];
        let runs = self.lab.tool(args).stdout;
        let last: serde_json::Value = serde_json::from_str(runs.lines().last().expect("a run")).expect("JSON");
        last["outcome"].clone()
    }
}

/// `selvedge record` at work; it does not outlive its test.
struct Recorder(Child);

impl Recorder {
    fn exit_code(mut self) -> Option<i32> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("ours") {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "the recorder did not end after its guest");
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Every announced write of every writer is in the trace, in order, without a gap; and no more than the one
/// that may have been recorded and not yet announced.
fn check_writes(trace: &Trace, done: [u64; WRITERS]) {
    for (writer, announced) in done.into_iter().enumerate() {
        let name = format!("writer-{writer}");
        let Some(thread) = trace.thread(&name) else {
            assert_eq!(announced, 0, "{name} wrote, and is not in the trace");
            continue;
        };
        let written = trace.events.iter().filter(|event| event.thread == thread && event.op == "write");
        let mut count = 0;
        for event in written {
            let expected = format!("slots[{writer}][{}]", count % SLOTS);
            assert_eq!(event.variable.as_deref(), Some(&*expected), "{name}: write {count}");
            count += 1;
        }
        let bounds = announced..=announced + 1;
        assert!(bounds.contains(&count), "{name}: {announced} writes were announced, {count} are in the trace");
    }
    assert_eq!(trace.header.damages, [""; 0]);
}

#[test]
fn a_killed_process_leaves_every_event() {
    let subject = Subject::new("clean/numbered_writes.c", 50);
    for total in [1, 700, 9_000, 60_000] {
        subject.control.clear();
        subject.control.set(LIMIT, u64::MAX);
        let recorder = subject.start();
        let guest = subject.control.guest();
        wait_until("enough is written", || subject.control.done().iter().sum::<u64>() >= total);
        kill_process(guest, Signal::KILL).expect("alive");
        assert_eq!(recorder.exit_code(), Some(128 + 9));

        let done = subject.control.done();
        assert!(done.iter().sum::<u64>() >= total);
        check_writes(&subject.lab.latest("store"), done);
        let label = subject.label();
        assert_eq!((&label["label"], &label["signal"]), (&"fail".into(), &9.into()), "{label}");
    }
}

#[test]
fn a_killed_process_in_its_first_moments_leaves_a_readable_trace() {
    let subject = Subject::new("clean/numbered_writes.c", 50);
    for _ in 0..5 {
        subject.control.clear();
        subject.control.set(LIMIT, u64::MAX);
        let recorder = subject.start();
        kill_process(subject.control.guest(), Signal::KILL).expect("alive");
        assert_eq!(recorder.exit_code(), Some(128 + 9));
        check_writes(&subject.lab.latest("store"), subject.control.done());
    }
}

#[test]
fn a_killed_recorder_leaves_the_guests_trace() {
    let subject = Subject::new("clean/numbered_writes.c", 50);
    subject.control.set(LIMIT, u64::MAX);
    let mut recorder = subject.start();
    let guest = subject.control.guest();
    wait_until("something is written", || subject.control.done().iter().all(|done| *done > 100));
    recorder.0.kill().expect("alive");
    recorder.0.wait().expect("ours");
    let before = subject.control.done();
    // Whether the guest goes on without its recorder is the system's business; what it wrote is not.
    if kill_process(guest, Signal::KILL).is_ok() {
        wait_until("the guest is gone", || {
            !Path::new(&format!("/proc/{}/maps", guest.as_raw_nonzero())).exists()
                || fs::read(format!("/proc/{}/maps", guest.as_raw_nonzero())).is_ok_and(|maps| maps.is_empty())
        });
    }
    let done = subject.control.done();
    assert!(before.iter().zip(done).all(|(before, after)| *before <= after));
    check_writes(&subject.lab.latest("store"), done);
    let out = subject.lab.path("store");
    let args: [&Path; 3] = ["runs".as_ref(), "--out".as_ref(), &out];
    let listed = subject.lab.tool(args);
    assert_eq!(listed.ending, Ending::Exit(0));
    assert!(listed.stderr.contains("have no record"), "{}", listed.stderr);
}

#[test]
fn every_way_to_die_leaves_every_event() {
    let subject = Subject::new("clean/numbered_writes.c", 50);
    for (ending, code, key, value) in [(1, 128 + 6, "signal", 6), (2, 7, "code", 7), (3, 128 + 11, "signal", 11)] {
        subject.control.clear();
        subject.control.set(LIMIT, 10_000);
        subject.control.set(ENDING, ending);
        assert_eq!(subject.start().exit_code(), Some(code));

        let done = subject.control.done();
        assert_eq!(done[0], 10_000);
        check_writes(&subject.lab.latest("store"), done);
        let label = subject.label();
        assert_eq!((&label["label"], &label[key]), (&"fail".into(), &value.into()), "{label}");
    }
}

#[test]
fn a_killed_process_shows_who_waited_for_what() {
    let subject = Subject::new("clean/lock_waiters.c", 0);
    subject.control.set(STAY, 1);
    let recorder = subject.start();
    let guest = subject.control.guest();
    wait_until("four threads are about to wait", || subject.control.get(WAITING) == 4);
    wait_until("every thread sleeps", || asleep(guest) == 5);
    kill_process(guest, Signal::KILL).expect("alive");
    assert_eq!(recorder.exit_code(), Some(128 + 9));

    let trace = subject.lab.latest("store");
    let source = fs::read_to_string(subject.lab.program("clean/lock_waiters.c").source).expect("readable");
    let expected = [
        ("wants-lock", "pthread_mutex_lock", "pthread_mutex_lock(&held);", "held"),
        ("wants-write", "pthread_rwlock_wrlock", "pthread_rwlock_wrlock(&readers);", "readers"),
        ("wants-signal", "pthread_cond_wait", "pthread_cond_wait(&signalled, &mutex);", "signalled"),
        ("wants-token", "sem_wait", "while (sem_wait(&tokens) != 0) {", "tokens"),
    ];
    let out = subject.lab.path("store");
    let args: [&Path; 4] = ["trace".as_ref(), "--summary".as_ref(), "--out".as_ref(), &out];
    let summary = subject.lab.tool(args).stdout;
    for (name, function, call, object) in expected {
        let thread = trace.thread(name).unwrap_or_else(|| panic!("{name} is not in the trace"));
        let line = 1 + source.lines().position(|line| line.trim() == call).expect("in the source");
        let blocked = trace.header.blocked.iter().find(|blocked| blocked.thread == thread);
        let blocked = blocked.unwrap_or_else(|| panic!("{name} waits, and the trace does not say so"));
        assert_eq!(blocked.function, function);
        assert!(blocked.place.contains(&format!("lock_waiters.c:{line}:")), "{}", blocked.place);
        let sentence = format!("T{thread} {name} was in {function}({object}) at ");
        assert!(summary.contains(&sentence), "no `{sentence}` in:\n{summary}");
    }
    assert!(summary.contains("T0 was in pthread_join(T1 wants-lock) at "), "{summary}");
    assert_eq!(trace.header.blocked.len(), 5);
}

/// How many threads of a process sleep.
fn asleep(guest: Pid) -> usize {
    let Ok(tasks) = fs::read_dir(format!("/proc/{}/task", guest.as_raw_nonzero())) else { return 0 };
    let stat = |task: fs::DirEntry| fs::read_to_string(task.path().join("stat")).unwrap_or_default();
    // The state stands behind the name, which is in brackets.
    let sleeps = |stat: &String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('S'));
    tasks.flatten().map(stat).filter(sleeps).count()
}

#[test]
fn times_of_a_killed_process_are_as_true_as_others() {
    let subject = Subject::new("clean/lock_waiters.c", 0);
    assert_eq!(subject.start().exit_code(), Some(0));
    let whole = subject.lab.latest("store").header.tick_ns;

    subject.control.clear();
    subject.control.set(STAY, 1);
    let recorder = subject.start();
    let guest = subject.control.guest();
    wait_until("four threads are about to wait", || subject.control.get(WAITING) == 4);
    wait_until("every thread sleeps", || asleep(guest) == 5);
    kill_process(guest, Signal::KILL).expect("alive");
    assert_eq!(recorder.exit_code(), Some(128 + 9));
    let cut = subject.lab.latest("store").header.tick_ns;
    assert!((cut / whole - 1.0).abs() < 0.2, "a tick is {whole} ns in a whole trace and {cut} ns in a cut one");
}
