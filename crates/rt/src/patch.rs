//! Turns sites on and off: as ftrace does for functions, before the code can run.
//!
//! A disarmed site becomes a nop, or the few bytes that do the hook's whole job. An armed one calls a
//! *thunk* of its own: `mov <first free argument register>, site id; jmp <the mode's entry>`. So an entry
//! knows its site without a look-up, and there is no dispatch on the hot path.
//!
//! Nothing is written before the code there was compared with the site table byte for byte. Which functions run in a body that has
//! sites at all is decided in `bodies`.

use selvedge_events::HOOKS;
use selvedge_events::bytes::{slice_at, u16_at, u32_at, u64_at};
use selvedge_events::counters::Counter;
use selvedge_events::hooks::{Hook, HookClass};
use selvedge_events::plan::{POINT_AFTER, Plan};
use selvedge_events::site_table::{Entry, Form, Range, SECTION, Table};
use selvedge_events::trace_file::{CHUNK_HEADER, ChunkKind};

use crate::bodies::{self, Reached};
use crate::modules::{Module, Probe};
use crate::sink;
use crate::sys::{self, flags};
use crate::{detect, entry, gate, switch};

/// Bytes of a thunk.
const THUNK: usize = 16;
/// Bytes of the table of far entries at the start of a thunk area: one pointer per hook and width.
const FAR: usize = HOOKS.len() * 16;
const NOPS: [&[u8]; 7] = [
    &[],
    &[0x90],
    &[0x66, 0x90],
    &[0x0f, 0x1f, 0x00],
    &[0x0f, 0x1f, 0x40, 0x00],
    &[0x0f, 0x1f, 0x44, 0x00, 0x00],
    &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
];

/// A file mapped for reading.
struct Mapped {
    at: usize,
    len: usize,
}

