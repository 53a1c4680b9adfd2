//! Slots that others stand for.
//!
//! An access to a variable that is part of several abstract ones has a slot for each of these, and so have variables whose locks were merged. A
//! slot with which the same is done at the same hooks as with an earlier one of the same lock changes nothing: a lock is had in the strongest
//! mode of its slots. Without such slots less is to be done.

use std::collections::{BTreeMap, BTreeSet};

use selvedge_events::enforce::Action;

use super::table::PointSpec;

/// What is done with a slot: at which point, on which side, what, in which mode.
type Deeds = Vec<(usize, bool, u32, u32)>;

/// Takes out what is done with slots that others stand for.
pub fn thin<'a>(points: impl Iterator<Item = &'a mut PointSpec>) {
    let mut points: Vec<&mut PointSpec> = points.collect();
    let mut deeds: BTreeMap<(u32, u32), Deeds> = BTreeMap::new();
    for (number, point) in points.iter().enumerate() {
        for (is_after, actions) in [(false, &point.before), (true, &point.after)] {
            for Action { what, mode, lock, slot } in actions {
                deeds.entry((*lock, *slot)).or_default().push((number, is_after, *what, *mode));
            }
        }
    }
    let mut known = BTreeSet::new();
    let doubles: BTreeSet<(u32, u32)> = deeds
        .into_iter()
        .filter(|((lock, _), deeds)| !known.insert((*lock, deeds.clone())))
        .map(|(key, _)| key)
        .collect();
    for point in &mut points {
        for actions in [&mut point.before, &mut point.after] {
            actions.retain(|action| !doubles.contains(&(action.lock, action.slot)));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TAKE: u32 = 2;

    fn action(what: u32, mode: u32, slot: u32) -> Action {
        Action { what, mode, lock: 0, slot }
    }

    #[test]
    fn slots_of_one_access_become_one() {
        let all = [0, 1, 2];
        let mut point = PointSpec {
            before: all.map(|slot| action(TAKE, 0, slot)).to_vec(),
            after: all.map(|slot| action(0, 0, slot)).to_vec(),
            ..PointSpec::default()
        };
        // One that is held in another mode stays, and so does one that is given back elsewhere.
        point.before.extend([action(TAKE, 2, 3), action(TAKE, 0, 4)]);
        point.after.push(action(0, 0, 3));
        let mut next = PointSpec { before: vec![action(0, 0, 4)], ..PointSpec::default() };
        thin([&mut point, &mut next].into_iter());
        assert_eq!(point.before, [action(TAKE, 0, 0), action(TAKE, 2, 3), action(TAKE, 0, 4)]);
        assert_eq!(point.after, [action(0, 0, 0), action(0, 0, 3)]);
        assert_eq!(next.before, [action(0, 0, 4)]);
    }

    /// The strongest modes of the locks after some actions; slots by lock and number, with modes from 1 on.
    fn act(held: &mut BTreeMap<(u32, u32), u32>, actions: &[Action]) -> BTreeMap<u32, u32> {
        for Action { what, mode, lock, slot } in actions {
            let key = (*lock, *slot);
            match (what, held.get(&key)) {
                (0, _) => drop(held.remove(&key)),
                (1, Some(now)) => drop(held.insert(key, (*now).min(mode + 1))),
                (1, None) => {}
                _ => drop(held.insert(key, mode + 1)),
            }
        }
        let mut modes = BTreeMap::new();
        for ((lock, _), mode) in held {
            modes.entry(*lock).and_modify(|most: &mut u32| *most = (*most).max(*mode)).or_insert(*mode);
        }
        modes
    }

    fn points() -> impl Strategy<Value = Vec<PointSpec>> {
        let action = (0..3_u32, 0..2_u32, 0..2_u32, 0..4_u32);
        let action = action.prop_map(|(what, mode, lock, slot)| Action { what, mode, lock, slot });
        let list = move || proptest::collection::vec(action.clone(), 0..5);
        let point = (list(), list()).prop_map(|(before, after)| PointSpec { before, after, ..PointSpec::default() });
        proptest::collection::vec(point, 1..4)
    }

    proptest! {
        #[test]
        fn locks_are_held_as_before(points in points(), way in proptest::collection::vec(any::<prop::sample::Index>(), 0..12)) {
            let mut thinned = points.clone();
            thin(thinned.iter_mut());
            let (mut all, mut fewer) = (BTreeMap::new(), BTreeMap::new());
            for step in way {
                let (full, thin) = (step.get(&points), step.get(&thinned));
                prop_assert_eq!(act(&mut all, &full.before), act(&mut fewer, &thin.before));
                prop_assert_eq!(act(&mut all, &full.after), act(&mut fewer, &thin.after));
            }
        }
    }
}
