//! Writes the table of sections: the bytes that the runtime heals by (`events::heal` has the layout and the reader).

use selvedge_events::heal::{self as layout, How, Role};

use crate::plan::WritePlanError;

/// A table, before it is bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSpec {
    /// Most time that a thread waits, in nanoseconds.
    pub wait_ns: u64,
    /// The first armed id that is there for healing alone.
    pub own_from: u32,
    /// What sites 1, 2, … are to which sections.
    pub rows: Vec<Vec<Role>>,
    /// The site number of every armed id; empty where armed ids are site numbers.
    pub ids: Vec<u32>,
    /// How others are kept out of sections 0, 1, …, and flags.
    pub sections: Vec<(How, u8)>,
}

impl TableSpec {
    /// The table's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WritePlanError> {
        let sites = len32(self.rows.len())?;
        if sites > layout::MOST_SITES {
            return Err(WritePlanError::TooManySites);
        }
        let roles: Vec<&Role> = self.rows.iter().flatten().collect();
        let ids_at = layout::HEADER + self.rows.len() * layout::ROW;
        let sections_at = ids_at + self.ids.len() * 4;
        let roles_at = sections_at + self.sections.len() * layout::SECTION;
        let mut bytes = layout::MAGIC.to_vec();
        let put = |bytes: &mut Vec<u8>, fields: &[u32]| bytes.extend(fields.iter().flat_map(|one| one.to_le_bytes()));
        put(&mut bytes, &[layout::VERSION, len32(layout::HEADER)?]);
        bytes.extend(self.wait_ns.to_le_bytes());
        put(&mut bytes, &[self.own_from, sites, len32(layout::HEADER)?, len32(ids_at)?, len32(self.ids.len())?]);
        put(&mut bytes, &[len32(sections_at)?, len32(self.sections.len())?, len32(roles_at)?, len32(roles.len())?]);
        bytes.resize(layout::HEADER, 0);
        let mut first = 0;
        for row in &self.rows {
            let count = len32(row.len())?;
            put(&mut bytes, &[first, count]);
            first += count;
        }
        put(&mut bytes, &self.ids);
        bytes.extend(self.sections.iter().flat_map(|(how, flags)| [*how as u8, *flags, 0, 0]));
        for role in roles {
            put(&mut bytes, &[role.section, role.kind as u32]);
        }
        Ok(bytes)
    }
}

fn len32(len: usize) -> Result<u32, WritePlanError> {
    u32::try_from(len).map_err(|_| WritePlanError::TooLarge)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use selvedge_events::heal::{RoleKind, Table};

    use super::*;

    proptest! {
        #[test]
        fn tables_round_trip(
            wait_ns in any::<u64>(),
            own_from in any::<u32>(),
            rows in proptest::collection::vec(proptest::collection::vec((0_u32..5, 1_u32..=4), 0..4), 1..20),
            ids in proptest::collection::vec(0_u32..=1, 0..30),
            hows in proptest::collection::vec((0_u8..4, any::<u8>()), 5),
        ) {
            let role = |(section, kind): (u32, u32)| Role { section, kind: RoleKind::from_u32(kind).expect("one") };
            let rows: Vec<Vec<Role>> = rows.into_iter().map(|row| row.into_iter().map(role).collect()).collect();
            let sections: Vec<(How, u8)> = hows.iter().map(|(how, flags)| (How::from_u8(*how).expect("one"), *flags)).collect();
            let spec = TableSpec { wait_ns, own_from, rows, ids, sections };
            let bytes = spec.to_bytes().expect("small");
            let table = Table::parse(&bytes).expect("sound");
            prop_assert_eq!((table.wait_ns, table.own_from), (wait_ns, own_from));
            for (site, row) in (1..).zip(&spec.rows) {
                prop_assert_eq!(&table.roles(site).collect::<Vec<_>>(), row);
            }
            for (number, section) in (0..).zip(&spec.sections) {
                prop_assert_eq!(table.section(number), *section);
            }
            for (id, site) in (0..).zip(&spec.ids) {
                prop_assert_eq!(table.site_of(id), *site);
            }
            for cut in [0, 8, 63, bytes.len() - 1] {
                prop_assert!(Table::parse(&bytes[..cut]).is_err(), "cut at {}", cut);
            }
        }
    }
}
