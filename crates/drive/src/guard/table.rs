//! Writes the guard's table: the bytes that the runtime checks by (`events::guard` has the layout and the reader).

use std::collections::BTreeSet;

use selvedge_events::guard::{self as layout, Table};

use crate::plan::WritePlanError;

/// A table, before it is bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSpec {
    /// Most time that a thread stalls, in nanoseconds.
    pub stall_ns: u64,
    /// `FLAG_…`
    pub flags: u32,
    /// What belongs before sites 1, 2, …
    pub rows: Vec<RowSpec>,
    /// The site number of every armed id, 0 where it is not guarded; empty where armed ids are site numbers.
    pub ids: Vec<u32>,
    /// What is added to the addresses of sites 1, 2, …; empty for nothing.
    pub shifts: Vec<i32>,
}

/// What belongs before one site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSpec {
    /// Whether nil does.
    pub nil: bool,
    /// The sites that do, by number.
    pub members: BTreeSet<u32>,
}

impl TableSpec {
    /// The table's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WritePlanError> {
        let sites = len32(self.rows.len())?;
        if sites > layout::MOST_SITES {
            return Err(WritePlanError::TooManySites);
        }
        let rows_at = layout::HEADER;
        let ids_at = rows_at + self.rows.len() * layout::ROW;
        let shifts_at = ids_at + self.ids.len() * 4;
        let bits_at = (shifts_at + self.shifts.len() * 4).next_multiple_of(8);
        let mut bits = Vec::new();
        let mut rows = Vec::new();
        for row in &self.rows {
            let first = row.members.first().copied().unwrap_or(0);
            let count = row.members.last().map_or(0, |last| last - first + 1);
            let at = len32(bits_at + bits.len())?;
            let mut words = vec![0_u64; count.div_ceil(64) as usize];
            for bit in row.members.iter().map(|member| member - first) {
                if let Some(word) = words.get_mut(bit as usize / 64) {
                    *word |= 1 << (bit % 64);
                }
            }
            bits.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            let flags = if row.nil { layout::ROW_NIL } else { 0 };
            rows.extend([first, count, at, flags].iter().flat_map(|field| field.to_le_bytes()));
        }
        let mut bytes = layout::MAGIC.to_vec();
        let put =
            |bytes: &mut Vec<u8>, fields: &[u32]| bytes.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        put(&mut bytes, &[layout::VERSION, len32(layout::HEADER)?]);
        bytes.extend(self.stall_ns.to_le_bytes());
        let shifts = if self.shifts.is_empty() { 0 } else { len32(shifts_at)? };
        put(&mut bytes, &[self.flags, sites, len32(rows_at)?, len32(ids_at)?, len32(self.ids.len())?, shifts]);
        bytes.resize(rows_at, 0);
        bytes.extend(rows);
        put(&mut bytes, &self.ids);
        bytes.extend(self.shifts.iter().flat_map(|shift| shift.to_le_bytes()));
        bytes.resize(bits_at, 0);
        bytes.extend(bits);
        Ok(bytes)
    }

    /// What a table says, but for its ids.
    pub fn of(table: &Table<'_>) -> TableSpec {
        let sites = 1..=table.sites;
        let row = |site: u32| {
            let row = table.row(site);
            let all = row.first..row.first.saturating_add(row.count);
            RowSpec { nil: row.nil, members: all.filter(|other| row.has(*other)).collect() }
        };
        let shifts: Vec<i32> = sites.clone().map(|site| table.shift(site)).collect();
        TableSpec {
            stall_ns: table.stall_ns,
            flags: table.flags,
            rows: sites.map(row).collect(),
            ids: Vec::new(),
            shifts: if shifts.iter().all(|shift| *shift == 0) { Vec::new() } else { shifts },
        }
    }
}

fn len32(len: usize) -> Result<u32, WritePlanError> {
    u32::try_from(len).map_err(|_| WritePlanError::TooLarge)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Tables whose rows and ids name only sites that there are.
    fn table() -> impl Strategy<Value = TableSpec> {
        (1_u32..200).prop_flat_map(|sites| {
            let count = sites as usize;
            let row = (any::<bool>(), proptest::collection::btree_set(1..=sites, 0..8));
            let rows = proptest::collection::vec(row.prop_map(|(nil, members)| RowSpec { nil, members }), count);
            let ids = proptest::collection::vec(0..=sites, 0..300);
            let shifts = prop_oneof![Just(Vec::new()), proptest::collection::vec(any::<i32>(), count)];
            (any::<u64>(), 0_u32..4, rows, ids, shifts).prop_map(|(stall_ns, flags, rows, ids, shifts)| TableSpec {
                stall_ns,
                flags,
                rows,
                ids,
                shifts,
            })
        })
    }

    proptest! {
        #[test]
        fn tables_round_trip(spec in table()) {
            let bytes = spec.to_bytes().expect("small");
            let table = Table::parse(&bytes).expect("sound");
            prop_assert_eq!((table.stall_ns, table.flags, table.sites as usize), (spec.stall_ns, spec.flags, spec.rows.len()));
            for (site, row) in (1..).zip(&spec.rows) {
                prop_assert_eq!(table.row(site).has(0), row.nil);
                for other in 1..=table.sites + 1 {
                    prop_assert_eq!(table.row(site).has(other), row.members.contains(&other));
                }
                let shift = spec.shifts.get(site as usize - 1).copied().unwrap_or(0);
                prop_assert_eq!(table.shift(site), shift);
            }
            for id in 0..spec.ids.len().max(spec.rows.len()) as u32 + 2 {
                let alone = if id as usize <= spec.rows.len() { id } else { 0 };
                let expected = if spec.ids.is_empty() { alone } else { spec.ids.get(id as usize).copied().unwrap_or(0) };
                prop_assert_eq!(table.site_of(id), expected);
            }
            let again = TableSpec::of(&table);
            prop_assert_eq!(again.rows, spec.rows);
            prop_assert!(again.shifts == spec.shifts || spec.shifts.iter().all(|shift| *shift == 0));
        }
    }

    #[test]
    fn a_table_has_no_more_sites_than_a_key_has_room_for() {
        let rows = vec![RowSpec::default(); layout::MOST_SITES as usize + 1];
        assert_eq!(TableSpec { rows, ..TableSpec::default() }.to_bytes(), Err(WritePlanError::TooManySites));
    }
}
