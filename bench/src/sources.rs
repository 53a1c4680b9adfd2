//! The programs that are not ours: fetched into the work folder, built there from an untouched copy.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::columns::{Toolchain, copy_folder};
use crate::error::{BenchError, Result, at};
use crate::exec::run_tool;
use crate::{apt, place};

/// The crate whose vendored zstd is built.
const ZSTD_CRATE: &str = "zstd-sys";
/// Its exact version, so that two tables compare the same code.
const ZSTD_VERSION: &str = "2.0.15";

/// A program that is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Foreign {
    /// The parallel block compressor, over the system's libbz2.
    Pbzip2,
    /// The cache server, over the system's libevent.
    Memcached,
    /// The zstd library with our driver.
    Zstd,
}

impl Foreign {
    /// The source folder, fetched when it is not there, and a line that names the version.
    pub fn fetch(self, work: &Path) -> Result<(PathBuf, String)> {
        let folder = match self {
            Foreign::Pbzip2 => apt::source("pbzip2", work)?,
            Foreign::Memcached => apt::source("memcached", work)?,
            Foreign::Zstd => zstd(work)?,
        };
        let name = folder.file_name().unwrap_or_default();
        let version = name.to_string_lossy().into_owned();
        Ok((folder, version))
    }

    /// Builds a copy of `source` in `into`; the executable.
    pub fn build(self, source: &Path, into: &Path, chain: &Toolchain) -> Result<PathBuf> {
        if into.exists() {
            at("remove", into, fs::remove_dir_all(into))?;
        }
        match self {
            Foreign::Pbzip2 => {
                ensure_header("bzlib.h", "libbz2-dev")?;
                copy_folder(source, into)?;
                build_pbzip2(into, chain)
            }
            Foreign::Memcached => {
                ensure_header("event2/event.h", "libevent-dev")?;
                copy_folder(source, into)?;
                build_memcached(into, chain)
            }
            Foreign::Zstd => build_zstd(source, into, chain),
        }
    }
}

fn build_pbzip2(dir: &Path, chain: &Toolchain) -> Result<PathBuf> {
    // From the environment, so that the package's own makefile adds to the flags.
    run_tool(
        Command::new("make")
            .current_dir(dir)
            .envs(chain.env.iter().copied())
            .env("CXX", chain.cxx.join(" "))
            // Older than C++11, it writes format macros right after string literals; gcc only warns.
            .env("CXXFLAGS", format!("{} -Wno-reserved-user-defined-literal", chain.cflags.join(" ")))
            .env("LDFLAGS", chain.ldflags.join(" "))
            .arg("pbzip2"),
    )?;
    Ok(dir.join("pbzip2"))
}

fn build_memcached(dir: &Path, chain: &Toolchain) -> Result<PathBuf> {
    // Copying loses the order of time stamps, which would make the build want the autotools.
    for name in ["aclocal.m4", "configure", "config.h.in", "Makefile.in"] {
        let file = dir.join(name);
        if file.exists() {
            run_tool(Command::new("touch").arg(&file))?;
        }
    }
    run_tool(
        Command::new("sh")
            .current_dir(dir)
            .envs(chain.env.iter().copied())
            .args(["./configure", "--quiet", "--disable-docs", "--disable-dependency-tracking"])
            .arg(format!("CC={}", chain.cc.join(" ")))
            .arg(format!("CFLAGS={} -pthread", chain.cflags.join(" ")))
            .arg(format!("LDFLAGS={}", chain.ldflags.join(" "))),
    )?;
    run_tool(
        Command::new("make")
            .current_dir(dir)
            .envs(chain.env.iter().copied())
            .args(["-j2", "memcached"])
            // Without the -Werror that configure adds: compilers newer than the release warn more.
            .arg(format!("CFLAGS={} -pthread", chain.cflags.join(" "))),
    )?;
    Ok(dir.join("memcached"))
}

fn build_zstd(source: &Path, into: &Path, chain: &Toolchain) -> Result<PathBuf> {
    let library = source.join("zstd/lib");
    let mut words = chain.cc.clone();
    words.extend(chain.cflags.iter().map(|&f| f.to_owned()));
    words.extend(["-DZSTD_MULTITHREAD", "-DZSTD_DISABLE_ASM", "-pthread"].map(str::to_owned));
    words.push(format!("-I{}", library.display()));
    words.push(place::programs().join("zstd_driver.c").display().to_string());
    for part in ["common", "compress", "decompress"] {
        words.extend(c_files(&library.join(part))?);
    }
    words.extend(chain.ldflags.iter().map(|&f| f.to_owned()));
    at("create", into, fs::create_dir_all(into))?;
    let program = into.join("zstd_driver");
    words.extend(["-o".to_owned(), program.display().to_string()]);
    run_tool(chain.command(&words).current_dir(into))?;
    Ok(program)
}

fn c_files(dir: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in at("read", dir, fs::read_dir(dir))? {
        let path = at("read", dir, entry)?.path();
        if path.extension().is_some_and(|e| e == "c") {
            found.push(path.display().to_string());
        }
    }
    found.sort();
    Ok(found)
}

/// Lets cargo fetch the crate: a manifest of our own whose dependencies are copied beside it.
fn zstd(work: &Path) -> Result<PathBuf> {
    let dir = work.join("zstd");
    let vendor = dir.join("vendor");
    if let Some(have) = vendored(&vendor) {
        return Ok(have);
    }
    let source = dir.join("src");
    at("create", &source, fs::create_dir_all(&source))?;
    let manifest = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
         [dependencies]\n{ZSTD_CRATE} = \"={ZSTD_VERSION}\"\n\n[workspace]\n"
    );
    for (path, text) in [(dir.join("Cargo.toml"), &*manifest), (source.join("lib.rs"), "")] {
        at("write", &path, fs::write(&path, text))?;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    run_tool(Command::new(cargo).current_dir(&dir).args(["vendor", "--quiet", "--versioned-dirs"]).arg(&vendor))?;
    vendored(&vendor).ok_or_else(|| BenchError::Missing {
        tool: ZSTD_CRATE.to_owned(),
        why: "cargo vendor did not bring it".to_owned(),
    })
}

fn vendored(vendor: &Path) -> Option<PathBuf> {
    let prefix = format!("{ZSTD_CRATE}-{ZSTD_VERSION}");
    let entries = fs::read_dir(vendor).ok()?;
    entries
        .flatten()
        .map(|e| e.path())
        .find(|path| path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix)))
}

fn ensure_header(header: &str, package: &str) -> Result<()> {
    let found = || {
        run_tool(Command::new("sh").arg("-c").arg(format!(
            "printf '#include <stddef.h>\\n#include <stdio.h>\\n#include <{header}>\\n' | gcc -E -x c - >/dev/null"
        )))
    };
    if found().is_ok() {
        return Ok(());
    }
    apt::install(header, &[package])?;
    found().map(drop)
}
