//! The plan: what the runtime is to do in a run. Mapped read-only by the runtime, so it is a flat
//! layout that needs no allocation to read.
//!
//! Three independent parts compose: *schedule*, *observe*, *intervene*. Schedules are free or controlled; there
//! are three observers; interventions are named with what each needs to know, its *payload*.
//!
//! ```text
//! 0   magic "SLVPLAN1"     8  version u32      12  header length u32 (128)
//! 16  total length u64     24 checksum u64 of everything from 32 on
//! 32  observe u8           33 schedule u8      34  intervene u8     35  flags u8
//! 36  images u32           40 images at u32    44  out dir at u32   48  out dir length u32
//! 52  memory limit MiB u32 56 trace limit bytes u64
//! 64  control file at u32  68 control file length u32
//! 72  server: descriptor for commands i32       76 for answers i32 (-1: none)
//! 80  interventions at u32 84 interventions u32 (their number is in intervene too)
//! 88  graph: events of a context u8  89 bits of an address below a location's number u8
//! image, 64 bytes: 0 build-id 32 bytes | 32 length u32 | 36 sites at u32 | 40 sites u32
//!                  44 site table at u32 | 48 site table length u32 (0: the image carries its own)
//! armed site, 8 bytes: ordinal u32 | id u32
//! intervention, 12 bytes: kind u32 | payload at u32 | payload length u32
//! ```

use crate::bytes::{array_at, checksum, slice_at, u32_at, u64_at};
use crate::id::SiteId;

/// In the id of an atomic operation's site: under control, there is a point after it too. What follows is code
/// without instrumentation.
pub const POINT_AFTER: u32 = 1 << 31;

/// First bytes.
pub const MAGIC: [u8; 8] = *b"SLVPLAN1";
/// Format version.
pub const VERSION: u32 = 2;
/// Bytes of the header.
pub const HEADER: usize = 128;
/// Bytes of an image row.
pub const IMAGE: usize = 64;
/// Bytes of an armed-site row.
pub const SITE: usize = 8;
/// The environment variable that names the plan.
pub const ENV: &str = "SELVEDGE_PLAN";

/// What a run leaves behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Observe {
    /// Nothing.
    Nothing = 0,
    /// Which sites touch memory that threads share.
    Survey = 1,
    /// The events of armed sites and all synchronisation.
    Record = 2,
    /// Who got data from whom at armed sites, and in which context.
    Graph = 3,
}

/// Who decides which thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Schedule {
    /// The system.
    Free = 0,
    /// The gate, as the control file says.
    Controlled = 1,
}

/// What the runtime does about a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum Intervene {
    /// Stalls a thread that is about to do what no correct run did.
    Guard = 1,
    /// Keeps others out of an atomic section that is under way.
    Heal = 2,
    /// Holds locks that make sections atomic.
    Enforce = 3,
    /// Makes threads wait with an access announced, and looks who comes.
    Noise = 4,
}

impl Intervene {
    /// From its number.
    pub const fn from_u32(kind: u32) -> Option<Intervene> {
        Some(match kind {
            1 => Intervene::Guard,
            2 => Intervene::Heal,
            3 => Intervene::Enforce,
            4 => Intervene::Noise,
            _ => return None,
        })
    }

    /// Its name on a command line.
    pub const fn name(self) -> &'static str {
        match self {
            Intervene::Guard => "guard",
            Intervene::Heal => "heal",
            Intervene::Enforce => "enforce",
            Intervene::Noise => "detect",
        }
    }
}

/// Bytes of an intervention's row.
pub const INTERVENTION: usize = 12;

/// Every site of every image is armed, and numbered by the runtime.
pub const FLAG_ARM_ALL: u8 = 1;

/// What is wrong with a plan, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanError {
    /// Shorter than it says.
    Truncated {
        /// Bytes needed.
        need: u64,
        /// Bytes there.
        have: u64,
    },
    /// Not a plan.
    Magic,
    /// Another version.
    Version(u32),
    /// The checksum does not fit.
    Checksum,
    /// A field makes no sense.
    Field {
        /// Its byte offset.
        at: u64,
    },
}

