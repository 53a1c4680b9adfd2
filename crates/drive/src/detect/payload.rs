//! Writes what a plan says about noise (`events::detect` has the layout and the reader).

use selvedge_events::detect::{self as layout, Aim, Heuristic, NO_BUDGET, NoiseKind, Part};

use super::hot::HotBodies;
use crate::plan::WritePlanError;

/// Noise, before it is bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoiseSpec {
    /// Decides all that is left to chance.
    pub seed: u64,
    /// How long a thread waits, about, in nanoseconds.
    pub duration_ns: u64,
    /// Most millionths of the processor time that a thread uses.
    pub budget: Option<u32>,
    /// How close in time a near miss is, in nanoseconds.
    pub window_ns: u32,
    /// Waits in a thousand accesses.
    pub strength: u16,
    /// The same where noise is aimed.
    pub aimed: u16,
    /// How threads wait.
    pub kind: NoiseKind,
    /// Where.
    pub heuristic: Heuristic,
    /// `FLAG_…`
    pub flags: u16,
    /// How each armed id is watched.
    pub sites: Vec<Aim>,
    /// Suspected variables: offset from the base of the executable, and length.
    pub ranges: Vec<(u64, u64)>,
    /// What each armed id is to atomic sections; none where no section is checked.
    pub parts: Vec<Vec<Part>>,
    /// How many branches these have.
    pub branches: u32,
    /// Ids below this, unless noise is aimed at them, are switched off at first.
    pub begin_off: u32,
    /// When hot functions run with hooks.
    pub hot: HotBodies,
}

