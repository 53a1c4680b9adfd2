//! Memory cut into variables, at every boundary that some write has.
//!
//! Reads need no boundaries: every write is to the whole of a variable, so whoever reads a part of it reads what the last write
//! to all of it left, and conflicts with nobody else.
//!
//! All is done in one pass. A *cell* is a run of bytes without a boundary so far. An access whose bounds are those of a
//! cell, which is nearly every one, finds it with one look; a write of others cuts cells in two, a read is a *view*
//! of a part. Events that are already noted refer to *nodes*: the node of a cell that is cut becomes the parent of
//! two. At the end an event of a node is an event of each leaf below it, and one of a view of those that it has bytes of.
//!
//! Addresses are found by *slots* of four bytes, in pages. A cell that begins with a slot and is as long as an access of the
//! machine is in its slot and nowhere else. All others, and those that are to be cut, are *extents*: a slot has the
//! number of the first extent with a byte in it, which leads to the others by `next`. The larger half of a cut keeps its
//! number and only the slots of the smaller are rewritten, so a block that is cleared at once and then filled word by word
//! costs n log n. A page that lies in one extent has no slots.

use std::hint::black_box;

use rustc_hash::FxHashMap;

const SLOT_SHIFT: u32 = 2;
const SLOT: u64 = 1 << SLOT_SHIFT;
/// Slots of a page.
const PAGE: usize = 256;
const PAGE_SHIFT: u32 = 8;
const RECENT: usize = 1024;
const VIEWS: usize = 4096;

/// Most bytes of an access that are looked at.
pub(super) const MAX_RANGE: u64 = 1 << 26;
/// No address of a process is beyond.
pub(super) const LAST: u64 = 1 << 60;
/// Most extents and nodes: what one access may add stays below [`WHOLE`].
const MOST: usize = WHOLE as usize - (1 << 28);
/// A page of one extent: the rest of the number is the extent.
const WHOLE: u32 = 1 << 31;

/// No thread.
pub(super) const NOBODY: u16 = u16::MAX;

/// Touched by more than one thread.
pub(super) const SHARED: u8 = 1;
/// Written, or freed.
pub(super) const WRITTEN: u8 = 2;
/// Races are declared benign.
pub(super) const BENIGN: u8 = 4;
/// Not a cell, but a part of the node in `kids`.
pub(super) const VIEW: u8 = 8;
/// Cut in two; set when all is settled.
pub(super) const CUT: u8 = 16;

/// Who touches memory, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub(super) thread: u16,
    /// Flags that the cell gets.
    pub(super) mark: u8,
}

impl Touch {
    #[inline]
    fn apply(self, first: &mut u16, flags: &mut u8) {
        *flags |= self.mark;
        if *first != self.thread {
            match (*first, self.thread) {
                (_, NOBODY) => {}
                (NOBODY, thread) => *first = thread,
                _ => *flags |= SHARED,
            }
        }
    }
}

/// Four bytes of memory.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Of a cell that begins here: its node. Of [`COMPLEX`]: the first extent.
    target: u32,
    /// Of a cell that begins here: the first thread that touched it, or [`NOBODY`].
    first: u16,
    /// Of a cell that begins here.
    flags: u8,
    /// How many bytes the cell has that begins here, or one of the others.
    form: u8,
}

const _: () = assert!(size_of::<Slot>() == 8);

/// Nothing was touched.
const EMPTY: u8 = 0;
/// Belongs to a cell that begins in a slot before, of the same page.
const TAIL: u8 = 254;
/// Extents.
const COMPLEX: u8 = 255;
/// Most bytes of a cell that is in its slot.
const LONGEST: u64 = 16;

impl Slot {
    fn is_cell(self) -> bool {
        u64::from(self.form) <= LONGEST && self.form != EMPTY
    }
}

/// A run of bytes without a boundary. 0 is none.
#[derive(Clone, Copy, Debug, Default)]
struct Extent {
    start: u64,
    end: u64,
    /// The next extent that begins in the slot in which this one ends, or 0.
    next: u32,
    node: u32,
    first: u16,
    flags: u8,
}

/// What an event refers to. 0 is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Node {
    pub(super) start: u64,
    pub(super) len: u32,
    /// The first of two nodes in its place, or 0: then it is a leaf.
    pub(super) kids: u32,
    /// Of a leaf: the first thread that touched it. What touched a node above it, or a view, does not count. Known when
    /// [`Cells::settle`] was called, and so are the flags.
    pub(super) first: u16,
    pub(super) flags: u8,
}

