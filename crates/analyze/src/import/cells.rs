//! Memory cut into variables, at every boundary that some access has.
//!
//! All is done in one pass. An *extent* is a run of bytes without a boundary so far. An access whose bounds are those of an
//! extent, which is nearly every one, finds it with one look; any other cuts extents in two. Events that are already noted
//! refer to *nodes*: the node of an extent that is cut becomes the parent of two, and at the end an event of a node is an
//! event of each leaf below it.
//!
//! Addresses are found by *granules* of eight bytes: for each, the first extent that has a byte there, which leads to the
//! others by `next`. The larger half of a cut keeps its number and only the granules of the smaller are rewritten, so
//! a block that is cleared at once and then filled word by word costs n log n. A page that lies in one extent has no granules.

use rustc_hash::FxHashMap;

const GRANULE_SHIFT: u32 = 3;
const GRANULE: u64 = 1 << GRANULE_SHIFT;
/// Granules of a page.
const PAGE: usize = 512;
const PAGE_SHIFT: u32 = 9;
const RECENT: usize = 256;

/// Most bytes of an access that are looked at.
pub(super) const MAX_RANGE: u64 = 1 << 26;
/// Most extents: what one access may add stays below [`WHOLE`].
const MAX_EXTENTS: usize = WHOLE as usize - (1 << 27);
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
/// Not memory: the state of a lock or semaphore.
pub(super) const STATE: u8 = 8;

/// A run of bytes without a boundary. 0 is none.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extent {
    pub(super) start: u64,
    pub(super) end: u64,
    /// The next extent that begins in the granule in which this one ends, or 0.
    next: u32,
    node: u32,
    /// The first thread that touched it, or [`NOBODY`].
    first: u16,
    pub(super) flags: u8,
}

const _: () = assert!(size_of::<Extent>() == 32);

/// What an event refers to. 0 is none.
#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// The first of two nodes in its place, or 0: then it is a leaf.
    kids: u32,
    /// Of a leaf.
    extent: u32,
}

/// All variables of a process, dead ones too.
#[derive(Debug)]
pub(super) struct Cells {
    /// Page number to number in `granules`, or extent and [`WHOLE`]. Its order means nothing.
    pages: FxHashMap<u64, u32>,
    /// Pages in `granules` looked up of late: page number plus one, number.
    recent: Box<[(u64, u32); RECENT]>,
    /// For each granule of each page the first extent that has a byte in it, or 0.
    granules: Vec<u32>,
    /// Pages in `granules` that are free again.
    spare: Vec<u32>,
    extents: Vec<Extent>,
    nodes: Vec<Node>,
}

/// Who touches memory, and how.
#[derive(Clone, Copy, Debug)]
pub(super) struct Touch {
    pub(super) thread: u16,
    /// Flags that the extent gets.
    pub(super) mark: u8,
}

impl Extent {
    fn touch(&mut self, touch: Touch) {
        self.flags |= touch.mark;
        if self.first != touch.thread {
            match (self.first, touch.thread) {
                (_, NOBODY) => {}
                (NOBODY, thread) => self.first = thread,
                _ => self.flags |= SHARED,
            }
        }
    }
}

impl Cells {
    pub(super) fn new() -> Cells {
        Cells {
            pages: FxHashMap::default(),
            recent: Box::new([(0, 0); RECENT]),
            granules: Vec::new(),
            spare: Vec::new(),
            extents: vec![Extent::default()],
            nodes: vec![Node::default()],
        }
    }

    /// Whether there is no room for more.
    pub(super) fn is_full(&self) -> bool {
        self.extents.len() >= MAX_EXTENTS || self.nodes.len() >= MAX_EXTENTS
    }

    /// The node of exactly these bytes, if they are an extent.
    #[inline]
    pub(super) fn exact(&mut self, addr: u64, end: u64, touch: Touch) -> Option<u32> {
        let id = self.entry(addr >> GRANULE_SHIFT);
        let mut extent = self.extents.get_mut(id as usize)?;
        // The second half of a granule, as often as not.
        if extent.start != addr && extent.end <= addr && extent.next != 0 {
            let next = extent.next as usize;
            extent = self.extents.get_mut(next)?;
        }
        if extent.start != addr || extent.end != end {
            return None;
        }
        extent.touch(touch);
        Some(extent.node)
    }

    /// The nodes of these bytes, after cutting at their ends.
    pub(super) fn cover(&mut self, addr: u64, end: u64, touch: Touch, nodes: &mut Vec<u32>) {
        self.cut(addr);
        self.cut(end);
        let mut at = addr;
        while at < end {
            let mut id = self.find(at);
            let begins = match id {
                0 => {
                    self.next_used((at >> GRANULE_SHIFT) + 1, end.div_ceil(GRANULE)).map_or(end, |id| self.of(id).start)
                }
                id => self.of(id).start,
            };
            if begins > at {
                id = self.make(at, begins.min(end));
            }
            let extent = &mut self.extents[id as usize];
            extent.touch(touch);
            nodes.push(extent.node);
            at = extent.end;
        }
    }

