//! Builds the runtime into one relocatable object per use and leaves them where `include_bytes!` finds
//! them.
//!
//! `selvedge-rt` is compiled as a static library in a profile of its own, joined with `ld -r`, and made
//! into an object whose only global symbols are the hooks and interposers: it links into C, C++ and
//! Rust programs alike, clashes with nothing of theirs, and cannot be called any other way.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use selvedge_events::HOOKS;
use selvedge_events::interpose::{Family, INTERPOSED};

/// Functions that compiled Rust code calls by itself. Inside the runtime they must not reach the
/// guest's versions.
const OWN: [&str; 6] = ["memcpy", "memmove", "memset", "memcmp", "bcmp", "strlen"];
/// Prefix of the interposers' symbols until the last step.
const INTERPOSER: &str = "selvedge_i_";

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?);
    let crates = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set")?);
    let rt = crates.join("../rt");
    for input in [
        "../rt/src",
        "../rt/Cargo.toml",
        "../events/src",
        "../sched/src",
        "../sched/Cargo.toml",
        "../../Cargo.toml",
        "build.rs",
    ] {
        println!("cargo::rerun-if-changed={}", crates.join(input).display());
    }

    let hooks: Vec<&str> = HOOKS.iter().filter(|hook| hook.is_exported()).map(|hook| hook.name).collect();
    let interposed: Vec<&str> = INTERPOSED.iter().map(|row| row.name).collect();

    object(&out, &rt, "object", &hooks, &interposed)?;
    object(&out, &rt, "stub", &without_fibers(&hooks), &[])?;

    // What shared libraries may bind to. C++'s own functions are left to the linker, which exports
    // them where the program is linked with a C++ library.
    let cxx = |family| matches!(family, Family::New | Family::Guard);
    let exported = INTERPOSED.iter().filter(|row| !cxx(row.family)).map(|row| row.name);
    let list: String = hooks.iter().copied().chain(exported).map(|name| format!("  {name};\n")).collect();
    fs::write(out.join("dynamic.list"), format!("{{\n{list}}};\n"))?;
    Ok(())
}

/// A shared library's stub has no runtime behind it, so no fibers either; their hooks stay undefined
/// until the program brings them.
fn without_fibers<'a>(hooks: &[&'a str]) -> Vec<&'a str> {
    hooks.iter().copied().filter(|name| !name.contains("fiber")).collect()
}

fn object(out: &Path, rt: &Path, feature: &str, hooks: &[&str], interposed: &[&str]) -> Result<(), Box<dyn Error>> {
    let target_dir = out.join("rt");
    run(Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["rustc", "--profile", "rt", "--crate-type", "staticlib", "--features", feature])
        .arg("--manifest-path")
        .arg(rt.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target_dir)
        // Cancellation and exceptions unwind through our frames.
        .env("RUSTFLAGS", "-Cforce-unwind-tables=yes -Crelocation-model=pic")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER"))?;

    let archive = target_dir.join("rt/libselvedge_rt.a");
    let joined = out.join(format!("{feature}.joined.o"));
    let mut ld = Command::new("ld");
    // Only what the hooks reach: a shared library's stub must not drag thread-local storage along.
    ld.args(["-r", "--gc-sections"]).arg("-o").arg(&joined);
    let symbols =
        hooks.iter().map(|name| (*name).to_owned()).chain(interposed.iter().map(|name| format!("{INTERPOSER}{name}")));
    for symbol in symbols {
        ld.arg("-u").arg(symbol);
    }
    run(ld.arg(&archive))?;

    let renames: String = OWN
        .iter()
        .map(|name| format!("{name} selvedge_rt_{name}\n"))
        .chain(interposed.iter().map(|name| format!("{INTERPOSER}{name} {name}\n")))
        .collect();
    // First the references, then the names: an interposer must not be taken for a reference.
    let renames_file = out.join(format!("{feature}.renames"));
    fs::write(&renames_file, renames)?;
    let renamed = out.join(format!("{feature}.renamed.o"));
    run(Command::new("objcopy")
        .arg("--redefine-syms")
        .arg(&renames_file)
        .arg("--strip-debug")
        .arg(&joined)
        .arg(&renamed))?;

    // Joined again, so that renamed references meet the definitions.
    let bound = out.join(format!("{feature}.bound.o"));
    run(Command::new("ld").arg("-r").arg("-o").arg(&bound).arg(&renamed))?;

    let globals: String = hooks.iter().chain(interposed).map(|name| format!("{name}\n")).collect();
    let globals_file = out.join(format!("{feature}.globals"));
    fs::write(&globals_file, &globals)?;
    // Weak: a program that defines such a function itself keeps its own.
    let weak: String = match feature {
        "stub" => globals,
        _ => globals.lines().filter(|name| !name.starts_with("__tsan_")).map(|name| format!("{name}\n")).collect(),
    };
    let weak_file = out.join(format!("{feature}.weak"));
    fs::write(&weak_file, weak)?;
    run(Command::new("objcopy")
        .arg(concat_arg("--keep-global-symbols=", &globals_file))
        .arg(concat_arg("--weaken-symbols=", &weak_file))
        .arg(&bound)
        .arg(out.join(format!("{feature}.o"))))
}

fn concat_arg(option: &str, path: &Path) -> OsString {
    let mut arg = OsString::from(option);
    arg.push(path);
    arg
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output =
        command.output().map_err(|why| format!("cannot start {shown}: {why} (binutils come with any C compiler)"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{shown} failed: {}", String::from_utf8_lossy(&output.stderr)).into())
}