impl Mapped {
    fn open(path: &[u8]) -> Option<Mapped> {
        let mut name = [0_u8; 1024];
        name.get_mut(..path.len()).filter(|room| room.len() < 1023)?.copy_from_slice(path);
        let fd = sys::open(name.get(..=path.len())?, flags::O_RDONLY | flags::O_CLOEXEC | flags::O_NONBLOCK, 0).ok()?;
        let mapped = sys::fstat(fd).ok().and_then(|(_, _, len)| {
            let len = usize::try_from(len).ok().filter(|len| *len > 0)?;
            // SAFETY: no address is asked for.
            let at = unsafe { sys::mmap(0, len, flags::PROT_READ, flags::MAP_PRIVATE, fd, 0) }.ok()?;
            Some(Mapped { at, len })
        });
        sys::close(fd);
        mapped
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len` bytes and lives as long as `self`.
        unsafe { core::slice::from_raw_parts(self.at as *const u8, self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: ours, and `bytes` cannot outlive us.
        unsafe { sys::munmap(self.at, self.len) };
    }
}

/// Maps a whole file for good: the plan.
pub fn map_for_good(path: &[u8]) -> Option<&'static [u8]> {
    let file = Mapped::open(path)?;
    let (at, len) = (file.at, file.len);
    core::mem::forget(file);
    // SAFETY: the mapping is never undone.
    Some(unsafe { core::slice::from_raw_parts(at as *const u8, len) })
}

/// The site-table section of an ELF file.
fn section(file: &[u8]) -> Option<&[u8]> {
    let (at, size, count, names) = (
        u64_at(file, 0x28)? as usize,
        u16_at(file, 0x3a)? as usize,
        u16_at(file, 0x3c)? as usize,
        u16_at(file, 0x3e)? as usize,
    );
    let header = |index: usize| slice_at(file, at.checked_add(index.checked_mul(size)?)?, size);
    let names = header(names)?;
    let names = slice_at(file, u64_at(names, 0x18)? as usize, u64_at(names, 0x20)? as usize)?;
    (0..count).rev().find_map(|index| {
        let header = header(index)?;
        let name = names.get(u32_at(header, 0)? as usize..)?;
        if name.get(..SECTION.len())? != SECTION.as_bytes() || name.get(SECTION.len()) != Some(&0) {
            return None;
        }
        slice_at(file, u64_at(header, 0x18)? as usize, u64_at(header, 0x20)? as usize)
    })
}

/// How many sites an image has.
pub fn site_count(path: &[u8]) -> u64 {
    let Some(file) = Mapped::open(path) else {
        return 0;
    };
    section(file.bytes()).and_then(|table| u32_at(table, 12)).map_or(0, u64::from)
}

/// Patches one image as the plan says; `next_id` numbers the sites where everything is armed. The answer is a
/// patched place, by which a fresh copy of the image is known later.
pub fn apply(module: &Module<'_>, plan: Option<&Plan<'static>>, next_id: &mut u32) -> Option<Probe> {
    let image_plan = plan.and_then(|plan| plan.images().find(|image| image.build_id == module.build_id));
    let file;
    let bytes = match image_plan {
        Some(image) if !image.table.is_empty() => image.table,
        _ => {
            file = Mapped::open(module.path);
            file.as_ref().and_then(|file| section(file.bytes()))?
        }
    };
    let Ok(table) = Table::parse(bytes) else {
        sink::count(Counter::ImagesWithoutTable, 1);
        return None;
    };
    if table.build_id() != module.build_id {
        sink::count(Counter::ImagesWithoutTable, 1);
        return None;
    }
    let arm_all = plan.is_some_and(|plan| plan.flags & selvedge_events::plan::FLAG_ARM_ALL != 0);
    let first_id = *next_id;
    let armed = match (arm_all, image_plan) {
        (true, _) => table.len() as usize,
        (false, Some(image)) => image.sites().len(),
        (false, None) => 0,
    };
    let mut area = Area::new(module, armed);
    if let Some(area) = &area {
        announce(module, &table, image_plan.map(|image| image.sites()), arm_all, first_id, area.room);
    }
    // Where every function runs in a body without hooks, nothing is written and no page is copied.
    if armed == 0 && bodies::has_all(&table) {
        return None;
    }
    let Some(mut code) = Writable::open(module) else {
        sink::count(Counter::PatchFailures, 1);
        return None;
    };
    let mut probe = None;
    let is_armed = |range: &Range| arm_all || image_plan.is_some_and(|image| image.arms_any(range.first, range.sites));
    let (switched, stuck) = bodies::switch(module, &table, &mut code, &is_armed, &mut probe);
    let mut reached = Reached::new(module, &table, &is_armed);
    let mut listed = image_plan.map(|image| image.sites()).into_iter().flatten().peekable();
    let (mut on, mut off, mut refused) = (0, 0, 0);
    for ordinal in 0..table.len() {
        let (Some(site), listed_id) = (table.get(ordinal), listed.next_if(|(at, _)| *at == ordinal)) else {
            continue;
        };
        let Some(hook) = site.hook.get() else {
            continue;
        };
        if !reached.has(ordinal) {
            continue;
        }
        let listed_id = listed_id.map(|(_, id)| id.0);
        let id = if arm_all { Some(first_id + ordinal) } else { listed_id.map(|id| id & !POINT_AFTER) };
        // Only atomic operations are performed by their hook, which can come to the gate again.
        let again = gate::control::is_open() && matches!(hook.class, HookClass::Atomic { .. });
        let mark = listed_id.filter(|_| again && !arm_all).unwrap_or(0) & POINT_AFTER;
        if !code.matches(module, &site) {
            refused += 1;
            continue;
        }
        let target = id.and_then(|id| Some((id, entry::target(hook, site.hook, id)?)));
        let thunk = target.and_then(|(id, target)| area.as_mut()?.thunk(hook, id | mark, target));
        let at = module.base + u64::from(site.offset);
        if thunk.is_some() || hook.disarmed.is_some() {
            probe.get_or_insert(Probe { at, original: u64_at(&site.code, 0).unwrap_or(0) & 0xff_ffff_ffff });
        }
        match thunk {
            Some(thunk) => {
                let call = call(&site, at, thunk as u64);
                let can_switch =
                    matches!(hook.class, HookClass::Access { .. } | HookClass::Range { .. } | HookClass::Block);
                let switched = target.map(|(id, _)| id).filter(|id| can_switch && !detect::sections::has_part(*id));
                let mut first = call;
                if let Some(byte) = switched.and_then(|id| detect::switch::begins_with(id, call.bytes[0])) {
                    first.bytes[0] = byte;
                }
                if code.write(at, &first) {
                    if let Some(id) = switched {
                        switch::placed(id, at, &call, switch::idle(call.bytes[0]));
                    }
                    on += 1;
                }
            }
            None => {
                if let Some(bytes) = disarmed(hook, site.form)
                    && code.write(at, bytes.get())
                {
                    off += 1;
                }
            }
        }
    }
    bodies::hold_back(module, &table, &mut code);
    if arm_all {
        *next_id = first_id + table.len();
    }
    if let Some(area) = area {
        area.finish();
    }
    drop(code);
    sink::count(Counter::SitesArmed, on);
    sink::count(Counter::SitesDisarmed, off);
    sink::count(Counter::SitesRefused, refused);
    sink::count(Counter::FunctionsHooked, switched);
    sink::count(Counter::FunctionsStuck, stuck);
    probe
}

/// The instruction at an armed site: same length, same kind of transfer, another target.
fn call(site: &Entry, at: u64, thunk: u64) -> Code {
    let opcode = if site.form.is_tail() { 0xe9 } else { 0xe8 };
    let mut code = Code { bytes: [0x90; 6], len: usize::from(site.form.len()) };
    let rel = (thunk.wrapping_sub(at + 5) as u32).to_le_bytes();
    code.bytes = [opcode, rel[0], rel[1], rel[2], rel[3], 0x90];
    code
}

/// The instructions at a disarmed site, or `None` where the call must stay.
fn disarmed(hook: &Hook, form: Form) -> Option<Code> {
    let job = hook.disarmed?;
    let len = usize::from(form.len());
    let mut code = Code { bytes: [0xcc; 6], len };
    code.bytes.get_mut(..job.len())?.copy_from_slice(job);
    let rest = code.bytes.get_mut(job.len()..len)?;
    if form.is_tail() {
        *rest.first_mut()? = 0xc3;
    } else {
        rest.copy_from_slice(NOPS.get(rest.len())?);
    }
    Some(code)
}

/// Up to six bytes of code.
#[derive(Clone, Copy, Debug)]
struct Code {
    bytes: [u8; 6],
    len: usize,
}

impl Code {
    fn get(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

impl core::ops::Deref for Code {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.get()
    }
}

/// The code of an image, open for writing. Pages are made writable while it lives; where the system
/// refuses that, writing goes through `/proc/self/mem`.
#[derive(Debug)]
pub struct Writable {
    code: [(u64, u64); 4],
    memory: Option<i32>,
}

const PROT_CODE: usize = flags::PROT_READ | flags::PROT_EXEC;

impl Writable {
    fn open(module: &Module<'_>) -> Option<Writable> {
        let mut open = Writable { code: module.code, memory: None };
        // SAFETY: adds a permission, takes none.
        if unsafe { open.protect(PROT_CODE | flags::PROT_WRITE) }.is_err() {
            // SAFETY: what was changed already goes back to what it was.
            let _ = unsafe { open.protect(PROT_CODE) };
            open.memory = Some(sys::open(b"/proc/self/mem\0", flags::O_RDWR | flags::O_CLOEXEC, 0).ok()?);
        }
        Some(open)
    }

    /// # Safety
    /// As [`sys::mprotect`].
    unsafe fn protect(&self, prot: usize) -> Result<(), sys::Errno> {
        for (start, end) in self.code.iter().filter(|(start, end)| start < end) {
            let from = *start as usize & !4095;
            // SAFETY: the caller's promise.
            unsafe { sys::mprotect(from, (*end as usize - from).next_multiple_of(4096), prot) }?;
        }
        Ok(())
    }

    /// Whether so many bytes of code are there.
    pub fn inside(&self, at: u64, len: usize) -> bool {
        self.code.iter().any(|(start, end)| at >= *start && at + len as u64 <= *end)
    }

    /// Whether the code is what the table says.
    fn matches(&self, module: &Module<'_>, site: &Entry) -> bool {
        let (at, len) = (module.base + u64::from(site.offset), usize::from(site.form.len()));
        if !self.inside(at, len) {
            return false;
        }
        // SAFETY: I8: `inside` says that these bytes belong to a mapped code segment.
        let there = unsafe { core::slice::from_raw_parts(at as *const u8, len) };
        site.code.get(..len) == Some(there)
    }

    /// Writes code, at a place that was looked at.
    pub fn write(&mut self, at: u64, bytes: &[u8]) -> bool {
        match self.memory {
            Some(fd) => {
                // SAFETY: the slice is ours; the kernel checks the address.
                unsafe { sys::pwrite_all(fd, bytes.as_ptr() as usize, bytes.len(), at) }.is_ok()
            }
            None => {
                // SAFETY: I8: the caller checked the place with `matches`, and the pages are writable. No
                // thread runs this code yet.
                unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
                true
            }
        }
    }
}

impl Drop for Writable {
    fn drop(&mut self) {
        match self.memory {
            Some(fd) => sys::close(fd),
            None => {
                // SAFETY: nobody but us relied on writing.
                let _ = unsafe { self.protect(PROT_CODE) };
            }
        }
    }
}

/// A thunk under construction.
struct Thunk {
    bytes: [u8; THUNK],
    len: usize,
}

impl Thunk {
    fn put(&mut self, bytes: &[u8]) {
        for byte in bytes {
            if let Some(room) = self.bytes.get_mut(self.len) {
                *room = *byte;
            }
            self.len += 1;
        }
    }
}

/// Pages within reach of an image's calls, for its thunks.
struct Area {
    at: usize,
    len: usize,
    /// Thunks that fit.
    room: usize,
    used: usize,
    /// Far entries stored so far.
    far: usize,
}

impl Area {
    fn new(module: &Module<'_>, thunks: usize) -> Option<Area> {
        if thunks == 0 {
            return None;
        }
        let len = (FAR + thunks * THUNK).next_multiple_of(4096);
        let reach = (1_u64 << 31) - (1 << 20);
        let prot = flags::PROT_READ | flags::PROT_WRITE;
        let how = flags::MAP_PRIVATE | flags::MAP_ANONYMOUS | flags::MAP_FIXED_NOREPLACE;
        let span = module.end - module.base;
        for step in 0..8192_u64 {
            let distance = step * 0x4_0000;
            let below = module.base.checked_sub(len as u64 + distance).map(|at| at & !4095);
            let above = Some(module.end.next_multiple_of(4096) + distance);
            for hint in [below, above].into_iter().flatten() {
                let far = hint.abs_diff(module.base).max(hint.abs_diff(module.end)) + len as u64 + span;
                if hint < 0x1_0000 || far > reach {
                    continue;
                }
                // SAFETY: NOREPLACE never touches a mapping of somebody else's.
                match unsafe { sys::mmap(hint as usize, len, prot, how, -1, 0) } {
                    Ok(at) if at == hint as usize => {
                        return Some(Area { at, len, room: thunks, used: 0, far: 0 });
                    }
                    // A kernel that does not know the flag took it for a hint.
                    // SAFETY: just mapped, ours.
                    Ok(at) => unsafe { sys::munmap(at, len) },
                    Err(_) => {}
                }
            }
        }
        None
    }

    /// Writes a thunk; returns its address.
    fn thunk(&mut self, hook: &Hook, id: u32, target: usize) -> Option<usize> {
        if self.used >= self.room {
            return None;
        }
        let at = self.at + FAR + self.used * THUNK;
        let mut code = Thunk { bytes: [0xcc; THUNK], len: 0 };
        // mov edi|esi|edx|ecx|r8d|r9d|r11d, id
        let mov: &[u8] = match hook.args {
            0 => &[0xbf],
            1 => &[0xbe],
            2 => &[0xba],
            3 => &[0xb9],
            4 => &[0x41, 0xb8],
            5 => &[0x41, 0xb9],
            _ => &[0x41, 0xbb],
        };
        code.put(mov);
        code.put(&id.to_le_bytes());
        match hook.class {
            // mov rdx, rsp | mov rsi, rsp: function hooks get the stack pointer in the next register.
            HookClass::Function { entry: true } => code.put(&[0x48, 0x89, 0xe2]),
            HookClass::Function { entry: false } => code.put(&[0x48, 0x89, 0xe6]),
            _ => {}
        }
        let from = at as i64 + code.len as i64 + 5;
        let near = i32::try_from(target as i64 - from);
        match near {
            Ok(rel) => {
                code.put(&[0xe9]);
                code.put(&rel.to_le_bytes());
            }
            Err(_) => {
                let slot = self.far_slot(target)?;
                let rel = i32::try_from(slot as i64 - (at as i64 + code.len as i64 + 6)).ok()?;
                code.put(&[0xff, 0x25]);
                code.put(&rel.to_le_bytes());
            }
        }
        // SAFETY: I8: inside our own area, which is still writable.
        unsafe { core::ptr::copy_nonoverlapping(code.bytes.as_ptr(), at as *mut u8, THUNK) };
        self.used += 1;
        Some(at)
    }

    /// Where the area keeps the address of an entry that is out of a jump's reach.
    fn far_slot(&mut self, target: usize) -> Option<usize> {
        for index in 0..FAR / 8 {
            let slot = (self.at + index * 8) as *mut usize;
            // SAFETY: I8: inside our own area.
            let there = unsafe { slot.read() };
            if index == self.far {
                self.far += 1;
                // SAFETY: as above.
                unsafe { slot.write(target) };
                return Some(slot as usize);
            }
            if there == target {
                return Some(slot as usize);
            }
        }
        None
    }

    /// Makes the thunks executable and no longer writable.
    fn finish(self) {
        // SAFETY: nobody writes to the area any more.
        let _ = unsafe { sys::mprotect(self.at, self.len, PROT_CODE) };
    }
}

/// Writes the armed sites into the trace.
fn announce(
    module: &Module<'_>,
    table: &Table<'_>,
    listed: Option<impl ExactSizeIterator<Item = (u32, selvedge_events::SiteId)>>,
    all: bool,
    first_id: u32,
    count: usize,
) {
    let written = sink::write_chunk(ChunkKind::Sites, module.index, count as u32, count * 16, |chunk| {
        let mut at = chunk + CHUNK_HEADER;
        let mut put = |ordinal: u32, id: u32| {
            if let Some(site) = table.get(ordinal) {
                let mut row = [0_u8; 16];
                row[..4].copy_from_slice(&id.to_le_bytes());
                row[4..8].copy_from_slice(&site.offset.to_le_bytes());
                row[8] = site.hook.0;
                // SAFETY: the chunk has room for `count` rows, and each is written once.
                unsafe { core::ptr::copy_nonoverlapping(row.as_ptr(), at as *mut u8, row.len()) };
                at += row.len();
            }
        };
        match listed {
            Some(listed) if !all => listed.take(count).for_each(|(ordinal, id)| put(ordinal, id.0 & !POINT_AFTER)),
            _ => (0..count as u32).for_each(|ordinal| put(ordinal, first_id + ordinal)),
        }
    });
    if let Err(why) = written {
        sink::count(why, 1);
    }
}