impl Node {
    fn of(start: u64, end: u64) -> Node {
        Node { start, len: (end - start) as u32, kids: 0, first: NOBODY, flags: 0 }
    }

    /// One past its last byte.
    pub(super) fn end(&self) -> u64 {
        self.start + u64::from(self.len)
    }

    /// Somebody touches it.
    pub(super) fn touch(&mut self, touch: Touch) {
        touch.apply(&mut self.first, &mut self.flags);
    }
}

/// All variables of a process, dead ones too.
#[derive(Debug)]
pub(super) struct Cells {
    /// Page number to number in `slots`, or extent and [`WHOLE`]. Its order means nothing.
    pages: FxHashMap<u64, u32>,
    /// Pages in `slots` looked up of late: page number plus one, number.
    recent: Box<[(u64, u32); RECENT]>,
    slots: Vec<Slot>,
    /// Pages in `slots` that are free again.
    spare: Vec<u32>,
    extents: Vec<Extent>,
    nodes: Vec<Node>,
    /// Views made of late, each where its address says.
    views: Box<[u32; VIEWS]>,
}

impl Cells {
    pub(super) fn new() -> Cells {
        Cells {
            pages: FxHashMap::default(),
            recent: Box::new([(0, 0); RECENT]),
            slots: Vec::new(),
            spare: Vec::new(),
            extents: vec![Extent::default()],
            nodes: vec![Node::default()],
            views: Box::new([0; VIEWS]),
        }
    }

