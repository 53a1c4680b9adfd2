//! `ci`: what CI runs, in its order, with the time that each step took.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::command;

/// One step: its headline, what cargo is told, and with which environment.
struct Step {
    headline: &'static str,
    args: &'static [&'static str],
    env: Option<(&'static str, &'static str)>,
}

const fn step(headline: &'static str, args: &'static [&'static str]) -> Step {
    Step { headline, args, env: None }
}

const STEPS: &[Step] = &[
    step("formatting", &["fmt", "--all", "--check"]),
    step("lints", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    step("tests", &["test", "--workspace"]),
    Step {
        headline: "documentation",
        args: &["doc", "--workspace", "--no-deps"],
        env: Some(("RUSTDOCFLAGS", "-D warnings")),
    },
    step("dependency arrows", &["xtask", "deps-check"]),
    step("generated pages", &["xtask", "gen", "--check"]),
    step("fuzzing", &["xtask", "fuzz", "--seconds", "20"]),
];

impl Step {
    fn command(&self, root: &Path) -> Command {
        let mut command = command::cargo(root);
        command.args(self.args).envs(self.env);
        command
    }

    /// The step as a shell is told it.
    fn shell(&self) -> String {
        let env = self.env.map_or(String::new(), |(name, value)| format!("{name}=\"{value}\" "));
        format!("{env}cargo {}", self.args.join(" "))
    }
}

/// Runs the steps; the first that fails ends it.
pub(crate) fn run(root: &Path) -> Outcome {
    let begin = Instant::now();
    for (number, step) in (1..).zip(STEPS) {
        println!("==> {number}/{} {}: {}", STEPS.len(), step.headline, step.shell());
        let start = Instant::now();
        command::run(&mut step.command(root))?;
        println!("    {} took {}", step.headline, clock(start.elapsed()));
    }
    println!("==> all {} steps passed in {}", STEPS.len(), clock(begin.elapsed()));
    Ok(())
}

fn clock(time: Duration) -> String {
    format!("{}:{:02} min", time.as_secs() / 60, time.as_secs() % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_of_ci_has_the_same_steps() {
        let script = std::fs::read_to_string(crate::root().join(".ci/run")).unwrap();
        let lines: Vec<&str> = script.lines().filter_map(|line| line.trim().strip_prefix("step ")).collect();
        let steps: Vec<String> = STEPS.iter().map(Step::shell).collect();
        assert_eq!(lines, steps);
    }

    #[test]
    fn clocks_have_two_digits_of_seconds() {
        assert_eq!(clock(Duration::from_secs(605)), "10:05 min");
    }
}
