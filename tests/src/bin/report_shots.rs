//! Makes the pictures of docs/images: hunts three kernels of the corpus and photographs their pages.
//!
//! `cargo run -p selvedge-itest --bin report-shots -- docs/images`

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use selvedge_corpus::{Command as With, Compiler, Variant, build, load};
use selvedge_itest::{Browser, find_selvedge};

/// An atomicity violation, an order violation that crashes, a deadlock.
const KERNELS: [&str; 3] = ["bank-account", "pbzip2-teardown", "hawknl-shutdown"];
/// Name, width, height, whether it is a telephone, colour scheme.
const SHOTS: [(&str, u32, u32, bool, &str); 3] =
    [("light", 1100, 1500, false, "light"), ("dark", 1100, 1500, false, "dark"), ("phone", 390, 844, true, "light")];

fn main() -> ExitCode {
    let Some(out) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: report-shots DIR");
        return ExitCode::from(2);
    };
    match shots(&out) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("report-shots: {error}");
            ExitCode::FAILURE
        }
    }
}

fn shots(out: &Path) -> Result<(), Box<dyn Error>> {
    let selvedge = find_selvedge()?;
    let browser = Browser::start().ok_or("no Chromium: apt-get install chromium chromium-driver")?;
    let corpus = load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus"))?;
    let dir = tempfile::tempdir()?;
    fs::create_dir_all(out)?;
    let compiler = Compiler {
        cc: With::new(&selvedge, ["cc"]),
        cxx: With::new(&selvedge, ["c++"]),
        ..Compiler::native(dir.path())
    };
    for name in KERNELS {
        let kernel = corpus.kernels.iter().find(|kernel| kernel.name == name).ok_or("not in the corpus")?;
        let program = build(&kernel.program(), Variant::Buggy, &compiler)?;
        let page = dir.path().join(format!("{name}.html"));
        let mut hunt = Command::new(&selvedge);
        hunt.args(["hunt", "--runs", "8", "--budget", "30s", "--html"]).arg(format!("{name}.html")).arg("--");
        hunt.arg(Path::new(".").join(program.file_name().ok_or("no name")?)).args(&kernel.args);
        let done = hunt.current_dir(dir.path()).output()?;
        if done.status.code() != Some(66) {
            return Err(format!("{name}: {}", String::from_utf8_lossy(&done.stderr)).into());
        }
        for (shot, width, height, is_phone, scheme) in SHOTS {
            browser.screen(width, height, is_phone);
            browser.prefers(scheme);
            browser.open_file(&page);
            browser.until("document.querySelector('.tl-event')");
            if is_phone {
                browser.eval("document.querySelector('.finding').scrollIntoView()");
            }
            let file = out.join(format!("report-{name}-{shot}.png"));
            fs::write(&file, browser.screenshot())?;
            println!("{} {} bytes", file.display(), fs::metadata(&file)?.len());
        }
    }
    Ok(())
}
