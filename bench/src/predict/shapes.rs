//! Which traces are generated.

/// What a generated trace is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Its name on the command line, and of its files.
    pub key: &'static str,
    /// What is said of it in the table.
    pub title: &'static str,
    /// About how many events.
    pub events: usize,
    /// Threads, the first included.
    pub threads: u16,
    /// Locks.
    pub locks: u32,
    /// Variables.
    pub variables: u32,
    /// Places in the source.
    pub locations: u32,
    /// Attempts to take a lock in a thousand events. Some fail and are accesses; there are as many releases as acquisitions.
    pub acquires: u32,
    /// Events of one thread in a row, on average.
    pub run: u32,
    /// Accesses in a thousand that hold no lock and go to any variable.
    pub stray: u32,
}

const fn shape(key: &'static str, title: &'static str, events: usize, threads: u16) -> Shape {
    Shape {
        key,
        title,
        events,
        threads,
        locks: 20,
        variables: 10_000,
        locations: 500,
        acquires: 40,
        run: 12,
        stray: 20,
    }
}

/// All shapes, in the order of the table.
pub const SHAPES: &[Shape] = &[
    Shape { locks: 3, variables: 100, locations: 50, ..shape("10k", "10 k events, 2 threads, 3 locks", 10_000, 2) },
    Shape { variables: 1000, ..shape("100k", "100 k events, 8 threads, 20 locks", 100_000, 8) },
    shape("1m", "1 M events, 16 threads, 20 locks", 1_000_000, 16),
    Shape {
        locks: 1000,
        variables: 100_000,
        run: 3,
        ..shape("1m-64", "1 M events, 64 threads, 1000 locks", 1_000_000, 64)
    },
    Shape {
        locks: 50,
        acquires: 160,
        run: 4,
        ..shape("1m-locks", "1 M events, 10 threads, 50 locks, 12 % acquires", 1_000_000, 10)
    },
    Shape { variables: 200_000, ..shape("10m", "10 M events, 8 threads, 20 locks", 10_000_000, 8) },
    Shape {
        locks: 500,
        variables: 1_000_000,
        locations: 5000,
        ..shape("10m-64", "10 M events, 64 threads, 500 locks", 10_000_000, 64)
    },
];

/// The shapes of a quick look.
pub const QUICK: usize = 2;