    /// The nodes that have a byte here.
    pub(super) fn there(&mut self, addr: u64, end: u64, touch: Touch, nodes: &mut Vec<u32>) {
        let mut at = addr;
        while at < end {
            let found = match self.find(at) {
                0 => self.next_used((at >> GRANULE_SHIFT) + 1, end.div_ceil(GRANULE)),
                id => Some(id),
            };
            let Some(extent) = found.and_then(|id| self.extents.get_mut(id as usize)).filter(|e| e.start < end) else {
                return;
            };
            extent.touch(touch);
            nodes.push(extent.node);
            at = extent.end;
        }
    }

    /// These bytes become new: what was there before is another variable.
    pub(super) fn renew(&mut self, addr: u64, end: u64) {
        if addr >= end {
            return;
        }
        self.cut(addr);
        self.cut(end);
        let (first, last) = (addr >> GRANULE_SHIFT, end >> GRANULE_SHIFT);
        let (cuts_first, cuts_last) = (!addr.is_multiple_of(GRANULE), !end.is_multiple_of(GRANULE));
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
        let (first, last) = (first + u64::from(cuts_first), last);
        if last.saturating_sub(first) >> PAGE_SHIFT <= self.pages.len() as u64 {
            self.fill(first, last, 0);
            return;
        }
        // A block that is larger than all that was ever touched.
        let pages = first >> PAGE_SHIFT..=last >> PAGE_SHIFT;
        let touched: Vec<u64> = self.pages.keys().copied().filter(|page| pages.contains(page)).collect();
        for page in touched {
            self.fill(first.max(page << PAGE_SHIFT), last.min((page + 1) << PAGE_SHIFT), 0);
        }
    }

    /// A variable that is not memory.
    pub(super) fn state(&mut self, addr: u64) -> u32 {
        let flags = SHARED | WRITTEN | STATE;
        self.push(Extent { start: addr, end: addr, first: NOBODY, flags, ..Extent::default() })
    }

    /// The leaf extent of a node, or the two nodes in its place.
    pub(super) fn look(&self, node: u32) -> Result<u32, [u32; 2]> {
        let Node { kids, extent } = self.nodes.get(node as usize).copied().unwrap_or_default();
        if kids == 0 { Ok(extent) } else { Err([kids, kids + 1]) }
    }

    pub(super) fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// Lets go of what is needed for looking up.
    pub(super) fn settle(&mut self) {
        self.pages = FxHashMap::default();
        self.granules = Vec::new();
    }

    fn of(&self, id: u32) -> &Extent {
        &self.extents[id as usize]
    }

    /// The extent that ends behind `at`, among those of its granule: it has that byte or is the next.
    fn find(&mut self, at: u64) -> u32 {
        let id = self.entry(at >> GRANULE_SHIFT);
        self.behind_by(id, |extent| extent.end > at)
    }

    /// The first from `id` on, all of one granule, that begins at `end` or behind.
    fn behind(&self, id: u32, end: u64) -> u32 {
        self.behind_by(id, |extent| extent.start >= end)
    }

    fn behind_by(&self, mut id: u32, holds: impl Fn(&Extent) -> bool) -> u32 {
        while id != 0 && !holds(self.of(id)) {
            id = self.of(id).next;
        }
        id
    }

    /// Makes `at` a boundary.
    fn cut(&mut self, at: u64) {
        let id = self.find(at);
        if id == 0 || self.of(id).start >= at {
            return;
        }
        let whole = *self.of(id);
        let kids = self.nodes.len() as u32;
        let other = self.extents.len() as u32;
        self.nodes[whole.node as usize] = Node { kids, extent: 0 };
        let inside = !at.is_multiple_of(GRANULE);
        let last = (whole.end - 1) >> GRANULE_SHIFT;
        if at - whole.start >= whole.end - at {
            let low = &mut self.extents[id as usize];
            (low.end, low.node, low.next) = (at, kids, if inside { other } else { 0 });
            self.extents.push(Extent { start: at, node: kids + 1, ..whole });
            self.nodes.extend([Node { kids: 0, extent: id }, Node { kids: 0, extent: other }]);
            self.fill((at >> GRANULE_SHIFT) + u64::from(inside), last + 1, other);
            return;
        }
        let high = &mut self.extents[id as usize];
        (high.start, high.node) = (at, kids + 1);
        let next = if inside { id } else { 0 };
        self.extents.push(Extent { end: at, node: kids, next, ..whole });
        self.nodes.extend([Node { kids: 0, extent: other }, Node { kids: 0, extent: id }]);
        let first = whole.start >> GRANULE_SHIFT;
        match self.entry(first) {
            begins if begins == id => self.set(first, other),
            mut before => {
                while self.of(before).next != id {
                    before = self.of(before).next;
                }
                self.extents[before as usize].next = other;
            }
        }
        self.fill(first + 1, ((at - 1) >> GRANULE_SHIFT) + 1, other);
    }

