//! Instructions for each call of a hook, counted by Callgrind: a figure that does not depend on how busy the machine is.
//!
//! A program calls the hook in a loop. Two runs with different numbers of iterations differ only in the loop, so that
//! start-up cancels out; the same for a loop without the call, and the difference is the hook with its arguments.
//!
//! The runtime patches code of the program's own file, hence `--smc-check=all`: `all-non-file`, the default on this
//! architecture, would not look there again.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bars::to_f64;
use crate::columns::{Column, Runner, Tools};
use crate::error::{BenchError, Result, at};
use crate::exec::{Limits, Running, run_tool};
use crate::hooks::Hook;

/// Iterations of the shorter and of the longer run.
const ITERATIONS: (u64, u64) = (2_000, 12_000);
/// One run under Callgrind takes seconds at most.
const LIMIT: Duration = Duration::from_secs(120);

/// Instructions for one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Count {
    /// The hook.
    pub hook: String,
    /// The column: disarmed or record.
    pub column: String,
    /// Instructions, or why there are none.
    pub instructions: std::result::Result<f64, String>,
}

/// Counts hooks in one column.
#[derive(Debug)]
pub struct Counter<'a> {
    tools: &'a Tools,
    column: Column,
    dir: PathBuf,
    /// Instructions of one iteration of the loop without a call.
    empty: f64,
}

impl<'a> Counter<'a> {
    /// Prepares a column, counting the empty loop.
    pub fn new(tools: &'a Tools, column: Column, work: &Path) -> Result<Self> {
        let mut counter = Counter { tools, column, dir: work.join("hooks").join(column.key), empty: 0.0 };
        at("create", &counter.dir, fs::create_dir_all(&counter.dir))?;
        counter.empty =
            counter.loop_cost(&Hook { name: "empty".to_owned(), declare: String::new(), call: String::new() })?;
        Ok(counter)
    }

    /// Instructions of one call of `hook`.
    pub fn count(&self, hook: &Hook) -> Count {
        Count {
            hook: hook.name.clone(),
            column: self.column.key.to_owned(),
            instructions: self.loop_cost(hook).map(|cost| cost - self.empty).map_err(|e| e.brief()),
        }
    }

    /// Instructions of one iteration.
    fn loop_cost(&self, hook: &Hook) -> Result<f64> {
        let program = self.build(hook)?;
        let mut runner = Runner::new(self.column, self.tools, &self.dir);
        if runner.is_armed() {
            runner.survey(|runner| self.run(runner, &program, &[], 16))?;
        }
        let mut totals = [0; 2];
        for (total, iterations) in totals.iter_mut().zip([ITERATIONS.0, ITERATIONS.1]) {
            runner.begin()?;
            let counts = self.dir.join("counts");
            let out = format!("--callgrind-out-file={}", counts.display());
            let prefix = ["valgrind", "--tool=callgrind", "--smc-check=all", &out];
            self.run(&mut runner, &program, &prefix, iterations)?;
            *total = total_of(&at("read", &counts, fs::read_to_string(&counts))?)?;
            runner.finish()?;
        }
        let more = totals[1].saturating_sub(totals[0]);
        Ok(to_f64(more) / to_f64(ITERATIONS.1 - ITERATIONS.0))
    }

    fn run(&self, runner: &mut Runner, program: &Path, prefix: &[&str], iterations: u64) -> Result<()> {
        let command = runner.command(prefix, program, &[iterations.to_string()])?;
        let child = Running::start(command, "count", &self.dir)?;
        child.quiet(&Limits::time(LIMIT)).map(drop)
    }

