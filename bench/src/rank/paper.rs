//! The paper's numbers: Tables 2, 3 and 4.

/// A workload of the paper's Table 1.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Its name in the paper.
    pub name: &'static str,
    /// The kernel that stands for it here.
    pub kernel: &'static str,
    /// Whether the paper finds it without context.
    pub without_context: bool,
    /// Table 2, inspections: hardware, software by line, software by word; each labelled, then unlabelled.
    pub inspections: [f64; 6],
    /// The same in functions.
    pub functions: [f64; 6],
    /// Table 4: inspections with contexts of 0 to 5 events; nothing where it is not found.
    pub contexts: [Option<f64>; 6],
}

const fn row(
    name: &'static str,
    kernel: &'static str,
    inspections: [f64; 6],
    functions: [f64; 6],
    contexts: [f64; 6],
) -> Workload {
    let mut shown = [None; 6];
    let mut at = 0;
    while at < 6 {
        if contexts[at] > 0.0 {
            shown[at] = Some(contexts[at]);
        }
        at += 1;
    }
    Workload { name, kernel, without_context: contexts[0] > 0.0, inspections, functions, contexts: shown }
}

/// The thirteen.
pub const WORKLOADS: [Workload; 13] = [
    row(
        "BankAcct",
        "bank-account",
        [1.4, 2.2, 4.0, 3.6, 3.6, 4.8],
        [1.0, 1.2, 1.0, 1.2, 1.4, 1.2],
        [0.0, 2.0, 2.0, 2.4, 3.4, 3.6],
    ),
    row(
        "CircularList",
        "circular-list",
        [2.2, 2.0, 1.2, 1.0, 2.6, 2.0],
        [1.2, 1.6, 1.0, 1.0, 1.2, 1.0],
        [0.0, 0.0, 7.2, 3.4, 3.2, 2.6],
    ),
    row(
        "LogAndSweep",
        "log-and-sweep",
        [1.0, 1.0, 1.0, 1.0, 1.0, 2.0],
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        [0.0, 0.0, 2.2, 2.8, 1.6, 1.0],
    ),
    row(
        "MultiOrder",
        "multi-order",
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        [0.0, 0.0, 2.8, 1.0, 1.0, 1.0],
    ),
    row(
        "Moz-jsStr",
        "mozilla-js-string",
        [1.8, 5.8, 1.0, 1.0, 1.0, 1.4],
        [1.0, 3.2, 1.0, 1.0, 1.0, 1.0],
        [0.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    ),
    row(
        "Moz-jsInterp",
        "mozilla-js-interp",
        [1.0, 1.4, 2.6, 3.8, 1.8, 2.8],
        [1.0, 1.2, 1.6, 2.8, 1.0, 2.0],
        [0.0, 0.0, 0.0, 1.6, 1.8, 1.8],
    ),
    row(
        "Moz-macNetIO",
        "mozilla-mac-net-io",
        [1.4, 2.8, 5.0, 2.4, 3.0, 4.8],
        [1.0, 2.6, 3.6, 2.0, 1.6, 3.4],
        [0.0, 1.2, 1.0, 1.4, 2.2, 3.0],
    ),
    row(
        "Moz-TxtFrame",
        "mozilla-text-frame",
        [1.0, 2.8, 1.8, 4.2, 3.4, 2.4],
        [1.0, 2.4, 1.4, 2.4, 1.0, 2.2],
        [0.0, 0.0, 3.4, 2.8, 2.8, 3.4],
    ),
    row(
        "MySQL-IdInit",
        "mysql-id-init",
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
    ),
    row(
        "MySQL-BinLog",
        "mysql-binlog-rotate",
        [34.0, 19.2, 28.4, 19.6, 34.2, 16.0],
        [24.4, 11.0, 19.2, 14.8, 21.2, 10.8],
        [0.0, 0.0, 522.6, 128.8, 60.0, 34.2],
    ),
    row(
        "Apache-LogSz",
        "apache-log-buffer",
        [12.0, 80.2, 8.8, 125.4, 13.2, 142.0],
        [10.6, 49.8, 7.2, 60.8, 10.8, 61.4],
        [0.0, 25.2, 6.4, 7.2, 9.8, 13.2],
    ),
    row(
        "PBZip2-Order",
        "pbzip2-teardown",
        [14.5, 5.2, 10.8, 1.4, 6.6, 3.4],
        [4.8, 1.6, 2.6, 1.0, 2.0, 1.6],
        [0.0, 0.0, 0.0, 0.0, 6.6, 6.6],
    ),
    row(
        "AGet-MultVar",
        "aget-resume",
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        [1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
        [0.0, 3.8, 3.8, 1.4, 1.0, 1.0],
    ),
];

/// Table 3: per cent of code points that line tracking loses, and line tracking with evictions.
pub const IMPRECISION: [(&str, &str, f64, f64); 4] = [
    ("AGet", "aget-resume", 16.67, 33.33),
    ("Apache", "apache-log-buffer", 25.57, 59.09),
    ("MySQL", "mysql-binlog-rotate", 27.43, 54.51),
    ("PBZip2", "pbzip2-teardown", 26.32, 59.65),
];