impl core::fmt::Display for PlanError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            PlanError::Truncated { need, have } => {
                write!(f, "truncated at offset {have}: {need} bytes needed")
            }
            PlanError::Magic => write!(f, "not a plan (offset 0)"),
            PlanError::Version(version) => {
                write!(f, "plan of version {version} (offset 8), this runtime reads {VERSION}: make the plan again")
            }
            PlanError::Checksum => write!(f, "checksum mismatch (offset 24): the plan is damaged"),
            PlanError::Field { at } => write!(f, "impossible value at offset {at}"),
        }
    }
}

impl core::error::Error for PlanError {}

/// A checked view of a plan's bytes.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    bytes: &'a [u8],
    /// What the run leaves behind.
    pub observe: Observe,
    /// Who decides which thread runs.
    pub schedule: Schedule,
    /// `FLAG_…`
    pub flags: u8,
    /// Memory that the runtime may use for itself, in MiB.
    pub memory_limit_mb: u32,
    /// Most bytes of trace.
    pub trace_limit: u64,
    images: u32,
    images_at: usize,
}

/// What a plan says about one image.
#[derive(Clone, Copy, Debug)]
pub struct ImagePlan<'a> {
    /// Which image.
    pub build_id: &'a [u8],
    sites: &'a [u8],
    /// A site table for an image that carries none; empty otherwise.
    pub table: &'a [u8],
}