    fn build(&self, hook: &Hook) -> Result<PathBuf> {
        let source = self.dir.join("hook.c");
        at("write", &source, fs::write(&source, program_text(hook)))?;
        let program = self.dir.join("hook");
        let chain = self.tools.toolchain(self.column.build)?;
        let mut words = chain.cc.clone();
        words.extend(chain.cflags.iter().map(|&f| f.to_owned()));
        words.extend([source.display().to_string(), "-o".to_owned(), program.display().to_string()]);
        words.extend(chain.ldflags.iter().map(|&f| f.to_owned()));
        words.push("-pthread".to_owned());
        run_tool(chain.command(&words).current_dir(&self.dir))?;
        Ok(program)
    }
}

/// The program for a hook. A second thread goes through the same call and writes the same cell, so that a survey finds the
/// site to be shared. The functions carry no instrumentation of the compiler's own.
fn program_text(hook: &Hook) -> String {
    format!(
        r"#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#if defined(__clang__)
#define BARE __attribute__((noinline, no_sanitize(`thread`), no_sanitize(`coverage`), disable_sanitizer_instrumentation))
#else
#define BARE __attribute__((noinline, no_sanitize_thread, no_sanitize_coverage))
#endif

void __tsan_write8(void *);
{declare}

static _Alignas(16) char cell[16], other[16];

static inline void *keep(void *p) {{ __asm__ volatile(`` : `+r`(p)); return p; }}
static inline unsigned long keep_size(unsigned long n) {{ __asm__ volatile(`` : `+r`(n)); return n; }}

BARE static void repeat(long n)
{{
    for (long i = 0; i < n; i++) {{
        {call}
        __asm__ volatile(`` : : `r`(cell), `r`(other) : `memory`);
    }}
}}

BARE static void *second(void *argument)
{{
    (void)keep, (void)keep_size;
    __tsan_write8(cell);
    __tsan_write8(other);
    repeat(16);
    return argument;
}}

BARE int main(int argc, char **argv)
{{
    pthread_t thread;
    if (argc < 2 || pthread_create(&thread, NULL, second, NULL) != 0)
        return 2;
    pthread_join(thread, NULL);
    __tsan_write8(cell);
    __tsan_write8(other);
    repeat(atol(argv[1]));
    return 0;
}}
",
        declare = hook.declare,
        call = hook.call
    )
    .replace('`', "\"")
}

/// The total of a Callgrind output file.
fn total_of(counts: &str) -> Result<u64> {
    counts
        .lines()
        .filter_map(|line| line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:")))
        .find_map(|rest| rest.split_whitespace().next()?.parse().ok())
        .ok_or_else(|| BenchError::Wrong("Callgrind gave no total".to_owned()))
}

/// Counts that grew by more than a fiftieth and more than half an instruction since `before`.
pub fn grown<'c>(now: &'c [Count], before: &[Count]) -> Vec<(&'c Count, f64)> {
    now.iter()
        .filter_map(|count| {
            let have = count.instructions.as_ref().ok()?;
            let old = before.iter().find(|b| b.hook == count.hook && b.column == count.column)?;
            let was = old.instructions.as_ref().ok()?;
            (*have > was * 1.02 + 0.5).then_some((count, *was))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(hook: &str, instructions: f64) -> Count {
        Count { hook: hook.to_owned(), column: "record".to_owned(), instructions: Ok(instructions) }
    }

    #[test]
    fn totals_are_found() {
        assert_eq!(total_of("version: 1\nsummary: 42\n\ntotals: 42\n").unwrap(), 42);
        assert!(total_of("events: Ir\n").is_err());
    }

    #[test]
    fn growth_is_noticed_and_noise_is_not() {
        let before = [count("a", 100.0), count("b", 3.0)];
        let now = [count("a", 103.0), count("b", 3.4), count("c", 9.0)];
        let grown = grown(&now, &before);
        assert_eq!(grown.len(), 1);
        assert_eq!(grown[0].0.hook, "a");
    }

    #[test]
    fn programs_have_no_stray_marks() {
        let hook = Hook { name: "x".to_owned(), declare: "void x(void);".to_owned(), call: "x();".to_owned() };
        let text = program_text(&hook);
        assert!(!text.contains('`') && text.contains("        x();"));
    }
}
