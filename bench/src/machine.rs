//! What the measurements were made on, without naming the machine.

use std::fs;
use std::process::Command;

use serde::Serialize;

use crate::exec::run_tool;

/// A description that makes ratios readable and tells nothing else.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// Processor model.
    pub cpu: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Memory in GiB.
    pub memory_gib: u64,
    /// Kernel version, numbers only.
    pub kernel: String,
    /// First lines of the tools' version texts.
    pub tools: Vec<String>,
    /// One-minute load average before the first run: how busy the machine was with other things.
    pub load_before: String,
}

impl Machine {
    /// Looks around.
    pub fn describe() -> Self {
        let tools = ["gcc", "clang-19", "valgrind"]
            .iter()
            .filter_map(|tool| {
                let text = run_tool(Command::new(tool).arg("--version")).ok()?;
                text.lines().next().map(|line| line.trim().to_owned())
            })
            .collect();
        Machine {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: field("/proc/meminfo", "MemTotal")
                .and_then(|v| v.split_whitespace().next()?.parse::<u64>().ok())
                .map_or(0, |kib| kib.div_ceil(1 << 20)),
            kernel: version_numbers(&read("/proc/sys/kernel/osrelease")),
            tools,
            load_before: read("/proc/loadavg").split_whitespace().next().unwrap_or("unknown").to_owned(),
        }
    }

    /// The description as lines of a list.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![
            format!("{} cores of {}, {} GiB", self.cores, self.cpu, self.memory_gib),
            format!("Linux {}, load {} before the first run", self.kernel, self.load_before),
        ];
        lines.extend(self.tools.iter().cloned());
        lines
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn field(path: &str, name: &str) -> Option<String> {
    let text = read(path);
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Kernel releases may carry a builder's name after the numbers.
fn version_numbers(release: &str) -> String {
    release.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect()
}
