//! Critical pairs in made traces: found by numbers, and by a switch and its log.

use std::path::PathBuf;

use selvedge_events::pack::{self, pc_payload};
use selvedge_events::{EventKind, SiteId, ThreadIx};
use selvedge_findings::{Harm, Kind};
use selvedge_report::Names;
use selvedge_report::critical::{CriticalPair, Deciding, switch_numbers, write_pair};
use selvedge_sched::moment::NO_SITE;
use selvedge_sched::schedule::flags;
use selvedge_sched::{LoggedPoint, OpKind, Step};
use selvedge_trace::write::{Stream, TraceBuilder};
use selvedge_trace::{Process, TraceFile};

const FLAG: u64 = 0x40_4010;
const OTHER: u64 = 0x40_4020;

const READ: u32 = 0;
const WRITE: u32 = 1;

/// Two threads; each of these accesses is the next event: thread, site, address.
fn process(accesses: &[(u32, u32, u64)]) -> Process {
    let at = |number: u64| number << pack::TICK_SHIFT;
    let mut streams = [Stream::default(), Stream::default()];
    streams[0].wide(EventKind::ThreadStart, at(1), pack::NO_PC, [u64::from(u32::MAX) << 32, 0, 0]).wide(
        EventKind::ThreadCreate,
        at(2),
        pc_payload(0, 0x111),
        [1, 0, 0],
    );
    streams[1].wide(EventKind::ThreadStart, at(3), pack::NO_PC, [1, 0, 0]);
    for (number, (thread, site, addr)) in (4..).zip(accesses) {
        streams[*thread as usize].access(*site, *addr, Some(at(number)));
    }
    let mut file = TraceBuilder::new();
    file.controlled()
        .module(0, 0x40_0000, 0x41_0000, &[0xab; 20], "/no/such/prog")
        .sites(0, &[(READ, 0x124, "__tsan_read4"), (WRITE, 0x128, "__tsan_write4")])
        .stream(0, &streams[0])
        .stream(1, &streams[1]);
    Process::new(TraceFile::from_bytes(file.finish()).expect("valid"), PathBuf::from("trace.100.0"))
}

fn sentence(process: &Process, deciding: &Deciding) -> String {
    CriticalPair::of(&Names::new(process), deciding).expect("a pair").sentence()
}

fn point(thread: u16, to: u16, point: u32, site: Option<u32>, kind: OpKind, default: bool) -> LoggedPoint {
    let flags = flags::READY | if default { flags::DEFAULT } else { 0 };
    let site = site.map_or(NO_SITE, SiteId);
    LoggedPoint { step: Step { thread, to, point, site, kind, flags }, enabled: 0b11 }
}

/// Main creates, reads and is stopped before it reads again; the other writes twice.
fn log() -> Vec<LoggedPoint> {
    vec![
        point(0, 0, 1, None, OpKind::Create, true),
        point(0, 0, 2, Some(READ), OpKind::Read, true),
        point(0, 1, 3, Some(READ), OpKind::Read, false),
        point(1, 1, 1, Some(WRITE), OpKind::Write, true),
        point(1, 0, 2, Some(WRITE), OpKind::Write, false),
    ]
}

#[test]
fn a_switch_is_found_in_the_trace() {
    let process = process(&[(0, READ, OTHER), (1, WRITE, OTHER), (0, READ, FLAG), (1, WRITE, FLAG)]);
    let switch = log()[2].step.switch();
    let deciding = Deciding::of_switch(&process, &log(), &switch).expect("it was taken");
    assert_eq!((deciding.delayed, deciding.event), (ThreadIx(0), Some(6)));
    assert!(deciding.ahead.contains(&5) && !deciding.ahead.contains(&6), "{deciding:?}");
    assert_eq!(switch_numbers(&process, &log()), [3, 6], "the other begins; main reads");
    let never = selvedge_sched::Switch { point: 9, ..switch };
    assert_eq!(Deciding::of_switch(&process, &log(), &never), None);
}

#[test]
fn a_conflict_without_a_first_access_is_a_matter_of_order() {
    let process = process(&[(0, READ, OTHER), (1, WRITE, OTHER), (1, WRITE, FLAG), (0, READ, FLAG)]);
    let deciding = Deciding { delayed: ThreadIx(0), event: Some(7), ahead: 5..7, operation: None };
    assert_eq!(
        sentence(&process, &deciding),
        "In the failing run T1's write of `prog+0x4010` at prog+0x128 comes before T0 (main)'s read at prog+0x124; in the \
         passing run T0 (main) goes first."
    );
    let pair = CriticalPair::of(&Names::new(&process), &deciding).expect("a pair");
    assert_eq!((pair.ahead.number, pair.conflicts), (Some(6), true), "not the write to something else");
    let finding = pair.finding(Harm::Crash);
    assert_eq!((finding.kind, finding.harm, finding.accesses.len()), (Kind::OrderViolation, Harm::Crash, 2));
}

#[test]
fn a_write_between_two_reads_breaks_them_apart() {
    let process = process(&[(0, READ, FLAG), (1, WRITE, OTHER), (1, WRITE, FLAG), (0, READ, FLAG)]);
    let deciding = Deciding { delayed: ThreadIx(0), event: Some(7), ahead: 5..7, operation: None };
    let pair = CriticalPair::of(&Names::new(&process), &deciding).expect("a pair");
    assert_eq!(pair.numbers(), [4, 6, 7]);
    assert!(pair.sentence().contains("comes between T0 (main)'s read (prog+0x124) and read (prog+0x124) of it"));
    assert_eq!(pair.finding(Harm::Oracle).kind, Kind::AtomicityViolation);
}

#[test]
fn what_never_came_is_said_so() {
    // Main was stopped before its second read, and the process died of what the other did.
    let process = process(&[(0, READ, FLAG), (1, WRITE, FLAG), (1, WRITE, OTHER)]);
    let operation = Some((OpKind::Read, Some(SiteId(READ))));
    let deciding = Deciding { delayed: ThreadIx(0), event: None, ahead: 5..7, operation };
    let pair = CriticalPair::of(&Names::new(&process), &deciding).expect("a pair");
    assert_eq!((pair.ahead.number, pair.delayed.number), (Some(5), None));
    assert!(pair.sentence().contains(" comes, and T0 (main)'s read at prog+0x124 never does; "), "{}", pair.sentence());
    let mut out = Vec::new();
    write_pair(&pair, &mut out).expect("memory");
    let text = String::from_utf8(out).expect("text");
    assert!(text.contains("(never done):\n    #0 ?? prog+0x124\n"), "{text}");
}

#[test]
fn without_a_conflict_the_first_that_went_ahead_is_shown() {
    let process = process(&[(1, WRITE, OTHER), (0, READ, FLAG)]);
    let deciding = Deciding { delayed: ThreadIx(0), event: Some(5), ahead: 4..5, operation: None };
    assert_eq!(
        sentence(&process, &deciding),
        "In the failing run T1's write of `prog+0x4020` at prog+0x128 comes before T0 (main)'s read of `prog+0x4010` at \
         prog+0x124; in the passing run T0 (main) goes first."
    );
    let nothing = Deciding { ahead: 5..5, ..deciding };
    assert!(CriticalPair::of(&Names::new(&process), &nothing).is_none());
}