impl<'a> ImagePlan<'a> {
    /// The armed sites as (ordinal in the site table, id), by ascending ordinal.
    pub fn sites(&self) -> impl ExactSizeIterator<Item = (u32, SiteId)> + use<'a> {
        self.sites.chunks_exact(SITE).map(|row| {
            let ordinal = u32_at(row, 0).unwrap_or(u32::MAX);
            (ordinal, SiteId(u32_at(row, 4).unwrap_or(u32::MAX)))
        })
    }

    /// Whether a site is armed among so many from an ordinal on.
    pub fn arms_any(&self, first: u32, count: u32) -> bool {
        let (mut low, mut high) = (0, self.sites.len() / SITE);
        let ordinal = |row: usize| u32_at(self.sites, row * SITE).unwrap_or(u32::MAX);
        while low < high {
            let middle = low.midpoint(high);
            if ordinal(middle) < first {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low < self.sites.len() / SITE && ordinal(low) - first < count
    }
}

impl<'a> Plan<'a> {
    /// Checks everything; after that, access cannot fail.
    pub fn parse(bytes: &'a [u8]) -> Result<Plan<'a>, PlanError> {
        let have = bytes.len() as u64;
        let short = PlanError::Truncated { need: HEADER as u64, have };
        let magic: [u8; 8] = array_at(bytes, 0).ok_or(short)?;
        if magic != MAGIC {
            return Err(PlanError::Magic);
        }
        let version = u32_at(bytes, 8).ok_or(short)?;
        if version != VERSION {
            return Err(PlanError::Version(version));
        }
        let need = u64_at(bytes, 16).ok_or(short)?;
        let len = usize::try_from(need).map_err(|_| PlanError::Field { at: 16 })?;
        let bytes = bytes.get(..len).ok_or(PlanError::Truncated { need, have })?;
        let fixed: [u8; HEADER] = array_at(bytes, 0).ok_or(short)?;
        if u64_at(bytes, 24) != bytes.get(32..).map(checksum) {
            return Err(PlanError::Checksum);
        }
        let field = |at: usize| u32_at(&fixed, at).unwrap_or(0);
        if field(12) as usize != HEADER {
            return Err(PlanError::Field { at: 12 });
        }
        let observe = match fixed[32] {
            0 => Observe::Nothing,
            1 => Observe::Survey,
            2 => Observe::Record,
            3 => Observe::Graph,
            _ => return Err(PlanError::Field { at: 32 }),
        };
        let schedule = match fixed[33] {
            0 => Schedule::Free,
            1 => Schedule::Controlled,
            _ => return Err(PlanError::Field { at: 33 }),
        };
        let plan = Plan {
            bytes,
            observe,
            schedule,
            flags: fixed[35],
            memory_limit_mb: field(52),
            trace_limit: u64_at(&fixed, 56).unwrap_or(0),
            images: field(36),
            images_at: field(40) as usize,
        };
        if slice_at(bytes, field(44) as usize, field(48) as usize).is_none() {
            return Err(PlanError::Field { at: 44 });
        }
        if slice_at(bytes, field(64) as usize, field(68) as usize).is_none() {
            return Err(PlanError::Field { at: 64 });
        }
        let count = field(84);
        if u32::from(fixed[34]) != count || (0..count).any(|number| plan.intervention(number).is_none()) {
            return Err(PlanError::Field { at: 80 });
        }
        let rows = (plan.images as usize).checked_mul(IMAGE).and_then(|len| slice_at(bytes, plan.images_at, len));
        if rows.is_none() {
            return Err(PlanError::Field { at: 36 });
        }
        for image in 0..plan.images {
            let at = plan.images_at as u64 + u64::from(image) * IMAGE as u64;
            let row = plan.image(image).ok_or(PlanError::Field { at })?;
            let mut last = None;
            for (ordinal, _) in row.sites() {
                if last.is_some_and(|last| last >= ordinal) {
                    return Err(PlanError::Field { at: at + 36 });
                }
                last = Some(ordinal);
            }
        }
        Ok(plan)
    }

    /// The directory that traces go to; empty for none.
    pub fn out_dir(&self) -> &'a [u8] {
        let at = u32_at(self.bytes, 44).unwrap_or(0) as usize;
        let len = u32_at(self.bytes, 48).unwrap_or(0) as usize;
        slice_at(self.bytes, at, len).unwrap_or(&[])
    }

    /// The control file of a controlled schedule; empty for none.
    pub fn control_file(&self) -> &'a [u8] {
        let at = u32_at(self.bytes, 64).unwrap_or(0) as usize;
        let len = u32_at(self.bytes, 68).unwrap_or(0) as usize;
        slice_at(self.bytes, at, len).unwrap_or(&[])
    }

    /// The fork server's descriptors: commands come on the first, answers go to the second.
    pub fn server(&self) -> Option<(i32, i32)> {
        let fd = |at| u32_at(self.bytes, at).map_or(-1, |fd| fd as i32);
        let (commands, answers) = (fd(72), fd(76));
        (commands > 0 && answers > 0).then_some((commands, answers))
    }

    /// What a graph is of: events of a context, and bits of an address below a location's number.
    pub fn graph(&self) -> (u32, u32) {
        let at = |at| self.bytes.get(at).copied().map_or(0, u32::from);
        (at(88).min(8), if at(89) == 6 { 6 } else { 2 })
    }

    /// What is done about bugs, each with its payload.
    pub fn interventions(&self) -> impl Iterator<Item = (Intervene, &'a [u8])> + '_ {
        let count = u32_at(self.bytes, 84).unwrap_or(0);
        (0..count).filter_map(|number| self.intervention(number))
    }

    fn intervention(&self, number: u32) -> Option<(Intervene, &'a [u8])> {
        let at = (u32_at(self.bytes, 80)? as usize).checked_add(number as usize * INTERVENTION)?;
        let row = slice_at(self.bytes, at, INTERVENTION)?;
        let field = |at| u32_at(row, at).map(|value| value as usize);
        Some((Intervene::from_u32(u32_at(row, 0)?)?, slice_at(self.bytes, field(4)?, field(8)?)?))
    }

    /// The images that the plan speaks of.
    pub fn images(&self) -> impl Iterator<Item = ImagePlan<'a>> + '_ {
        (0..self.images).filter_map(|image| self.image(image))
    }

    fn image(&self, image: u32) -> Option<ImagePlan<'a>> {
        let row = slice_at(self.bytes, self.images_at + image as usize * IMAGE, IMAGE)?;
        let field = |at| u32_at(row, at).map(|value| value as usize);
        Some(ImagePlan {
            build_id: slice_at(row, 0, field(32).filter(|len| *len <= 32)?)?,
            sites: slice_at(self.bytes, field(36)?, field(40)?.checked_mul(SITE)?)?,
            table: slice_at(self.bytes, field(44)?, field(48)?)?,
        })
    }
}

/// Fills in length and checksum of a plan whose other bytes are complete.
pub fn seal(plan: &mut [u8]) {
    let len = (plan.len() as u64).to_le_bytes();
    if let Some(field) = plan.get_mut(16..24) {
        field.copy_from_slice(&len);
    }
    if let Some(sum) = plan.get(32..).map(checksum)
        && let Some(field) = plan.get_mut(24..32)
    {
        field.copy_from_slice(&sum.to_le_bytes());
    }
}
