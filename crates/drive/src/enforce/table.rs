//! Writes the table of locks: the bytes that the runtime keeps to (`events::enforce` has the layout and the reader).

use selvedge_events::enforce::{self as layout, Action};

use crate::plan::WritePlanError;

/// What is done at a hook.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PointSpec {
    /// Before what it stands for, in order.
    pub before: Vec<Action>,
    /// After it, in order.
    pub after: Vec<Action>,
    /// The function whose activation the slots belong to.
    pub function: u32,
    /// The point that counts instead where another function is the innermost; 0 for none.
    pub other: u32,
}

/// A table, before it is bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSpec {
    /// Most time that a thread waits for a lock, in nanoseconds.
    pub wait_ns: u64,
    /// Waiting may take one in so many parts of a run; 0 for as much as it takes.
    pub patience: u32,
    /// How many locks.
    pub locks: u32,
    /// Points 1, 2, …
    pub points: Vec<PointSpec>,
    /// The point of every armed id, 0 where there is none; empty where armed ids are points.
    pub ids: Vec<u32>,
    /// Calls, by where they return to, ascending.
    pub calls: Vec<(u32, PointSpec)>,
}

impl TableSpec {
    /// The table's bytes.
    pub fn to_bytes(&self) -> Result<Vec<u8>, WritePlanError> {
        let (mut rows, mut actions): (Vec<u32>, Vec<Action>) = (Vec::new(), Vec::new());
        let points = self.points.iter().map(|point| (0, point));
        for (returns, point) in points.chain(self.calls.iter().map(|(returns, point)| (*returns, point))) {
            let (before, after) = (len32(point.before.len())?, len32(point.after.len())?);
            rows.extend([returns, len32(actions.len())?, before, after, point.function, point.other]);
            actions.extend(point.before.iter().chain(&point.after));
        }
        let points_at = layout::HEADER;
        let calls_at = points_at + self.points.len() * layout::ROW;
        let actions_at = calls_at + self.calls.len() * layout::ROW;
        let ids_at = actions_at + actions.len() * layout::ACTION;
        let mut bytes = layout::MAGIC.to_vec();
        let put =
            |bytes: &mut Vec<u8>, fields: &[u32]| bytes.extend(fields.iter().flat_map(|field| field.to_le_bytes()));
        put(&mut bytes, &[layout::VERSION, len32(layout::HEADER)?]);
        bytes.extend(self.wait_ns.to_le_bytes());
        put(&mut bytes, &[self.locks, len32(self.points.len())?, len32(points_at)?, len32(ids_at)?]);
        put(&mut bytes, &[len32(self.ids.len())?, len32(calls_at)?, len32(self.calls.len())?]);
        put(&mut bytes, &[len32(actions_at)?, len32(actions.len())?]);
        put(&mut bytes, &[self.patience]);
        put(&mut bytes, &rows);
        for action in actions {
            put(&mut bytes, &[action.what, action.mode, action.lock, action.slot]);
        }
        put(&mut bytes, &self.ids);
        Ok(bytes)
    }
}

fn len32(len: usize) -> Result<u32, WritePlanError> {
    u32::try_from(len).map_err(|_| WritePlanError::TooLarge)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use selvedge_events::enforce::Table;

    use super::*;

    fn point() -> impl Strategy<Value = PointSpec> {
        let action = (0..3_u32, 0..3_u32, 0..5_u32, any::<u32>());
        let action = action.prop_map(|(what, mode, lock, slot)| Action { what, mode, lock, slot });
        let list = || proptest::collection::vec(action.clone(), 0..4);
        (list(), list(), any::<u32>(), 0..2_u32).prop_map(|(before, after, function, other)| PointSpec {
            before,
            after,
            function,
            other,
        })
    }

    fn table() -> impl Strategy<Value = TableSpec> {
        let points = proptest::collection::vec(point(), 1..9);
        let calls = proptest::collection::btree_map(any::<u32>(), point(), 0..9);
        (points, calls, proptest::collection::vec(0..2_u32, 0..9), any::<u64>(), any::<u32>()).prop_map(
            |(points, calls, ids, wait_ns, patience)| TableSpec {
                wait_ns,
                patience,
                locks: 5,
                points,
                ids,
                calls: calls.into_iter().collect(),
            },
        )
    }

    proptest! {
        #[test]
        fn tables_round_trip(spec in table()) {
            let bytes = spec.to_bytes().expect("small");
            let table = Table::parse(&bytes).expect("sound");
            let read = |row: selvedge_events::enforce::Row| {
                let list = |from: u32, count: u32| (from..from + count).map(|at| table.action(at)).collect::<Vec<_>>();
                let (before, after) = (list(row.first, row.before), list(row.first + row.before, row.after));
                PointSpec { before, after, function: row.function, other: row.other }
            };
            prop_assert_eq!((table.wait_ns, table.patience), (spec.wait_ns, spec.patience));
            for (number, point) in (1..).zip(&spec.points) {
                prop_assert_eq!(&read(table.point(number)), point);
            }
            for (returns, call) in &spec.calls {
                let number = table.call_to(*returns).expect("there");
                prop_assert_eq!(&read(table.call(number)), call);
            }
            for id in 0..12 {
                let alone = if id as usize <= spec.points.len() { id } else { 0 };
                let expected = if spec.ids.is_empty() { alone } else { spec.ids.get(id as usize).copied().unwrap_or(0) };
                prop_assert_eq!(table.point_of(id), expected);
            }
            for cut in 0..bytes.len() {
                prop_assert!(Table::parse(&bytes[..cut]).is_none());
            }
        }
    }
}
