//! The rows: which program, how it is built, what one run of it is, and how its result is checked.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::columns::{Build, Mode, Runner, Toolchain, Trace};
use crate::enforce::programs::Locked;
use crate::error::{BenchError, Result, at};
use crate::exec::{Cost, Limits, Running, run_tool};
use crate::guard::cost::Guarded;
use crate::rank::programs::GraphSize;
use crate::sources::Foreign;
use crate::{load, place};

/// Free bytes that a recorded run must leave on the disk.
const DISK_FLOOR: u64 = 2 << 30;

/// Most time for a controlled run, in which every access to shared memory may be a switch of threads.
const CONTROLLED_LIMIT: Duration = Duration::from_secs(60);

/// How much work a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// The default.
    Full,
    /// For a quick look, and for tools that are far slower than the rest.
    Quick,
}

/// Which bars of the design apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A shared-matrix LU kernel.
    Lu,
    /// Bound by I/O or by a library that is not instrumented.
    Io,
    /// Anything else.
    Other,
}

/// What is run.
#[derive(Debug, Clone, Copy)]
enum Subject {
    /// A program of ours: `NAME.c SIZE 2`.
    Program { name: &'static str, full: &'static str, quick: &'static str },
    /// A fetched one.
    Foreign(Foreign),
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The name on the command line and in raw results.
    pub key: &'static str,
    /// The name in the table.
    pub title: &'static str,
    /// Which bars apply.
    pub class: Class,
    subject: Subject,
}

const fn ours(name: &'static str, title: &'static str, class: Class, full: &'static str, quick: &'static str) -> Row {
    Row { key: name, title, class, subject: Subject::Program { name, full, quick } }
}

const fn fetched(key: &'static str, title: &'static str, class: Class, what: Foreign) -> Row {
    Row { key, title, class, subject: Subject::Foreign(what) }
}

/// All rows, in the order of the table. The sizes of the kernels are bounded by what a full recording of them takes on disk:
/// LU at 512 makes 130 million shared accesses.
pub const ROWS: &[Row] = &[
    ours("lu", "LU", Class::Lu, "512", "192"),
    ours("lu_blocked", "LU, blocked", Class::Lu, "512", "192"),
    ours("fft", "FFT", Class::Other, "20", "14"),
    ours("queue", "lock-heavy queue", Class::Other, "1000000", "50000"),
    ours("ring", "atomics-heavy ring", Class::Other, "3000000", "100000"),
    ours("map", "pointer-chasing map", Class::Other, "4000000", "200000"),
    fetched("pbzip2", "pbzip2", Class::Io, Foreign::Pbzip2),
    fetched("memcached", "memcached", Class::Io, Foreign::Memcached),
    fetched("zstd", "zstd, 2 workers", Class::Other, Foreign::Zstd),
];

/// What one run gave.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// Seconds: wall time, or for a server the time that all requests took.
    pub seconds: f64,
    /// Peak resident memory in KiB.
    pub peak_kib: u64,
    /// Processor time in seconds.
    pub processor: f64,
    /// For recorded runs.
    pub trace: Option<Trace>,
    /// For runs that collect a graph.
    pub graph: Option<GraphSize>,
    /// For runs with locks.
    pub locked: Option<Locked>,
    /// For guarded runs.
    pub guarded: Option<Guarded>,
    /// What the program said; must be the same in every column.
    #[serde(skip)]
    pub said: String,
}

/// Where a row keeps its files, and what it needs to be run.
#[derive(Debug)]
pub struct Bench {
    /// The row.
    pub row: Row,
    /// What exactly is measured: a version, for fetched programs.
    pub version: Option<String>,
    source: Option<PathBuf>,
    dir: PathBuf,
    limit: Duration,
}

impl Bench {
    /// Fetches what the row needs.
    pub fn prepare(row: Row, work: &Path, limit: Duration) -> Result<Self> {
        let dir = work.join("rows").join(row.key);
        at("create", &dir, fs::create_dir_all(&dir))?;
        let (source, version) = match row.subject {
            Subject::Program { .. } => (None, None),
            Subject::Foreign(foreign) => {
                let (source, version) = foreign.fetch(work)?;
                (Some(source), Some(version))
            }
        };
        Ok(Bench { row, version, source, dir, limit })
    }

