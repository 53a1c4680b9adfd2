//! Builds the test programs and reads `objdump`'s view of them: the ground truth for sites.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use selvedge_events::hooks::{HOOKS, Hook, HookClass, by_name};
use tempfile::TempDir;

/// Compile-time flags that the wrapper adds.
pub(crate) const INSTRUMENT: &[&str] =
    &["-fsanitize=thread", "-fsanitize-coverage=trace-pc", "-g", "-fno-omit-frame-pointer"];

pub(crate) fn programs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs")
}

/// A directory with the stand-in runtime in it.
pub(crate) struct Bench {
    pub(crate) dir: TempDir,
}

impl Bench {
    pub(crate) fn new() -> Bench {
        let bench = Bench { dir: tempfile::tempdir().unwrap() };
        let performs = |hook: &Hook| match hook.class {
            HookClass::Atomic { size, .. } => size > 0 && size < 16,
            HookClass::Copy | HookClass::Libc => true,
            _ => false,
        };
        let hooks: String =
            HOOKS.iter().filter(|hook| !performs(hook)).map(|hook| format!("HOOK({})\n", hook.name)).collect();
        std::fs::write(bench.path("hooks.inc"), hooks).unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/standin.c");
        let include = format!("-I{}", bench.dir.path().display());
        let flags = ["-O1", "-fPIC", "-fno-ipa-icf", "-fno-builtin", "-fno-tree-loop-distribute-patterns", "-w", "-c"];
        bench.run(Command::new("gcc").args(flags).arg(include).arg(source).arg("-o").arg(bench.path("standin.o")));
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Compiles a program of `tests/programs` with instrumentation.
    pub(crate) fn compile(&self, compiler: &str, source: &str, object: &str, flags: &[&str]) -> PathBuf {
        let out = self.path(object);
        let mut command = Command::new(compiler);
        command.args(INSTRUMENT).args(flags).arg("-c").arg(programs().join(source)).arg("-o").arg(&out);
        self.run(&mut command);
        out
    }

    /// Links objects; never with the sanitizer's own runtime.
    pub(crate) fn link(&self, compiler: &str, objects: &[&Path], name: &str, flags: &[&str]) -> PathBuf {
        let out = self.path(name);
        self.run(Command::new(compiler).args(objects).args(flags).args(["-Wl,--build-id", "-pthread", "-o"]).arg(&out));
        out
    }

    /// Compiles one program and links it with the stand-in.
    pub(crate) fn program(&self, compiler: &str, source: &str, name: &str, compile: &[&str], link: &[&str]) -> PathBuf {
        let object = self.compile(compiler, source, &format!("{name}.o"), compile);
        self.link(compiler, &[&object, &self.path("standin.o")], name, link)
    }

    /// The Rust program, instrumented and linked with the stand-in.
    pub(crate) fn rust_program(&self) -> PathBuf {
        let out = self.path("rust_bank");
        let mut command = Command::new("rustc");
        command.env("RUSTC_BOOTSTRAP", "1").arg("--edition=2021").arg(programs().join("bank.rs")).args([
            "-Zsanitizer=thread",
            "-Zexternal-clangrt",
            "-Cunsafe-allow-abi-mismatch=sanitizer",
            "--target=x86_64-unknown-linux-gnu",
            "-g",
            "-Copt-level=1",
            "-Cpasses=sancov-module",
            "-Cllvm-args=-sanitizer-coverage-level=3",
            "-Cllvm-args=-sanitizer-coverage-trace-pc",
        ]);
        command.arg(format!("-Clink-arg={}", self.path("standin.o").display())).arg("-o").arg(&out);
        self.run(&mut command);
        out
    }

    pub(crate) fn run(&self, command: &mut Command) -> String {
        let output = command.current_dir(self.dir.path()).output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Whether a tool can be run here.
pub(crate) fn have(tool: &str) -> bool {
    Command::new(tool).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// C compilers that are present.
pub(crate) fn c_compilers() -> Vec<&'static str> {
    ["gcc", "clang"].into_iter().filter(|tool| have(tool)).collect()
}

/// The line of a source file that carries this mark.
pub(crate) fn marked(source: &str, mark: &str) -> u32 {
    let text = std::fs::read_to_string(programs().join(source)).unwrap();
    let at = text.lines().position(|line| line.ends_with(&format!("//~ {mark}")));
    u32::try_from(at.unwrap_or_else(|| panic!("{source} has no mark {mark}")) + 1).unwrap()
}

/// (link-time address, hook name) of every site, as `objdump` sees them.
pub(crate) fn sites_by_objdump(path: &Path) -> BTreeSet<(u64, String)> {
    let text = objdump(&["-d", "--no-show-raw-insn"], path);
    let slots: BTreeMap<u64, String> = objdump(&["-R"], path)
        .lines()
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let slot = u64::from_str_radix(words.next()?, 16).ok()?;
            let name = words.nth(1)?;
            Some((slot, name.split('@').next()?.to_owned()))
        })
        .collect();
    let hook_of = |name: &str| by_name(name).and_then(|hook| hook.get()).filter(|hook| hook.is_site());
    // Per function, joined with its unlikely part.
    let mut functions: BTreeMap<String, Vec<(u64, &'static Hook, bool)>> = BTreeMap::new();
    let mut function = String::new();
    let mut section = String::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("Disassembly of section ") {
            section = name.trim_end_matches(':').to_owned();
        } else if let Some((_, name)) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
            function = name.strip_suffix(".cold").unwrap_or(name).to_owned();
        } else if let Some((at, code)) = line.split_once(":\t") {
            let Ok(at) = u64::from_str_radix(at.trim(), 16) else {
                continue;
            };
            let call = code.starts_with("call") || code.contains(" call ");
            if section.starts_with(".plt") || !(call || code.starts_with("jmp")) || by_name(&function).is_some() {
                continue;
            }
            let target = if let Some((_, slot)) = code.split_once("# ") {
                let slot = u64::from_str_radix(slot.split(' ').next().unwrap(), 16).unwrap();
                slots.get(&slot).cloned()
            } else {
                let name = code.rsplit_once('<').and_then(|(_, name)| name.strip_suffix('>'));
                name.map(|name| name.split('@').next().unwrap().to_owned())
            };
            if let Some(hook) = target.and_then(|target| hook_of(&target)) {
                functions.entry(function.clone()).or_default().push((at, hook, call));
            }
        }
    }
    let libc = |hook: &Hook| matches!(hook.class, HookClass::Libc);
    let mut out = BTreeSet::new();
    for calls in functions.values() {
        let instrumented = calls.iter().any(|(_, hook, _)| hook.name.starts_with("__tsan_"));
        for (at, hook, call) in calls {
            if !libc(hook) || (instrumented && *call) {
                out.insert((*at, hook.name.to_owned()));
            }
        }
    }
    out
}

fn objdump(flags: &[&str], path: &Path) -> String {
    let output = Command::new("objdump").args(flags).arg(path).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
