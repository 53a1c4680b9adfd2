//! Frames and variables of stacks that real programs copied of themselves, below a function of the C library.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use selvedge_image::{Image, Locals, Registers, StackFrame, Unwinder};

use crate::support::{Bench, c_compilers, programs};

/// What a program said of itself.
struct Said {
    registers: Registers,
    memory: BTreeMap<u64, u64>,
    /// Addresses and what is there.
    variables: Vec<(u64, String)>,
    /// Where each image begins and ends.
    images: BTreeMap<PathBuf, (u64, u64)>,
}

impl Said {
    fn read(text: &str) -> Said {
        let mut said = Said {
            registers: Registers { pc: 0, sp: 0, fp: 0 },
            memory: BTreeMap::new(),
            variables: Vec::new(),
            images: BTreeMap::new(),
        };
        let number = |word: &str| u64::from_str_radix(word, 16).unwrap();
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["registers", pc, sp, fp] => {
                    said.registers = Registers { pc: number(pc), sp: number(sp), fp: number(fp) }
                }
                ["word", at, word] => _ = said.memory.insert(number(at), number(word)),
                ["at", at, name] => said.variables.push((number(at), name.to_owned())),
                ["map", span, .., path] if path.starts_with('/') => {
                    let (start, end) = span.split_once('-').unwrap();
                    let image = said.images.entry(path.into()).or_insert((number(start), 0));
                    image.1 = number(end);
                }
                _ => {}
            }
        }
        said
    }

    /// The frames, innermost first, and which image each is in.
    fn frames(&self) -> Vec<(PathBuf, StackFrame)> {
        let mut out: Vec<(PathBuf, StackFrame)> = Vec::new();
        let mut registers = self.registers;
        loop {
            let pc = if out.is_empty() { registers.pc } else { registers.pc - 1 };
            let image = self.images.iter().find(|(_, (start, end))| (*start..*end).contains(&pc));
            let Some((path, (start, _))) = image else { return out };
            let unwinder = Unwinder::new(&Image::open(path).unwrap());
            let memory = |at: u64| self.memory.get(&at).copied();
            let Some(unwound) = unwinder.caller(pc - start, &registers, &memory) else { return out };
            out.push((path.clone(), StackFrame { offset: pc - start, registers, cfa: unwound.cfa }));
            registers = unwound.caller;
        }
    }
}

#[test]
fn variables_on_stacks_are_named() {
    let bench = Bench::new();
    let flags: [&[&str]; 5] = [
        &["-O0"],
        &["-O1", "-fno-omit-frame-pointer"],
        &["-O2"],
        &["-O2", "-gdwarf-4", "-no-pie", "-fno-pie"],
        &["-O2", "-gsplit-dwarf"],
    ];
    for (compiler, flags) in c_compilers().into_iter().flat_map(|compiler| flags.map(|flags| (compiler, flags))) {
        let path = bench.path("stack");
        let mut build = Command::new(compiler);
        bench.run(build.args(["-g", "-Wl,--build-id", "-o"]).arg(&path).arg(programs().join("stack.c")).args(flags));
        let said = Said::read(&bench.run(&mut Command::new(&path)));
        let frames = said.frames();
        let own = frames.iter().filter(|(image, _)| *image == path.canonicalize().unwrap());
        assert!(own.count() >= 3 && frames.iter().any(|(image, _)| *image != path), "{compiler} {flags:?}: {frames:?}");
        let locals = Locals::new(&Image::open(&path).unwrap());
        let mut named = 0;
        for (at, name) in &said.variables {
            let frame = frames.iter().find(|(_, frame)| (frame.registers.sp..frame.cfa).contains(at));
            let Some((_, frame)) = frame else { panic!("{compiler} {flags:?}: {name} is in no frame") };
            let memory = |at: u64| said.memory.get(&at).copied();
            assert_eq!(locals.name(frame, *at, &memory).as_deref(), Some(&**name), "{compiler} {flags:?}");
            named += 1;
        }
        assert!(named > 5, "{named} variables");
        for (_, frame) in &frames {
            assert_eq!(locals.name(frame, frame.cfa.wrapping_add(1 << 40), &|_| None), None);
        }
    }
}
