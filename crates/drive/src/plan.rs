//! Writes plans: the bytes that the runtime maps (`events::plan` has the layout and the reader).

use std::path::Path;

use selvedge_events::plan::{self as layout, Intervene, Observe, Schedule};

/// Most bytes of trace that a process may leave, unless asked otherwise.
pub const DEFAULT_TRACE_LIMIT: u64 = 4 << 30;
/// Memory that the runtime may use for itself in MiB, unless asked otherwise.
pub const DEFAULT_MEMORY_LIMIT_MB: u32 = 1024;

/// A plan, before it is bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanSpec {
    /// What the run leaves behind.
    pub observe: Observe,
    /// Whether every site is armed and numbered by the runtime.
    pub arm_all: bool,
    /// Where traces go.
    pub out_dir: Vec<u8>,
    /// Memory that the runtime may use for itself, in MiB.
    pub memory_limit_mb: u32,
    /// Most bytes of trace per process.
    pub trace_limit: u64,
    /// The control file of a controlled schedule; `None` leaves threads to the system.
    pub control: Option<Control>,
    /// For a graph: events of a context, and bits of an address below a location's number.
    pub graph: (u8, u8),
    /// What is done about bugs, each with what it needs to know.
    pub interventions: Vec<(Intervene, Vec<u8>)>,
    /// What is said about images.
    pub images: Vec<ImageSpec>,
}

/// How a plan names its controlled schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// The control file.
    pub file: Vec<u8>,
    /// A fork server's descriptors for commands and answers.
    pub server: Option<(i32, i32)>,
}

/// What a plan says about one image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSpec {
    /// Which image; at most 32 bytes count.
    pub build_id: Vec<u8>,
    /// Armed sites as (ordinal in the site table, id), by ascending ordinal.
    pub sites: Vec<(u32, u32)>,
    /// The site table of an image that carries none; empty otherwise.
    pub table: Vec<u8>,
}

/// Why a plan cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WritePlanError {
    /// Offsets have 32 bits.
    #[error("the plan would exceed 4 GiB")]
    TooLarge,
    /// A table has room for so many.
    #[error("more sites would be guarded than the {} that a table has room for", selvedge_events::guard::MOST_SITES)]
    TooManySites,
}

impl PlanSpec {
    /// A plan with the default limits and nothing said about images.
    pub fn new(observe: Observe, out_dir: &Path) -> PlanSpec {
        use std::os::unix::ffi::OsStrExt;
        PlanSpec {
            observe,
            arm_all: observe == Observe::Survey,
            out_dir: out_dir.as_os_str().as_bytes().to_vec(),
            memory_limit_mb: DEFAULT_MEMORY_LIMIT_MB,
            trace_limit: DEFAULT_TRACE_LIMIT,
            control: None,
            graph: (5, 2),
            interventions: Vec::new(),
            images: Vec::new(),
        }
    }

    /// The plan's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WritePlanError> {
        let mut tail = Tail { base: layout::HEADER + self.images.len() * layout::IMAGE, bytes: Vec::new() };
        let out_dir = tail.add(&self.out_dir)?;
        let control = tail.add(self.control.as_ref().map_or(&[], |control| &control.file))?;
        let mut rows = Vec::new();
        for (kind, file) in &self.interventions {
            let (at, len) = tail.add(file)?;
            rows.extend([*kind as u32, at, len].iter().flat_map(|field| field.to_le_bytes()));
        }
        let interventions = tail.add(&rows)?.0;
        let count = u8::try_from(self.interventions.len()).map_err(|_| WritePlanError::TooLarge)?;
        let schedule = if self.control.is_some() { Schedule::Controlled } else { Schedule::Free };
        let server = self.control.as_ref().and_then(|control| control.server).unwrap_or((-1, -1));
        let mut rows = Vec::new();
        for image in &self.images {
            let id = image.build_id.get(..32).unwrap_or(&image.build_id);
            let sites: Vec<u8> = image
                .sites
                .iter()
                .flat_map(|(ordinal, id)| [ordinal.to_le_bytes(), id.to_le_bytes()].concat())
                .collect();
            let (sites_at, _) = tail.add(&sites)?;
            let (table_at, table_len) = tail.add(&image.table)?;
            let mut row = id.to_vec();
            row.resize(32, 0);
            for field in [len32(id.len())?, sites_at, len32(image.sites.len())?, table_at, table_len] {
                row.extend(field.to_le_bytes());
            }
            row.resize(layout::IMAGE, 0);
            rows.extend(row);
        }
        let mut bytes = Vec::new();
        bytes.extend(layout::MAGIC);
        bytes.extend(layout::VERSION.to_le_bytes());
        bytes.extend(len32(layout::HEADER)?.to_le_bytes());
        bytes.extend([0; 16]);
        bytes.extend([self.observe as u8, schedule as u8, count, if self.arm_all { layout::FLAG_ARM_ALL } else { 0 }]);
        let images_at = len32(layout::HEADER)?;
        for field in [len32(self.images.len())?, images_at, out_dir.0, out_dir.1, self.memory_limit_mb] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend(self.trace_limit.to_le_bytes());
        for field in [control.0, control.1] {
            bytes.extend(field.to_le_bytes());
        }
        for descriptor in [server.0, server.1] {
            bytes.extend(descriptor.to_le_bytes());
        }
        for field in [interventions, u32::from(count)] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend([self.graph.0, self.graph.1]);
        bytes.resize(layout::HEADER, 0);
        bytes.extend(rows);
        bytes.extend(tail.bytes);
        layout::seal(&mut bytes);
        Ok(bytes)
    }
}

