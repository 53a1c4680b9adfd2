//! Debian packages and their sources, through the machine's own package client.
//!
//! Binary packages are installed only by root. Sources need no root: a private copy of the machine's source lists, with
//! `deb` made `deb-src`, and private state folders leave the machine's own configuration alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{BenchError, Result, at};
use crate::exec::run_tool;

/// Makes sure that `tool` can be found, installing `packages` when it cannot.
pub fn ensure_tool(tool: &str, packages: &[&str]) -> Result<()> {
    if on_path(tool) {
        return Ok(());
    }
    install(tool, packages)
}

/// Installs packages; when not root, says what is missing instead.
pub fn install(tool: &str, packages: &[&str]) -> Result<()> {
    let missing = |why: String| BenchError::Missing { tool: tool.to_owned(), why };
    if !on_path("apt-get") {
        return Err(missing("there is no apt-get here".to_owned()));
    }
    if !rustix::process::geteuid().is_root() {
        return Err(missing(format!("install {} first (not root)", packages.join(" "))));
    }
    let attempt = || {
        run_tool(
            Command::new("apt-get")
                .args(["install", "-y", "--no-install-recommends"])
                .args(packages)
                .env("DEBIAN_FRONTEND", "noninteractive"),
        )
    };
    // The first attempt fails where the package lists were never fetched or are stale.
    if attempt().is_err() {
        run_tool(Command::new("apt-get").arg("update")).map_err(|e| missing(e.line()))?;
        attempt().map_err(|e| missing(e.line()))?;
    }
    Ok(())
}

/// Fetches and unpacks a source package below `work`; its folder, named `PACKAGE-VERSION`.
pub fn source(package: &str, work: &Path) -> Result<PathBuf> {
    let into = work.join("sources");
    at("create", &into, fs::create_dir_all(&into))?;
    if let Some(have) = unpacked(package, &into) {
        return Ok(have);
    }
    ensure_tool("dpkg-source", &["dpkg-dev"])?;
    let private = Private::new(&work.join("apt"))?;
    // One unreachable list is no reason to stop; the fetch below is the judge.
    let updated = run_tool(private.command().arg("update"));
    let fetched = run_tool(private.command().current_dir(&into).args(["source", package]));
    if let Err(e) = fetched {
        updated?;
        return Err(e);
    }
    unpacked(package, &into).ok_or_else(|| BenchError::Missing {
        tool: format!("the source of {package}"),
        why: "apt-get source unpacked nothing".to_owned(),
    })
}

fn on_path(tool: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file()))
}

fn unpacked(package: &str, into: &Path) -> Option<PathBuf> {
    let prefix = format!("{package}-");
    fs::read_dir(into)
        .ok()?
        .flatten()
        .map(|e| e.path())
        .find(|path| path.is_dir() && path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix)))
}

/// A package client configuration of our own.
#[derive(Debug)]
struct Private {
    lists: PathBuf,
    state: PathBuf,
    cache: PathBuf,
}

impl Private {
    fn new(root: &Path) -> Result<Self> {
        let private = Private { lists: root.join("lists.d"), state: root.join("lists"), cache: root.join("cache") };
        for dir in [&private.lists, &private.state.join("partial"), &private.cache.join("archives/partial")] {
            at("create", dir, fs::create_dir_all(dir))?;
        }
        for (number, list) in configured_lists().iter().enumerate() {
            let text = at("read", list, fs::read_to_string(list))?;
            let name = list.extension().unwrap_or_default().to_string_lossy();
            let copy = private.lists.join(format!("{number}.{name}"));
            at("write", &copy, fs::write(&copy, as_sources(&text)))?;
        }
        Ok(private)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("apt-get");
        let user = if rustix::process::geteuid().is_root() { "root" } else { "" };
        for (key, value) in [
            ("Dir::Etc::sourcelist", "/dev/null".to_owned()),
            ("Dir::Etc::sourceparts", self.lists.display().to_string()),
            ("Dir::State::lists", self.state.display().to_string()),
            ("Dir::Cache", self.cache.display().to_string()),
            ("APT::Sandbox::User", user.to_owned()),
        ] {
            command.arg("-o").arg(format!("{key}={value}"));
        }
        command
    }
}

/// The lists that the package client reads by its own rules.
fn configured_lists() -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        found.extend(entries.flatten().map(|e| e.path()));
    }
    found.retain(|path| path.is_file() && path.extension().is_some_and(|e| e == "list" || e == "sources"));
    found.sort();
    found
}

/// A source list, one-line or deb822, that asks for sources instead of binaries.
fn as_sources(list: &str) -> String {
    let mut text = String::with_capacity(list.len());
    for line in list.lines() {
        if line.starts_with("Types:") {
            text.push_str("Types: deb-src");
        } else if let Some(rest) = line.strip_prefix("deb ") {
            text.push_str("deb-src ");
            text.push_str(rest);
        } else {
            text.push_str(line);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_list_forms_become_source_lists() {
        let cases = [
            ("deb URI suite main\n", "deb-src URI suite main\n"),
            ("deb-src URI suite main\n", "deb-src URI suite main\n"),
            ("# deb URI\n", "# deb URI\n"),
            ("Types: deb\nURIs: x\n", "Types: deb-src\nURIs: x\n"),
            ("Types: deb deb-src\n", "Types: deb-src\n"),
        ];
        for (have, want) in cases {
            assert_eq!(as_sources(have), want);
        }
    }
}
