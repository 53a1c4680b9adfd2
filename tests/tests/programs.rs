//! The programs as such: directives are sound, clean and racy ones build and end as they say.

use std::fs;

use selvedge_itest::{Folder, Gaps, Program, Toolchain, check_directive, guilty_lines, programs_dir, run_all};

fn all_programs() -> Vec<Program> {
    let folders = Folder::ALL.into_iter();
    folders.flat_map(|folder| Program::all_in(folder).expect("programs are readable")).collect()
}

#[test]
fn directives_name_companions_that_exist() {
    let programs = all_programs();
    for program in &programs {
        for file in &program.directives.companions {
            assert!(program.companion(file).is_file(), "{}: {file}", program.name);
        }
    }
    for entry in fs::read_dir(programs_dir().join("hostile")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let used = |program: &Program| program.directives.companions.contains(&name);
        assert!(!name.starts_with("lib_") || programs.iter().any(used), "{name} is nobody's companion");
    }
}

#[test]
fn known_gaps_name_programs_that_exist() {
    let programs = all_programs();
    for gap in Gaps::load().unwrap().iter() {
        assert!(programs.iter().any(|program| program.name == gap.program), "known_gaps.tsv names {}", gap.program);
    }
}

#[test]
fn only_racy_programs_have_guilty_lines_and_all_of_them_do() {
    for folder in Folder::ALL {
        for program in Program::all_in(folder).unwrap() {
            let text = fs::read_to_string(&program.source).unwrap();
            let lines = guilty_lines(&text);
            assert_eq!(!lines.is_empty(), folder == Folder::Race, "{}: {lines:?}", program.name);
            assert!(lines.iter().all(|(_, kind)| *kind == "race"));
        }
    }
}

#[test]
fn clean_and_racy_programs_end_as_they_say() {
    let native = Toolchain::native();
    for folder in [Folder::Clean, Folder::Race] {
        let programs = Program::all_in(folder).unwrap();
        let report = run_all("native", &programs, |p| check_directive(&native, p));
        let gaps = Gaps::default();
        assert!(report.problems(&gaps).is_empty(), "{}", report.render(&gaps));
    }
}
