//! Switches functions to their hooked bodies: a jump over the room at the begin of the plain one.
//!
//! A function is switched where a plan arms a site that can be reached through it, and stays so. As all patching this is done
//! before the code can run, so no thread is inside a plain body then. (One that a constructor of another image started is
//! the exception: it leaves a plain body the ordinary way, since nothing there leads back to the room.)

use selvedge_events::detect::image_key;
use selvedge_events::site_table::{Body, ROOM, Range, Table};

use crate::detect;
use crate::modules::{Module, Probe};
use crate::patch::Writable;

const JUMP: u8 = 0xe9;

/// Whether every site of a table is reached through hooked bodies only.
pub(crate) fn has_all(table: &Table<'_>) -> bool {
    table.ranges().map(|range| u64::from(range.sites)).sum::<u64>() == u64::from(table.len())
}

/// Switches the functions that lead to ranges with an armed site; how many were, and how many could not be.
pub(crate) fn switch(
    module: &Module<'_>,
    table: &Table<'_>,
    code: &mut Writable,
    is_armed: &dyn Fn(&Range) -> bool,
    probe: &mut Option<Probe>,
) -> (u64, u64) {
    let (mut switched, mut stuck) = (0, 0);
    for range in table.ranges().filter(is_armed) {
        for body in table.entrances(&range).filter_map(|number| table.body(number)) {
            let at = module.base + u64::from(body.room);
            if is_switched(module, &body) {
                continue;
            }
            if !code.inside(at, ROOM.len()) || begin(at) != ROOM {
                stuck += 1;
                continue;
            }
            let rel = (module.base + u64::from(body.hooked)).wrapping_sub(at + 5) as u32;
            let [a, b, c, d] = rel.to_le_bytes();
            if code.write(at, &[JUMP, a, b, c, d]) {
                switched += 1;
                let [a, b, c, d, e] = ROOM;
                probe.get_or_insert(Probe { at, original: u64::from_le_bytes([a, b, c, d, e, 0, 0, 0]) });
            }
        }
    }
    (switched, stuck)
}

/// Hot functions do not begin with hooks; after all sites were patched.
pub(crate) fn hold_back(module: &Module<'_>, table: &Table<'_>, code: &mut Writable) {
    if !detect::is_on() {
        return;
    }
    let image = image_key(module.build_id);
    for body in (0..).map_while(|number| table.body(number)).filter(|body| is_switched(module, body)) {
        let at = module.base + u64::from(body.room);
        if let Some(byte) = detect::bursts::begins_with(image, body.room, at, begin(at)) {
            code.write(at, &[byte]);
        }
    }
}

/// Which sites are reached, asked by ascending ordinal.
pub(crate) struct Reached<'a> {
    module: &'a Module<'a>,
    table: &'a Table<'a>,
    is_armed: &'a dyn Fn(&Range) -> bool,
    next: u32,
    /// The range asked about last, and whether it is reached.
    range: Option<(Range, bool)>,
}

impl<'a> Reached<'a> {
    /// After functions were switched.
    pub(crate) fn new(
        module: &'a Module<'a>,
        table: &'a Table<'a>,
        is_armed: &'a dyn Fn(&Range) -> bool,
    ) -> Reached<'a> {
        Reached { module, table, is_armed, next: 0, range: None }
    }

    /// Whether a site can be reached.
    pub(crate) fn has(&mut self, ordinal: u32) -> bool {
        while self.range.is_none_or(|(range, _)| range.first + range.sites <= ordinal) {
            let Some(range) = self.table.range(self.next) else { return true };
            self.next += 1;
            self.range = Some((range, self.is_reached(&range)));
        }
        self.range.is_none_or(|(range, reached)| reached || !range.has(ordinal))
    }

    fn is_reached(&self, range: &Range) -> bool {
        let mut bodies = self.table.entrances(range).filter_map(|number| self.table.body(number)).peekable();
        match bodies.peek() {
            Some(_) => bodies.any(|body| is_switched(self.module, &body)),
            // What runs before the program does, and what nothing calls.
            None => (self.is_armed)(range),
        }
    }
}

fn is_switched(module: &Module<'_>, body: &Body) -> bool {
    let at = module.base + u64::from(body.room);
    let inside = module.code.iter().any(|(start, end)| at >= *start && at + ROOM.len() as u64 <= *end);
    inside && begin(at)[0] == JUMP
}

/// The code at an address that is known to be inside a code segment.
fn begin(at: u64) -> [u8; 5] {
    // SAFETY: I8: callers have seen that these bytes belong to a mapped code segment.
    unsafe { (at as *const [u8; 5]).read_unaligned() }
}
