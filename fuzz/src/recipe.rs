//! Trace files from few bytes.
//!
//! A real trace file is pages of zeros with a little in between, which mutation hardly ever hits. A
//! recipe is dense: steps that build a valid file with any contents, and patches that break it anywhere.
//! Bytes that begin with the file's magic are no recipe.

use selvedge_events::counters::COUNTERS;
use selvedge_events::hooks::HOOKS;
use selvedge_events::trace_file::MAGIC;
use selvedge_trace::write::TraceBuilder;

use crate::bytes::Bytes;

/// Most bytes of a file made by a recipe.
const MAX_FILE: usize = 1 << 19;

/// The steps of a recipe, as its bytes number them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Step {
    /// thread u8, sequence u8, words u8, then the words.
    Log,
    /// slots u8 (two at most), then each: thread u8, sequence u8, pending u32, object u64, address u64, words u8, words.
    Live,
    /// index u8, base u64, end u64, build-id length u8, path length u8, then both.
    Module,
    /// module u8, count u8, then each: id u32, offset u32, hook u8.
    Sites,
    /// first id u32, words u8, then the words.
    Survey,
    /// Two pairs of u64: counter and nanoseconds.
    Clocks,
    /// counter u8, value u64.
    Counter,
    /// kind u16, length u8, then the bytes.
    Foreign,
    /// pages u8.
    Hole,
    /// offset u32, length u8, then the bytes: written over the finished file.
    Patch,
}

const STEPS: [Step; 10] = [
    Step::Log,
    Step::Live,
    Step::Module,
    Step::Sites,
    Step::Survey,
    Step::Clocks,
    Step::Counter,
    Step::Foreign,
    Step::Hole,
    Step::Patch,
];

/// The file that a recipe makes; a file as it is.
pub fn file(input: &[u8]) -> Vec<u8> {
    if input.starts_with(&MAGIC) { input.to_vec() } else { cook(Bytes(input)) }
}

fn cook(mut input: Bytes<'_>) -> Vec<u8> {
    let mut builder = TraceBuilder::new();
    let mut patches = Vec::new();
    let mut room = MAX_FILE;
    while !input.is_empty() {
        let Some(step) = STEPS.get(usize::from(input.u8()) % STEPS.len()) else { break };
        let cost = match step {
            Step::Live => 80 * 1024,
            Step::Clocks | Step::Counter | Step::Patch => 16,
            _ => 8 * 1024,
        };
        match room.checked_sub(cost) {
            Some(rest) => room = rest,
            None => break,
        }
        match step {
            Step::Log => {
                let (thread, seq) = (u32::from(input.u8()), u32::from(input.u8()));
                let count = usize::from(input.u8());
                builder.log(thread, seq, &input.words(count));
            }
            Step::Live => live(&mut builder, &mut input),
            Step::Module => {
                let (index, base, end) = (u32::from(input.u8()), input.u64(), input.u64());
                let (id, path) = (usize::from(input.u8()), usize::from(input.u8()));
                let (id, path) = (input.take(id), input.take(path));
                builder.module(index, base, end, id, &String::from_utf8_lossy(path));
            }
            Step::Sites => {
                let (module, count) = (u32::from(input.u8()), usize::from(input.u8()).min(input.0.len()));
                let mut site = || {
                    let (id, offset, hook) = (input.u32(), input.u32(), usize::from(input.u8()));
                    (id, offset, HOOKS.get(hook).map_or("", |hook| hook.name))
                };
                let sites: Vec<(u32, u32, &str)> = (0..count).map(|_| site()).collect();
                builder.sites(module, &sites);
            }
            Step::Survey => {
                let (first, count) = (input.u32(), usize::from(input.u8()));
                builder.survey(first, &input.words(count));
            }
            Step::Clocks => {
                let (start, last) = ((input.u64(), input.u64()), (input.u64(), input.u64()));
                builder.clocks(start, last);
            }
            Step::Counter => {
                let (which, value) = (usize::from(input.u8()), input.u64());
                if let Some((counter, _, _)) = COUNTERS.get(which) {
                    builder.counter(*counter, value);
                }
            }
            Step::Foreign => {
                let (kind, len) = (input.u16(), usize::from(input.u8()));
                builder.foreign(kind, input.take(len));
            }
            Step::Hole => {
                builder.hole(usize::from(input.u8() & 1));
            }
            Step::Patch => {
                let (at, len) = (input.u32() as usize, usize::from(input.u8()));
                patches.push((at, input.take(len)));
            }
        }
    }
    let mut file = builder.finish();
    let len = file.len();
    for (at, bytes) in patches {
        for (to, from) in file.iter_mut().skip(at % len).zip(bytes) {
            *to = *from;
        }
    }
    file
}

fn live(builder: &mut TraceBuilder, input: &mut Bytes<'_>) {
    let mut slots = Vec::new();
    for _ in 0..input.u8() % 3 {
        let (thread, seq) = (u32::from(input.u8()), u32::from(input.u8()));
        let (call, object, pc) = (input.u32() & 0x7fff_ffff, input.u64(), input.u64());
        let count = usize::from(input.u8());
        let words = input.words(count);
        slots.push((thread, seq, words, (call != 0).then_some((call, object, pc))));
    }
    let slots: Vec<_> =
        slots.iter().map(|(thread, seq, words, call)| (*thread, *seq, words.as_slice(), *call)).collect();
    builder.live(&slots);
}