impl NoiseSpec {
    /// The payload's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WritePlanError> {
        let len32 = |len: usize| u32::try_from(len).map_err(|_| WritePlanError::TooLarge);
        let rows_at = layout::HEADER;
        let ranges_at = (rows_at + self.sites.len() * layout::ROW).next_multiple_of(8);
        let parts_at = ranges_at + self.ranges.len() * layout::RANGE;
        let rows = if self.branches == 0 { 0 } else { self.sites.len() };
        let roles_at = parts_at + rows * layout::PARTS_ROW;
        let roles = self.parts.iter().map(Vec::len).sum::<usize>();
        let bodies_at = roles_at + roles * layout::PART;
        let mut bytes = Vec::with_capacity(bodies_at + self.hot.rows.len() * layout::BODY);
        bytes.extend(layout::MAGIC);
        bytes.extend(layout::VERSION.to_le_bytes());
        bytes.extend(len32(layout::HEADER)?.to_le_bytes());
        bytes.extend(self.seed.to_le_bytes());
        bytes.extend(self.duration_ns.min(layout::MOST_DURATION_NS).to_le_bytes());
        bytes.extend(self.budget.unwrap_or(NO_BUDGET).to_le_bytes());
        bytes.extend(self.window_ns.to_le_bytes());
        bytes.extend(self.strength.min(layout::MOST_STRENGTH).to_le_bytes());
        bytes.extend(self.aimed.min(layout::MOST_STRENGTH).to_le_bytes());
        bytes.extend([self.kind as u8, self.heuristic as u8]);
        bytes.extend(self.flags.to_le_bytes());
        for field in [len32(self.sites.len())?, len32(rows_at)?, len32(self.ranges.len())?, len32(ranges_at)?] {
            bytes.extend(field.to_le_bytes());
        }
        for field in [len32(parts_at)?, len32(roles)?, len32(roles_at)?, self.branches, self.begin_off] {
            bytes.extend(field.to_le_bytes());
        }
        for field in [len32(self.hot.rows.len())?, len32(bodies_at)?, self.hot.whole_every] {
            bytes.extend(field.to_le_bytes());
        }
        for ns in [self.hot.on_ns.min(layout::MOST_DURATION_NS), self.hot.off_ns.min(layout::MOST_OFF_NS)] {
            bytes.extend(ns.to_le_bytes());
        }
        bytes.resize(rows_at, 0);
        for aim in &self.sites {
            bytes.extend((*aim as u32).to_le_bytes());
            bytes.extend(0_u32.to_le_bytes());
        }
        bytes.resize(ranges_at, 0);
        for (from, len) in &self.ranges {
            bytes.extend(from.to_le_bytes());
            bytes.extend(len.to_le_bytes());
        }
        let mut first = 0_u32;
        for id in 0..rows {
            let count = len32(self.parts.get(id).map_or(0, Vec::len))?;
            bytes.extend(first.to_le_bytes());
            bytes.extend(count.to_le_bytes());
            first += count;
        }
        for part in self.parts.iter().flatten() {
            for field in [part.kind as u32, part.section, part.branch, part.flags] {
                bytes.extend(field.to_le_bytes());
            }
        }
        for ((image, room), turn) in &self.hot.rows {
            bytes.extend(image.to_le_bytes());
            bytes.extend(room.to_le_bytes());
            bytes.extend((*turn as u32).to_le_bytes());
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use selvedge_events::detect::{Noise, Turn};

    use super::*;

    fn part() -> impl Strategy<Value = Part> {
        use selvedge_events::detect::PartKind;
        let kind =
            prop_oneof![Just(PartKind::Enter), Just(PartKind::End), Just(PartKind::Leave), Just(PartKind::Begin)];
        let part = |(kind, section, branch, flags)| Part { kind, section, branch, flags };
        (kind, any::<u32>(), 0..9_u32, any::<u32>()).prop_map(part)
    }

    proptest! {
        #[test]
        fn payloads_round_trip(
            seed in any::<u64>(), duration_ns in 0..=layout::MOST_DURATION_NS,
            budget in proptest::option::of(0..u32::MAX), window_ns in any::<u32>(),
            strength in 0..=1000_u16, aimed in 0..=1000_u16,
            kind in 0..4_u8, heuristic in 0..3_u8, flags in any::<u16>(),
            sites in proptest::collection::vec(prop_oneof![Just(Aim::Quiet), Just(Aim::Usual), Just(Aim::Aimed), Just(Aim::Rare)], 0..40),
            ranges in proptest::collection::vec((any::<u64>(), any::<u64>()), 0..9),
            parts in proptest::collection::vec(proptest::collection::vec(part(), 0..3), 0..40),
            begin_off in any::<u32>(),
            rows in proptest::collection::btree_map((0..3_u64, any::<u32>()), prop_oneof![Just(Turn::Never), Just(Turn::Bursts), Just(Turn::Seldom)], 0..20),
            whole_every in 1_u32.., on_ns in 0..=layout::MOST_DURATION_NS, off_ns in 0..=layout::MOST_OFF_NS,
        ) {
            let (kind, heuristic) = (NoiseKind::from_u8(kind).expect("one"), Heuristic::from_u8(heuristic).expect("one"));
            let spec = NoiseSpec {
                seed, duration_ns, budget, window_ns, strength, aimed, kind, heuristic, flags, ranges,
                parts: sites.iter().zip(parts.iter().chain(std::iter::repeat(&Vec::new()))).map(|(_, parts)| parts.clone()).collect(),
                branches: 9, sites, begin_off, hot: HotBodies { rows, on_ns, off_ns, whole_every },
            };
            let bytes = spec.to_bytes().expect("small");
            let noise = Noise::parse(&bytes).expect("sound");
            let back = NoiseSpec {
                seed: noise.seed, duration_ns: noise.duration_ns, budget: Some(noise.budget).filter(|b| *b != NO_BUDGET),
                window_ns: noise.window_ns, strength: noise.strength, aimed: noise.aimed, kind: noise.kind,
                heuristic: noise.heuristic, flags: noise.flags,
                sites: (0..noise.sites).map(|id| noise.site(id).0).collect(),
                ranges: (0..noise.ranges).filter_map(|number| noise.range(number)).collect(),
                parts: (0..noise.sites).map(|id| noise.parts(id).collect()).collect(),
                branches: noise.branches,
                begin_off: noise.begin_off,
                hot: HotBodies {
                    rows: (0..noise.bodies).filter_map(|row| noise.body(row)).map(|(image, room, turn)| ((image, room), turn)).collect(),
                    on_ns: noise.on_ns,
                    off_ns: noise.off_ns,
                    whole_every: noise.whole_every,
                },
            };
            for ((image, room), turn) in &back.hot.rows {
                prop_assert_eq!(noise.body_of(*image, *room).map(|(_, turn)| turn), Some(*turn));
            }
            prop_assert_eq!(back, spec);
        }
    }
}