    /// The row's folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Builds the program; builds of foreign programs that do not depend on us are kept.
    pub fn build(&self, build: Build, chain: &Toolchain) -> Result<PathBuf> {
        let into = self.dir.join("build").join(build.name());
        let Subject::Foreign(foreign) = self.row.subject else {
            at("create", &into, fs::create_dir_all(&into))?;
            return self.compile(&into, chain);
        };
        // The stamp says where the program is and how it was made.
        let stamp = into.join("built");
        let how = format!("{:?} {:?} {:?}", chain.cc, chain.cflags, chain.ldflags);
        if !matches!(build, Build::Wrapped(_))
            && let Ok(text) = fs::read_to_string(&stamp)
            && let Some((program, before)) = text.split_once('\n')
            && before == how
        {
            return Ok(PathBuf::from(program));
        }
        let source = self.source.as_deref().unwrap_or(&self.dir);
        let program = foreign.build(source, &into, chain)?;
        let text = format!("{}\n{how}", program.display());
        at("write", &stamp, fs::write(&stamp, text))?;
        Ok(program)
    }

    /// One run, checked. The caller has called [`Runner::begin`].
    pub fn run(&self, program: &Path, runner: &mut Runner, size: Size) -> Result<Sample> {
        let mut sample = match self.row.subject {
            Subject::Program { full, quick, .. } => {
                let argument = if size == Size::Full { full } else { quick };
                self.single(program, runner, &[argument, "2"])?
            }
            Subject::Foreign(Foreign::Zstd) => {
                let input = self.input(size, 64)?.display().to_string();
                self.single(program, runner, &[&input, "2"])?
            }
            Subject::Foreign(Foreign::Pbzip2) => self.pbzip2(program, runner, size)?,
            Subject::Foreign(Foreign::Memcached) => self.memcached(program, runner, size)?,
        };
        if self.row.key != "memcached" && !sample.said.starts_with("ok ") {
            return Err(BenchError::Wrong(format!("{:?} instead of ok", sample.said)));
        }
        sample.said.truncate(200);
        Ok(sample)
    }

    fn compile(&self, into: &Path, chain: &Toolchain) -> Result<PathBuf> {
        let Subject::Program { name, .. } = self.row.subject else {
            return Err(BenchError::Wrong("not a program of ours".to_owned()));
        };
        let program = into.join(name);
        let mut words = chain.cc.clone();
        words.extend(chain.cflags.iter().map(|&f| f.to_owned()));
        words.push(place::programs().join(format!("{name}.c")).display().to_string());
        words.extend(["-o".to_owned(), program.display().to_string()]);
        words.extend(chain.ldflags.iter().map(|&f| f.to_owned()));
        words.extend(["-pthread", "-lm"].map(str::to_owned));
        run_tool(chain.command(&words).current_dir(into))?;
        Ok(program)
    }

    fn start(&self, program: &Path, runner: &mut Runner, args: &[&str], name: &str) -> Result<Running> {
        let args: Vec<String> = args.iter().map(|&a| a.to_owned()).collect();
        let command = runner.command(&[], program, &args)?;
        Running::start(command, name, &self.dir.join("logs"))
    }

    fn limits(&self, runner: &Runner) -> Limits {
        let time = if runner.controls() { self.limit.min(CONTROLLED_LIMIT) } else { self.limit };
        Limits { time, disk: runner.records().then(|| (runner.out().to_owned(), DISK_FLOOR)) }
    }

    fn single(&self, program: &Path, runner: &mut Runner, args: &[&str]) -> Result<Sample> {
        let running = self.start(program, runner, args, "run")?;
        let (cost, said) = running.succeed(&self.limits(runner))?;
        Ok(sample(&[cost], said))
    }

    /// Compresses and decompresses; the time of both, the peak of either.
    fn pbzip2(&self, program: &Path, runner: &mut Runner, size: Size) -> Result<Sample> {
        let input = self.input(size, 30)?;
        let (packed, unpacked) = (self.dir.join("packed.bz2"), self.dir.join("packed"));
        for old in [&packed, &unpacked] {
            if old.exists() {
                at("remove", old, fs::remove_file(old))?;
            }
        }
        let mut costs = Vec::new();
        for (name, from, to, options) in [
            ("compress", &input, &packed, &["-p2", "-z", "-k", "-c"][..]),
            ("decompress", &packed, &unpacked, &["-p2", "-d", "-k", "-c"][..]),
        ] {
            let from = from.display().to_string();
            let args = [options, &[&from]].concat();
            let running = self.start(program, runner, &args, name)?;
            let cost = running.quiet(&self.limits(runner))?;
            let printed = self.dir.join("logs").join(format!("{name}.out"));
            at("move", to, fs::rename(&printed, to))?;
            costs.push(cost);
        }
        if !same_bytes(&input, &unpacked)? {
            return Err(BenchError::Wrong("pbzip2 did not give the input back".to_owned()));
        }
        let length = at("look at", &packed, fs::metadata(&packed))?.len();
        Ok(sample(&costs, format!("ok pbzip2 {length}")))
    }

