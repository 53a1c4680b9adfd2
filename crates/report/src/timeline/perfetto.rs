//! A timeline as Perfetto's TrackEvent packets.
//!
//! Each thread is a track, each lock span has a track below its thread's. Field numbers are those of Perfetto's
//! `trace_packet.proto`, `track_descriptor.proto` and `track_event.proto`.

use std::io::{self, Write};

use selvedge_trace::Run;

use super::proto::Message;
use super::{Item, items, program};
use crate::names::Names;
use crate::view::{Filter, printable};

/// All packets are of one sequence.
const SEQUENCE: u64 = 1;

mod packet {
    pub(super) const IN_TRACE: u64 = 1;
    pub(super) const TIMESTAMP: u64 = 8;
    pub(super) const SEQUENCE_ID: u64 = 10;
    pub(super) const TRACK_EVENT: u64 = 11;
    pub(super) const SEQUENCE_FLAGS: u64 = 13;
    pub(super) const TRACK_DESCRIPTOR: u64 = 60;
}

mod descriptor {
    pub(super) const UUID: u64 = 1;
    pub(super) const NAME: u64 = 2;
    pub(super) const PROCESS: u64 = 3;
    pub(super) const THREAD: u64 = 4;
    pub(super) const PARENT: u64 = 5;
    pub(super) const PID: u64 = 1;
    pub(super) const PROCESS_NAME: u64 = 6;
    pub(super) const TID: u64 = 2;
    pub(super) const THREAD_NAME: u64 = 5;
}

mod track_event {
    pub(super) const ANNOTATION: u64 = 4;
    pub(super) const TYPE: u64 = 9;
    pub(super) const TRACK: u64 = 11;
    pub(super) const CATEGORY: u64 = 22;
    pub(super) const NAME: u64 = 23;
    pub(super) const FLOW: u64 = 47;
    pub(super) const BEGIN: u64 = 1;
    pub(super) const END: u64 = 2;
    pub(super) const INSTANT: u64 = 3;
    pub(super) const ANNOTATION_NAME: u64 = 10;
    pub(super) const ANNOTATION_TEXT: u64 = 6;
}

/// Track ids: the process above, then its threads and lock spans.
#[derive(Clone, Copy)]
struct Tracks {
    pid: u32,
}

impl Tracks {
    fn process(self) -> u64 {
        (u64::from(self.pid) << 32) + 1
    }

    fn thread(self, thread: u32) -> u64 {
        (u64::from(self.pid) << 32) + 2 + u64::from(thread) * 2
    }

    fn span(self, span: u64) -> u64 {
        (u64::from(self.pid) << 32) + 3 + span * 2
    }

    fn arrow(self, arrow: u64) -> u64 {
        (u64::from(self.pid) << 32) + arrow
    }
}

/// Writes a run.
pub fn write_perfetto(run: &Run, filter: &Filter, out: &mut dyn Write) -> io::Result<()> {
    let mut clear = Message::default();
    clear.number(packet::SEQUENCE_FLAGS, 1);
    write(&mut clear, out)?;
    for process in &run.processes {
        let (names, pid) = (Names::new(process), process.file().header().pid);
        let tracks = Tracks { pid };
        let mut about = Message::default();
        about.number(descriptor::PID, pid.into()).text(descriptor::PROCESS_NAME, &program(process));
        let mut track = Message::default();
        track.number(descriptor::UUID, tracks.process()).message(descriptor::PROCESS, &about);
        write_track(&track, out)?;
        for thread in &process.summary().threads {
            let mut about = Message::default();
            // A viewer takes the thread whose number is the process's for the main one.
            let tid = u64::from(pid) + u64::from(thread.index.0);
            about
                .number(descriptor::PID, pid.into())
                .number(descriptor::TID, tid)
                .text(descriptor::THREAD_NAME, &printable(&names.thread(thread.index)));
            let mut track = Message::default();
            track
                .number(descriptor::UUID, tracks.thread(thread.index.0))
                .number(descriptor::PARENT, tracks.process())
                .message(descriptor::THREAD, &about);
            write_track(&track, out)?;
        }
        items(&names, filter, &mut |item| write_item(item, tracks, out))?;
    }
    Ok(())
}

fn write_item(item: Item, tracks: Tracks, out: &mut dyn Write) -> io::Result<()> {
    let mut event = Message::default();
    let at = match item {
        Item::Event { thread, at, name, args, from, to } => {
            event
                .number(track_event::TYPE, track_event::INSTANT)
                .number(track_event::TRACK, tracks.thread(thread))
                .text(track_event::CATEGORY, "event")
                .text(track_event::NAME, &name);
            for (name, value) in args {
                let mut annotation = Message::default();
                annotation.text(track_event::ANNOTATION_NAME, name).text(track_event::ANNOTATION_TEXT, &value);
                event.message(track_event::ANNOTATION, &annotation);
            }
            for arrow in from.into_iter().chain(to) {
                event.fixed(track_event::FLOW, tracks.arrow(arrow));
            }
            at
        }
        Item::Taken { span, thread, at, name } => {
            let mut track = Message::default();
            track
                .number(descriptor::UUID, tracks.span(span))
                .number(descriptor::PARENT, tracks.thread(thread))
                .text(descriptor::NAME, &name);
            write_track(&track, out)?;
            event
                .number(track_event::TYPE, track_event::BEGIN)
                .number(track_event::TRACK, tracks.span(span))
                .text(track_event::CATEGORY, "lock")
                .text(track_event::NAME, &name);
            at
        }
        Item::Given { span, at, .. } => {
            event.number(track_event::TYPE, track_event::END).number(track_event::TRACK, tracks.span(span));
            at
        }
    };
    let mut packet = Message::default();
    packet.number(packet::TIMESTAMP, at).message(packet::TRACK_EVENT, &event);
    write(&mut packet, out)
}

fn write_track(track: &Message, out: &mut dyn Write) -> io::Result<()> {
    let mut packet = Message::default();
    packet.message(packet::TRACK_DESCRIPTOR, track);
    write(&mut packet, out)
}

/// A packet of the trace. Packets follow each other without a frame around them.
fn write(packet: &mut Message, out: &mut dyn Write) -> io::Result<()> {
    packet.number(packet::SEQUENCE_ID, SEQUENCE);
    let mut trace = Message::default();
    trace.message(packet::IN_TRACE, packet);
    out.write_all(trace.bytes())
}