    /// Whether there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.extents.len() >= MOST || self.nodes.len() >= MOST
    }

    /// Has what is known of an address brought near. Looking for several at once costs as much as looking for one.
    #[inline]
    pub(super) fn warm(&mut self, addr: u64) {
        if let Page::Slots(at) = self.page(addr >> SLOT_SHIFT >> PAGE_SHIFT) {
            black_box(self.slots[at + (addr >> SLOT_SHIFT) as usize % PAGE].form);
        }
    }

    /// The node of exactly these bytes, if they are a cell.
    #[inline]
    pub(super) fn exact(&mut self, addr: u64, end: u64, touch: Touch) -> Option<u32> {
        let Page::Slots(at) = self.page(addr >> SLOT_SHIFT >> PAGE_SHIFT) else { return None };
        let slot = &mut self.slots[at + (addr >> SLOT_SHIFT) as usize % PAGE];
        if u64::from(slot.form) == end - addr && addr.is_multiple_of(SLOT) {
            touch.apply(&mut slot.first, &mut slot.flags);
            return Some(slot.target);
        }
        if slot.form != COMPLEX {
            return None;
        }
        let mut id = slot.target;
        while let extent = &mut self.extents[id as usize]
            && id != 0
        {
            if extent.start == addr && extent.end == end {
                touch.apply(&mut extent.first, &mut extent.flags);
                return Some(extent.node);
            }
            if extent.end > addr {
                return None;
            }
            id = extent.next;
        }
        None
    }

    /// The nodes of these bytes, and views of nodes that have others too.
    pub(super) fn read(&mut self, addr: u64, end: u64, thread: u16, nodes: &mut Vec<u32>) {
        let touch = Touch { thread, mark: 0 };
        let mut at = addr;
        while at < end {
            let (number, page) = (at >> SLOT_SHIFT, at >> SLOT_SHIFT >> PAGE_SHIFT);
            let found = match self.page(page) {
                Page::Slots(begin) => Some((begin, number as usize % PAGE)).filter(|(begin, slot)| {
                    let slot = self.slots[begin + slot];
                    slot.is_cell() || slot.form == TAIL
                }),
                _ => None,
            };
            let (node, start, stop) = if let Some((begin, mut slot)) = found {
                while self.slots[begin + slot].form == TAIL {
                    slot -= 1;
                }
                let cell = &mut self.slots[begin + slot];
                let start = (page << PAGE_SHIFT | slot as u64) << SLOT_SHIFT;
                let stop = start + u64::from(cell.form);
                if stop <= at {
                    // Behind a cell that does not fill its slot.
                    self.extend(start, stop);
                    continue;
                }
                if addr <= start && stop <= end {
                    touch.apply(&mut cell.first, &mut cell.flags);
                }
                (cell.target, start, stop)
            } else {
                let mut id = self.find(at);
                let begins = match id {
                    0 => self.next_used(number + 1, end.div_ceil(SLOT)).unwrap_or(end),
                    id => self.of(id).start,
                };
                if begins > at {
                    let stop = begins.min(end);
                    if let Some(node) = self.simple(at, stop, touch) {
                        nodes.push(node);
                        at = stop;
                        continue;
                    }
                    id = self.make(at, stop);
                }
                let extent = &mut self.extents[id as usize];
                if addr <= extent.start && extent.end <= end {
                    touch.apply(&mut extent.first, &mut extent.flags);
                }
                (extent.node, extent.start, extent.end)
            };
            let node =
                if addr <= start && stop <= end { node } else { self.view(node, addr.max(start), end.min(stop)) };
            nodes.push(node);
            at = stop;
        }
    }

    /// A view of a part of a node. Looking for all that there ever were would cost more than making some again.
    fn view(&mut self, node: u32, start: u64, end: u64) -> u32 {
        let view = Node { kids: node, flags: VIEW, ..Node::of(start, end) };
        let recent = &mut self.views[(start ^ start >> 12) as usize % VIEWS];
        let Node { start, len, kids, .. } = self.nodes[*recent as usize];
        if (start, len, kids) != (view.start, view.len, view.kids) {
            *recent = self.nodes.len() as u32;
            self.nodes.push(view);
        }
        *recent
    }

    /// The nodes of these bytes, after cutting at their ends.
    pub(super) fn cover(&mut self, addr: u64, end: u64, touch: Touch, nodes: &mut Vec<u32>) {
        if let Some(node) = self.simple(addr, end, touch) {
            nodes.push(node);
            return;
        }
        self.extend(addr, end);
        self.cut(addr);
        self.cut(end);
        let mut at = addr;
        while at < end {
            let mut id = self.find(at);
            let begins = match id {
                0 => self.next_extent((at >> SLOT_SHIFT) + 1, end.div_ceil(SLOT)).map_or(end, |id| self.of(id).start),
                id => self.of(id).start,
            };
            if begins > at {
                id = self.make(at, begins.min(end));
            }
            let extent = &mut self.extents[id as usize];
            touch.apply(&mut extent.first, &mut extent.flags);
            nodes.push(extent.node);
            at = extent.end;
        }
    }

    /// The nodes of cells that begin here.
    pub(super) fn there(&mut self, addr: u64, end: u64, touch: Touch, nodes: &mut Vec<u32>) {
        let mut at = addr;
        while at < end {
            let number = at >> SLOT_SHIFT;
            let next_slot = (number + 1) << SLOT_SHIFT;
            at = match self.page(number >> PAGE_SHIFT) {
                Page::Empty => ((number >> PAGE_SHIFT) + 1) << PAGE_SHIFT << SLOT_SHIFT,
                Page::Slots(page) if self.slots[page + number as usize % PAGE].form != COMPLEX => {
                    let slot = &mut self.slots[page + number as usize % PAGE];
                    if slot.is_cell() {
                        touch.apply(&mut slot.first, &mut slot.flags);
                        nodes.push(slot.target);
                    }
                    next_slot
                }
                _ => match self.find(at) {
                    0 => next_slot,
                    id => {
                        let extent = &mut self.extents[id as usize];
                        if extent.start < end {
                            touch.apply(&mut extent.first, &mut extent.flags);
                            nodes.push(extent.node);
                        }
                        extent.end
                    }
                },
            };
        }
    }

    /// These bytes become new: what was there before is another variable.
    pub(super) fn renew(&mut self, addr: u64, end: u64) {
        if addr >= end {
            return;
        }
        for at in [addr, end] {
            if self.slot(at >> SLOT_SHIFT).form == TAIL || !at.is_multiple_of(SLOT) {
                self.extend(at, at + 1);
            }
            self.cut(at);
        }
        let (first, last) = (addr >> SLOT_SHIFT, end >> SLOT_SHIFT);
        let (cuts_first, cuts_last) = (!addr.is_multiple_of(SLOT), !end.is_multiple_of(SLOT));
        if cuts_first {
            let (mut before, mut id) = (0, self.entry(first));
            while id != 0 && self.of(id).start < addr {
                (before, id) = (id, self.of(id).next);
            }
            let after = if last == first { self.behind(id, end) } else { 0 };
            match before {
                0 => self.set(first, after),
                before => self.extents[before as usize].next = after,
            }
        }
        if cuts_last && (last != first || !cuts_first) {
            let begins = self.entry(last);
            let after = self.behind(begins, end);
            self.set(last, after);
        }
        let first = first + u64::from(cuts_first);
        if last.saturating_sub(first) >> PAGE_SHIFT <= self.pages.len() as u64 {
            self.clear(first, last);
            return;
        }
        // A block that is larger than all that was ever touched.
        let pages = first >> PAGE_SHIFT..=last >> PAGE_SHIFT;
        let touched: Vec<u64> = self.pages.keys().copied().filter(|page| pages.contains(page)).collect();
        for page in touched {
            self.clear(first.max(page << PAGE_SHIFT), last.min((page + 1) << PAGE_SHIFT));
        }
    }

    /// A variable that is not memory.
    pub(super) fn state(&mut self, addr: u64) -> u32 {
        self.nodes.push(Node { flags: SHARED | WRITTEN, ..Node::of(addr, addr) });
        self.nodes.len() as u32 - 1
    }

    /// All nodes, as they are at the end.
    pub(super) fn settle(self) -> Vec<Node> {
        let Cells { slots, extents, mut nodes, .. } = self;
        for slot in slots.iter().filter(|slot| slot.is_cell()) {
            let node = &mut nodes[slot.target as usize];
            (node.first, node.flags) = (slot.first, slot.flags);
        }
        for extent in extents.iter().skip(1) {
            let node = &mut nodes[extent.node as usize];
            (node.first, node.flags) = (extent.first, extent.flags);
        }
        nodes
    }

    /// Finds or makes a cell that is in its slot.
    fn simple(&mut self, addr: u64, end: u64, touch: Touch) -> Option<u32> {
        let size = end - addr;
        let number = addr >> SLOT_SHIFT;
        let slots = size.div_ceil(SLOT) as usize;
        let begin = number as usize % PAGE;
        if !addr.is_multiple_of(SLOT) || size > LONGEST || begin + slots > PAGE {
            return None;
        }
        if matches!(self.page(number >> PAGE_SHIFT), Page::Whole(_)) {
            return None;
        }
        let at = self.slots_of(number >> PAGE_SHIFT, true)? + begin;
        let room = &mut self.slots[at..at + slots];
        if room.iter().any(|slot| slot.form != EMPTY) {
            return None;
        }
        let node = self.nodes.len() as u32;
        let mut cell = Slot { target: node, first: NOBODY, flags: 0, form: size as u8 };
        touch.apply(&mut cell.first, &mut cell.flags);
        room.fill(Slot { form: TAIL, ..Slot::default() });
        room[0] = cell;
        self.nodes.push(Node::of(addr, end));
        Some(node)
    }

    /// Cells in slots that have a byte here become extents.
    fn extend(&mut self, addr: u64, end: u64) {
        let (mut number, last) = (addr >> SLOT_SHIFT, (end - 1) >> SLOT_SHIFT);
        while number <= last {
            let page = number >> PAGE_SHIFT;
            let Page::Slots(at) = self.page(page) else {
                number = (page + 1) << PAGE_SHIFT;
                continue;
            };
            let mut begin = number as usize % PAGE;
            // A cell does not cross from one page into the next.
            while self.slots[at + begin].form == TAIL {
                begin -= 1;
            }
            let slot = self.slots[at + begin];
            if !slot.is_cell() {
                number += 1;
                continue;
            }
            let start = (page << PAGE_SHIFT | begin as u64) << SLOT_SHIFT;
            let end = start + u64::from(slot.form);
            let id = self.extents.len() as u32;
            let Slot { target: node, first, flags, .. } = slot;
            self.extents.push(Extent { start, end, next: 0, node, first, flags });
            let slots = usize::from(slot.form).div_ceil(SLOT as usize);
            self.slots[at + begin..at + begin + slots].fill(complex(id));
            number = (page << PAGE_SHIFT) + (begin + slots) as u64;
        }
    }

    fn of(&self, id: u32) -> &Extent {
        &self.extents[id as usize]
    }

    /// The extent that ends behind `at`, among those of its slot: it has that byte or is the next.
    fn find(&mut self, at: u64) -> u32 {
        let id = self.entry(at >> SLOT_SHIFT);
        self.behind_by(id, |extent| extent.end > at)
    }

    /// The first from `id` on, all of one slot, that begins at `end` or behind.
    fn behind(&self, id: u32, end: u64) -> u32 {
        self.behind_by(id, |extent| extent.start >= end)
    }

    fn behind_by(&self, mut id: u32, holds: impl Fn(&Extent) -> bool) -> u32 {
        while id != 0 && !holds(self.of(id)) {
            id = self.of(id).next;
        }
        id
    }

    /// Makes `at` a boundary of extents.
    fn cut(&mut self, at: u64) {
        let id = self.find(at);
        if id == 0 || self.of(id).start >= at {
            return;
        }
        let whole = *self.of(id);
        let kids = self.nodes.len() as u32;
        let other = self.extents.len() as u32;
        self.nodes[whole.node as usize].kids = kids;
        self.nodes.extend([Node::of(whole.start, at), Node::of(at, whole.end)]);
        // What touched the whole is an event of its node.
        let whole = Extent { first: NOBODY, flags: whole.flags & BENIGN, ..whole };
        let inside = !at.is_multiple_of(SLOT);
        let last = (whole.end - 1) >> SLOT_SHIFT;
        if at - whole.start >= whole.end - at {
            let next = if inside { other } else { 0 };
            self.extents[id as usize] = Extent { end: at, node: kids, next, ..whole };
            self.extents.push(Extent { start: at, node: kids + 1, ..whole });
            self.fill((at >> SLOT_SHIFT) + u64::from(inside), last + 1, other);
            return;
        }
        self.extents[id as usize] = Extent { start: at, node: kids + 1, ..whole };
        let next = if inside { id } else { 0 };
        self.extents.push(Extent { end: at, node: kids, next, ..whole });
        let first = whole.start >> SLOT_SHIFT;
        match self.entry(first) {
            begins if begins == id => self.set(first, other),
            mut before => {
                while self.of(before).next != id {
                    before = self.of(before).next;
                }
                self.extents[before as usize].next = other;
            }
        }
        self.fill(first + 1, ((at - 1) >> SLOT_SHIFT) + 1, other);
    }

    /// A new extent where there is nothing.
    fn make(&mut self, start: u64, end: u64) -> u32 {
        let (first, last) = (start >> SLOT_SHIFT, (end - 1) >> SLOT_SHIFT);
        let (mut before, mut after) = (0, self.entry(first));
        while after != 0 && self.of(after).end <= start {
            (before, after) = (after, self.of(after).next);
        }
        if last != first {
            after = self.entry(last);
        }
        let (id, node) = (self.extents.len() as u32, self.nodes.len() as u32);
        self.nodes.push(Node::of(start, end));
        self.extents.push(Extent { start, end, next: after, node, first: NOBODY, flags: 0 });
        match before {
            0 => self.set(first, id),
            before => self.extents[before as usize].next = id,
        }
        self.fill(first + 1, last + 1, id);
        id
    }

    /// What is in a page.
    #[inline]
    fn page(&mut self, page: u64) -> Page {
        let slot = recent_slot(page);
        let (key, number) = self.recent[slot];
        if key == page + 1 {
            return Page::Slots(number as usize * PAGE);
        }
        match self.pages.get(&page) {
            None => Page::Empty,
            Some(number) if number & WHOLE != 0 => Page::Whole(number & !WHOLE),
            Some(number) => {
                self.recent[slot] = (page + 1, *number);
                Page::Slots(*number as usize * PAGE)
            }
        }
    }

    fn slot(&mut self, number: u64) -> Slot {
        match self.page(number >> PAGE_SHIFT) {
            Page::Slots(at) => self.slots[at + number as usize % PAGE],
            Page::Whole(id) => complex(id),
            Page::Empty => Slot::default(),
        }
    }

    /// The first extent with a byte in a slot, or 0.
    fn entry(&mut self, number: u64) -> u32 {
        let slot = self.slot(number);
        if slot.form == COMPLEX { slot.target } else { 0 }
    }

    fn set(&mut self, number: u64, id: u32) {
        self.fill(number, number + 1, id);
    }

    /// Sets slots `from..to`, which have no cells, to an extent or nothing.
    fn fill(&mut self, mut from: u64, to: u64, id: u32) {
        while from < to {
            let page = from >> PAGE_SHIFT;
            let end = to.min((page + 1) << PAGE_SHIFT);
            let len = (end - from) as usize;
            if len == PAGE {
                self.fill_page(page, id);
            } else if let Some(at) = self.slots_of(page, id != 0) {
                let first = at + from as usize % PAGE;
                self.slots[first..first + len].fill(complex(id));
            }
            from = end;
        }
    }

    /// Empties slots `from..to`.
    fn clear(&mut self, from: u64, to: u64) {
        let mut begin = from;
        while begin < to {
            let page = begin >> PAGE_SHIFT;
            let end = to.min((page + 1) << PAGE_SHIFT);
            if let Page::Slots(at) = self.page(page) {
                let first = at + begin as usize % PAGE;
                for slot in &mut self.slots[first..first + (end - begin) as usize] {
                    if slot.is_cell() {
                        let node = &mut self.nodes[slot.target as usize];
                        (node.first, node.flags) = (slot.first, slot.flags);
                    }
                    *slot = Slot::default();
                }
            }
            begin = end;
        }
        self.fill(from, to, 0);
    }

    fn fill_page(&mut self, page: u64, id: u32) {
        let before = match id {
            0 => self.pages.remove(&page),
            id => self.pages.insert(page, id | WHOLE),
        };
        if let Some(number) = before.filter(|number| number & WHOLE == 0) {
            self.slots[number as usize * PAGE..][..PAGE].fill(Slot::default());
            self.spare.push(number);
            let recent = &mut self.recent[recent_slot(page)];
            if recent.0 == page + 1 {
                *recent = (0, 0);
            }
        }
    }

    /// Where the slots of a page are, made where there are none yet; an empty page stays so unless it is `wanted`.
    fn slots_of(&mut self, page: u64, wanted: bool) -> Option<usize> {
        let slot = match self.page(page) {
            Page::Slots(at) => return Some(at),
            Page::Empty if !wanted => return None,
            Page::Empty => Slot::default(),
            Page::Whole(id) => complex(id),
        };
        let number = self.spare.pop().unwrap_or((self.slots.len() / PAGE) as u32);
        let at = number as usize * PAGE;
        if at == self.slots.len() {
            self.slots.resize(at + PAGE, slot);
        } else {
            self.slots[at..at + PAGE].fill(slot);
        }
        self.pages.insert(page, number);
        Some(at)
    }

    /// The first extent of slots `from..to`, which have no cells.
    fn next_extent(&mut self, from: u64, to: u64) -> Option<u32> {
        self.next_slot(from, to).map(|(slot, _)| slot.target)
    }

    /// Where the first cell or extent of slots `from..to` begins.
    fn next_used(&mut self, from: u64, to: u64) -> Option<u64> {
        let (slot, number) = self.next_slot(from, to)?;
        Some(if slot.form == COMPLEX { self.of(slot.target).start } else { number << SLOT_SHIFT })
    }

    /// The first of slots `from..to` that is not empty, and its number.
    fn next_slot(&mut self, mut from: u64, to: u64) -> Option<(Slot, u64)> {
        while from < to {
            let page = from >> PAGE_SHIFT;
            let end = to.min((page + 1) << PAGE_SHIFT);
            match self.page(page) {
                Page::Empty => {}
                Page::Whole(id) => return Some((complex(id), from)),
                Page::Slots(at) => {
                    let first = at + from as usize % PAGE;
                    let slots = &self.slots[first..first + (end - from) as usize];
                    if let Some(step) = slots.iter().position(|slot| slot.form != EMPTY) {
                        return Some((slots[step], from + step as u64));
                    }
                }
            }
            from = end;
        }
        None
    }
}

/// What is in a page.
#[derive(Clone, Copy, Debug)]
enum Page {
    /// Nothing.
    Empty,
    /// One extent, which may go on outside.
    Whole(u32),
    /// What the slots from here on say.
    Slots(usize),
}

/// A slot of an extent, or of nothing.
fn complex(id: u32) -> Slot {
    Slot { target: id, form: if id == 0 { EMPTY } else { COMPLEX }, ..Slot::default() }
}

fn recent_slot(page: u64) -> usize {
    (page ^ page >> 10) as usize % RECENT
}