    /// Serves a bounded number of requests; the time that they took.
    fn memcached(&self, program: &Path, runner: &mut Runner, size: Size) -> Result<Sample> {
        const CONNECTIONS: u64 = 16;
        let requests = if size == Size::Full { 240_000 } else { 4_000 };
        let port = load::free_port()?;
        let number = port.to_string();
        let mut args = vec!["-l", "127.0.0.1", "-p", &number, "-U", "0", "-t", "2", "-m", "64"];
        if rustix::process::geteuid().is_root() {
            args.extend(["-u", "root"]);
        }
        let server = self.start(program, runner, &args, "server")?;
        let served = load::wait_for(port, || server.has_ended())
            .and_then(|()| load::check_protocol(port))
            .and_then(|()| load::run(port, requests, CONNECTIONS));
        server.terminate()?;
        let ended = server.quiet(&self.limits(runner));
        let took = served?;
        let mut sample = sample(&[ended?], format!("served {requests}"));
        sample.seconds = took.as_secs_f64();
        Ok(sample)
    }

    /// A generated file of `megabytes` (a tenth of it for [`Size::Quick`]).
    fn input(&self, size: Size, megabytes: u64) -> Result<PathBuf> {
        self.input_of(match size {
            Size::Full => megabytes << 20,
            Size::Quick => (megabytes << 20) / 10,
        })
    }

    /// A generated file of so many bytes.
    pub fn input_of(&self, bytes: u64) -> Result<PathBuf> {
        let path = self.dir.join(format!("input-{bytes}"));
        if fs::metadata(&path).is_ok_and(|data| data.len() == bytes) {
            return Ok(path);
        }
        let file = at("create", &path, File::create(&path))?;
        let mut writer = BufWriter::new(file);
        at("write", &path, write_text(&mut writer, bytes).and_then(|()| writer.flush()))?;
        Ok(path)
    }
}

fn sample(costs: &[Cost], said: String) -> Sample {
    Sample {
        seconds: costs.iter().map(|c| c.wall.as_secs_f64()).sum(),
        peak_kib: costs.iter().map(|c| c.peak_kib).max().unwrap_or(0),
        processor: costs.iter().map(|c| c.processor.as_secs_f64()).sum(),
        graph: None,
        locked: None,
        guarded: None,
        trace: None,
        said,
    }
}

/// Text of made-up words with some noise: compresses about as well as prose.
fn write_text(to: &mut impl Write, bytes: u64) -> std::io::Result<()> {
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut left = bytes;
    while left > 0 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // Squaring the draw makes some words common and most rare.
        let rank = (random >> 40 & 0xff) * (random >> 48 & 0xff);
        let word = if random & 63 == 0 { format!("{random:x}\n") } else { format!("{} ", spell(rank)) };
        let word = word.as_bytes();
        let take = word.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        to.write_all(&word[..take])?;
        left -= u64::try_from(take).unwrap_or(left);
    }
    Ok(())
}

/// A pronounceable word for a number.
fn spell(mut number: u64) -> String {
    const SYLLABLES: [&str; 16] =
        ["ka", "ten", "ri", "so", "mel", "du", "per", "an", "lo", "vis", "er", "go", "int", "ba", "ul", "che"];
    let mut word = String::new();
    loop {
        word.push_str(SYLLABLES[usize::try_from(number & 15).unwrap_or(0)]);
        number >>= 4;
        if number == 0 {
            return word;
        }
    }
}

fn same_bytes(one: &Path, other: &Path) -> Result<bool> {
    let open = |path: &Path| at("open", path, File::open(path)).map(BufReader::new);
    let (mut a, mut b) = (open(one)?, open(other)?);
    let (mut x, mut y) = ([0; 65536], [0; 65536]);
    loop {
        let n = at("read", one, a.read(&mut x))?;
        if n == 0 {
            return Ok(at("read", other, b.read(&mut y))? == 0);
        }
        if b.read_exact(&mut y[..n]).is_err() || x[..n] != y[..n] {
            return Ok(false);
        }
    }
}

/// Whether a column runs a smaller input, once.
pub fn runs_small(mode: Mode) -> bool {
    matches!(mode, Mode::Helgrind | Mode::Controlled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_text_has_its_length_and_is_the_same_each_time() {
        let (mut one, mut two) = (Vec::new(), Vec::new());
        write_text(&mut one, 10_001).unwrap();
        write_text(&mut two, 10_001).unwrap();
        assert_eq!(one.len(), 10_001);
        assert_eq!(one, two);
    }

    #[test]
    fn files_are_compared_to_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            fs::write(&path, bytes).unwrap();
            path
        };
        let (a, b, c) = (file("a", b"abc"), file("b", b"abcd"), file("c", b"abc"));
        assert!(same_bytes(&a, &c).unwrap());
        assert!(!same_bytes(&a, &b).unwrap());
        assert!(!same_bytes(&b, &a).unwrap());
    }
}