    /// A new extent where there is none.
    fn make(&mut self, start: u64, end: u64) -> u32 {
        let (first, last) = (start >> GRANULE_SHIFT, (end - 1) >> GRANULE_SHIFT);
        let (mut before, mut after) = (0, self.entry(first));
        while after != 0 && self.of(after).end <= start {
            (before, after) = (after, self.of(after).next);
        }
        if last != first {
            after = self.entry(last);
        }
        let id = self.extents.len() as u32;
        self.push(Extent { start, end, next: after, first: NOBODY, ..Extent::default() });
        match before {
            0 => self.set(first, id),
            before => self.extents[before as usize].next = id,
        }
        self.fill(first + 1, last + 1, id);
        id
    }

    /// Adds an extent with a node of its own; the node.
    fn push(&mut self, extent: Extent) -> u32 {
        let node = self.nodes.len() as u32;
        self.nodes.push(Node { kids: 0, extent: self.extents.len() as u32 });
        self.extents.push(Extent { node, ..extent });
        node
    }

    /// What is in a page.
    #[inline]
    fn page(&mut self, page: u64) -> Page {
        let slot = recent_slot(page);
        let (key, number) = self.recent[slot];
        if key == page + 1 {
            return Page::Granules(number as usize * PAGE);
        }
        match self.pages.get(&page) {
            None => Page::Empty,
            Some(number) if number & WHOLE != 0 => Page::Whole(number & !WHOLE),
            Some(number) => {
                self.recent[slot] = (page + 1, *number);
                Page::Granules(*number as usize * PAGE)
            }
        }
    }

    #[inline]
    fn entry(&mut self, granule: u64) -> u32 {
        match self.page(granule >> PAGE_SHIFT) {
            Page::Granules(at) => self.granules[at + granule as usize % PAGE],
            Page::Whole(id) => id,
            Page::Empty => 0,
        }
    }

    fn set(&mut self, granule: u64, id: u32) {
        self.fill(granule, granule + 1, id);
    }

    /// Sets the entries of granules `from..to`.
    fn fill(&mut self, mut from: u64, to: u64, id: u32) {
        while from < to {
            let page = from >> PAGE_SHIFT;
            let end = to.min((page + 1) << PAGE_SHIFT);
            let len = (end - from) as usize;
            if len == PAGE {
                self.fill_page(page, id);
            } else if let Some(at) = self.granules_of(page, id != 0) {
                let first = at + from as usize % PAGE;
                self.granules[first..first + len].fill(id);
            }
            from = end;
        }
    }

    fn fill_page(&mut self, page: u64, id: u32) {
        let before = match id {
            0 => self.pages.remove(&page),
            id => self.pages.insert(page, id | WHOLE),
        };
        if let Some(number) = before.filter(|number| number & WHOLE == 0) {
            self.spare.push(number);
            let recent = &mut self.recent[recent_slot(page)];
            if recent.0 == page + 1 {
                *recent = (0, 0);
            }
        }
    }

    /// Where the granules of a page are, made where there are none yet; an empty page stays so unless it is `wanted`.
    fn granules_of(&mut self, page: u64, wanted: bool) -> Option<usize> {
        let id = match self.page(page) {
            Page::Granules(at) => return Some(at),
            Page::Empty if !wanted => return None,
            Page::Empty => 0,
            Page::Whole(id) => id,
        };
        let number = self.spare.pop().unwrap_or((self.granules.len() / PAGE) as u32);
        let at = number as usize * PAGE;
        if at == self.granules.len() {
            self.granules.resize(at + PAGE, id);
        } else {
            self.granules[at..at + PAGE].fill(id);
        }
        self.pages.insert(page, number);
        Some(at)
    }

    /// The first entry of granules `from..to` that is not 0.
    fn next_used(&mut self, mut from: u64, to: u64) -> Option<u32> {
        while from < to {
            let page = from >> PAGE_SHIFT;
            let end = to.min((page + 1) << PAGE_SHIFT);
            match self.page(page) {
                Page::Empty => {}
                Page::Whole(id) => return Some(id),
                Page::Granules(at) => {
                    let first = at + from as usize % PAGE;
                    let found = self.granules[first..first + (end - from) as usize].iter().find(|id| **id != 0);
                    if let Some(id) = found {
                        return Some(*id);
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
    /// What the granules from here on say.
    Granules(usize),
}

fn recent_slot(page: u64) -> usize {
    (page ^ page >> 8) as usize % RECENT
}
