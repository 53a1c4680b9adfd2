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
    /// What is added to the addresses of sites 1, 2, … that have a colour; empty where none has.
    pub shifts: Vec<Option<i32>>,
    /// Critical sections of the executable: where the call that takes the lock returns to, the site that comes first, and
    /// how far from the lock its location is; by ascending offset.
    pub entries: Vec<(u32, u32, i64)>,
}

/// What belongs before one site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RowSpec {
    /// What does, by number, and whether with accesses of the thread's own in between; 0 is nil.
    pub members: BTreeSet<(u32, bool)>,
}

impl RowSpec {
    /// What belongs in either context.
    pub fn of(members: impl IntoIterator<Item = u32>) -> RowSpec {
        RowSpec { members: members.into_iter().flat_map(|site| [(site, false), (site, true)]).collect() }
    }
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
        let entries_at = (shifts_at + self.shifts.len() * 4).next_multiple_of(8);
        let bits_at = entries_at + self.entries.len() * layout::ENTRY;
        let mut bits = Vec::new();
        let mut rows = Vec::new();
        for row in &self.rows {
            let sites = || row.members.iter().filter(|(site, _)| *site != 0);
            let first = sites().next().map_or(0, |(site, _)| *site);
            let count = sites().next_back().map_or(0, |(last, _)| last - first + 1);
            let at = len32(bits_at + bits.len())?;
            let mut words = vec![0_u64; count.div_ceil(32) as usize];
            for bit in sites().map(|(member, own)| (member - first) * 2 + u32::from(*own)) {
                if let Some(word) = words.get_mut(bit as usize / 64) {
                    *word |= 1 << (bit % 64);
                }
            }
            bits.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            let nil = |own: bool, flag: u32| if row.members.contains(&(0, own)) { flag } else { 0 };
            let flags = nil(false, layout::ROW_NIL) | nil(true, layout::ROW_NIL_OWN);
            rows.extend([first, count, at, flags].iter().flat_map(|field| field.to_le_bytes()));
        }
        let mut bytes = layout::MAGIC.to_vec();
        let put =
            |bytes: &mut Vec<u8>, fields: &[u32]| bytes.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        put(&mut bytes, &[layout::VERSION, len32(layout::HEADER)?]);
        bytes.extend(self.stall_ns.to_le_bytes());
        let shifts = if self.shifts.is_empty() { 0 } else { len32(shifts_at)? };
        put(&mut bytes, &[self.flags, sites, len32(rows_at)?, len32(ids_at)?, len32(self.ids.len())?, shifts]);
        put(&mut bytes, &[len32(entries_at)?, len32(self.entries.len())?]);
        bytes.resize(rows_at, 0);
        bytes.extend(rows);
        put(&mut bytes, &self.ids);
        bytes.extend(self.shifts.iter().flat_map(|shift| shift.unwrap_or(layout::NO_SHIFT).to_le_bytes()));
        bytes.resize(entries_at, 0);
        for (returns, site, distance) in &self.entries {
            put(&mut bytes, &[*returns, *site]);
            bytes.extend(distance.to_le_bytes());
        }
        bytes.extend(bits);
        Ok(bytes)
    }

    /// What a table says, but for its ids.
    pub fn of(table: &Table<'_>) -> TableSpec {
        let sites = 1..=table.sites;
        let row = |site: u32| {
            let row = table.row(site);
            let all = std::iter::once(0).chain(row.first..row.first.saturating_add(row.count));
            let each = all.flat_map(|other| [(other, false), (other, true)]);
            RowSpec { members: each.filter(|(other, own)| row.has(*other, *own)).collect() }
        };
        let shifts: Vec<Option<i32>> = sites.clone().map(|site| table.shift(site)).collect();
        TableSpec {
            stall_ns: table.stall_ns,
            flags: table.flags,
            rows: sites.map(row).collect(),
            ids: Vec::new(),
            shifts: if shifts.iter().all(Option::is_none) { Vec::new() } else { shifts },
            entries: table.entries().collect(),
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
            let row = proptest::collection::btree_set((0..=sites, any::<bool>()), 0..8);
            let rows = proptest::collection::vec(row.prop_map(|members| RowSpec { members }), count);
            let ids = proptest::collection::vec(0..=sites, 0..300);
            let shifts =
                prop_oneof![Just(Vec::new()), proptest::collection::vec(proptest::option::of(-1000..1000), count)];
            let entries = proptest::collection::vec((any::<u32>(), 1..=sites, any::<i64>()), 0..9);
            (any::<u64>(), 0_u32..4, rows, ids, shifts, entries).prop_map(
                |(stall_ns, flags, rows, ids, shifts, entries)| TableSpec {
                    stall_ns,
                    flags,
                    rows,
                    ids,
                    shifts,
                    entries,
                },
            )
        })
    }

    proptest! {
        #[test]
        fn tables_round_trip(spec in table()) {
            let bytes = spec.to_bytes().expect("small");
            let table = Table::parse(&bytes).expect("sound");
            prop_assert_eq!((table.stall_ns, table.flags, table.sites as usize), (spec.stall_ns, spec.flags, spec.rows.len()));
            for (site, row) in (1..).zip(&spec.rows) {
                for other in 0..=table.sites + 1 {
                    for own in [false, true] {
                        prop_assert_eq!(table.row(site).has(other, own), row.members.contains(&(other, own)));
                    }
                }
                let shift = spec.shifts.get(site as usize - 1).copied().flatten();
                prop_assert_eq!(table.shift(site), shift);
            }
            for id in 0..spec.ids.len().max(spec.rows.len()) as u32 + 2 {
                let alone = if id as usize <= spec.rows.len() { id } else { 0 };
                let expected = if spec.ids.is_empty() { alone } else { spec.ids.get(id as usize).copied().unwrap_or(0) };
                prop_assert_eq!(table.site_of(id), expected);
            }
            let again = TableSpec::of(&table);
            prop_assert_eq!(again.rows, spec.rows);
            prop_assert_eq!(again.entries, spec.entries);
            prop_assert!(again.shifts == spec.shifts || spec.shifts.iter().all(Option::is_none));
        }
    }

    #[test]
    fn a_table_has_no_more_sites_than_a_key_has_room_for() {
        let rows = vec![RowSpec::default(); layout::MOST_SITES as usize + 1];
        assert_eq!(TableSpec { rows, ..TableSpec::default() }.to_bytes(), Err(WritePlanError::TooManySites));
    }
}