/// What follows the fixed rows; every part begins at a multiple of eight.
struct Tail {
    base: usize,
    bytes: Vec<u8>,
}

impl Tail {
    /// Adds a part; answers its offset in the plan and its length.
    fn add(&mut self, part: &[u8]) -> Result<(u32, u32), WritePlanError> {
        let at = len32(self.base + self.bytes.len())?;
        self.bytes.extend(part);
        let padded = self.bytes.len().next_multiple_of(8);
        self.bytes.resize(padded, 0);
        Ok((at, len32(part.len())?))
    }
}

fn len32(len: usize) -> Result<u32, WritePlanError> {
    u32::try_from(len).map_err(|_| WritePlanError::TooLarge)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use selvedge_events::plan::Plan;

    use super::*;

    fn read_back(bytes: &[u8]) -> PlanSpec {
        let plan = Plan::parse(bytes).expect("valid");
        PlanSpec {
            observe: plan.observe,
            arm_all: plan.flags & layout::FLAG_ARM_ALL != 0,
            out_dir: plan.out_dir().to_vec(),
            memory_limit_mb: plan.memory_limit_mb,
            trace_limit: plan.trace_limit,
            control: (plan.schedule == Schedule::Controlled)
                .then(|| Control { file: plan.control_file().to_vec(), server: plan.server() }),
            graph: (plan.graph().0 as u8, plan.graph().1 as u8),
            interventions: plan.interventions().map(|(kind, file)| (kind, file.to_vec())).collect(),
            images: plan
                .images()
                .map(|image| ImageSpec {
                    build_id: image.build_id.to_vec(),
                    sites: image.sites().map(|(ordinal, id)| (ordinal, id.0)).collect(),
                    table: image.table.to_vec(),
                })
                .collect(),
        }
    }

    fn image() -> impl Strategy<Value = ImageSpec> {
        let bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
        let sites = proptest::collection::btree_map(any::<u32>(), any::<u32>(), 0..50);
        (bytes(33), sites, bytes(200)).prop_map(|(build_id, sites, table)| ImageSpec {
            build_id,
            sites: sites.into_iter().collect(),
            table,
        })
    }

    proptest! {
        #[test]
        fn plans_round_trip(
            observe in prop_oneof![Just(Observe::Nothing), Just(Observe::Survey), Just(Observe::Record), Just(Observe::Graph)],
            graph in (0_u8..=8, prop_oneof![Just(2_u8), Just(6)]),
            arm_all in any::<bool>(),
            out_dir in proptest::collection::vec(any::<u8>(), 0..100),
            memory_limit_mb in any::<u32>(),
            trace_limit in any::<u64>(),
            control in proptest::option::of((
                proptest::collection::vec(any::<u8>(), 0..100),
                proptest::option::of((1_i32.., 1_i32..)),
            )),
            interventions in proptest::collection::vec(
                (
                    prop_oneof![Just(Intervene::Guard), Just(Intervene::Heal), Just(Intervene::Enforce)],
                    proptest::collection::vec(any::<u8>(), 0..20),
                ),
                0..4,
            ),
            images in proptest::collection::vec(image(), 0..5),
        ) {
            let control = control.map(|(file, server)| Control { file, server });
            let spec =
                PlanSpec { observe, arm_all, out_dir, memory_limit_mb, trace_limit, control, graph, interventions, images };
            prop_assert_eq!(read_back(&spec.to_bytes().expect("small")), spec);
        }
    }

    #[test]
    fn a_survey_arms_everything_and_a_record_what_it_is_told() {
        assert!(PlanSpec::new(Observe::Survey, Path::new("/x")).arm_all);
        assert!(!PlanSpec::new(Observe::Record, Path::new("/x")).arm_all);
    }
}
