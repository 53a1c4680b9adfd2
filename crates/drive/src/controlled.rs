//! What all controlled commands begin with: find the program, keep its input, survey it, choose the sites.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use selvedge_findings::Outcome;
use selvedge_trace::Survey;

use crate::arm::{Armed, ImageSites};
use crate::clip::{Clip, ClipInputs};
use crate::control::World;
use crate::explore::inputs_here;
use crate::guest_input::GuestInput;
use crate::plan::{DEFAULT_MEMORY_LIMIT_MB, ImageSpec};
use crate::program::{FindProgramError, Program};
use crate::run::{Guest, Stop};
use crate::server::Inputs;
use crate::store::{Store, StoreError};
use crate::survey::{SurveyError, SurveyRequest, Surveyed, survey};

/// A program that is ready for controlled runs.
#[derive(Debug)]
pub struct Prepared {
    /// The program.
    pub program: Program,
    /// What it is started with.
    pub inputs: Inputs,
    /// What it reads.
    pub stdin: Vec<u8>,
    /// The armed sites.
    pub images: Vec<ImageSpec>,
    /// How many of which sort.
    pub armed: Armed,
    /// The survey behind that.
    pub surveyed: Surveyed,
    /// For files of controlled runs.
    pub scratch: tempfile::TempDir,
}

impl Prepared {
    /// A clip of this program that has everything but a schedule.
    pub fn clip(&self, world: World, most_steps: u64, oracle: Option<String>) -> Clip {
        let inputs = ClipInputs {
            argv: self.inputs.argv.clone(),
            dir: self.inputs.dir.clone(),
            env: self.inputs.env.clone(),
            stdin: self.stdin.clone(),
        };
        Clip {
            program: self.program.path.clone(),
            build_id: self.program.build_id.clone(),
            inputs,
            images: self.images.clone(),
            files: self.surveyed.files(),
            world,
            most_steps,
            oracle,
            script: Vec::new(),
            by_strategy: None,
            outcome: Outcome::Unknown,
            wrong: None,
            steps: 0,
            digest: 0,
        }
    }
}

/// Why a program is not ready.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrepareError {
    /// The program.
    #[error(transparent)]
    Program(#[from] FindProgramError),
    /// The survey.
    #[error(transparent)]
    Survey(#[from] SurveyError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its input.
    #[error("cannot keep the program's standard input")]
    Input(#[source] io::Error),
    /// Its input is too large.
    #[error("the program's standard input has more than {MOST_INPUT} bytes: give it a file to open instead")]
    LargeInput,
    /// Schedules are those of one program.
    #[error(
        "`{}` is a script, and schedules are chosen inside one program: give the program that it starts, or use \
         `selvedge record` and `selvedge detect`, which follow scripts",
        path.display()
    )]
    Script {
        /// The script.
        path: PathBuf,
    },
    /// A directory for files.
    #[error("cannot make a directory for controlled runs")]
    Scratch(#[source] io::Error),
}

impl PrepareError {
    /// The exit code for it.
    pub fn exit_code(&self) -> u8 {
        use selvedge_findings::ExitCode;
        match self {
            PrepareError::Program(error) => error.exit_code(),
            PrepareError::Script { .. } => ExitCode::Usage.code(),
            PrepareError::Survey(SurveyError::NotInstrumented { .. }) => ExitCode::Usage.code(),
            PrepareError::Survey(SurveyError::Stopped) => 130,
            PrepareError::Store(StoreError::Create { .. }) | PrepareError::LargeInput => ExitCode::Usage.code(),
            _ => ExitCode::Internal.code(),
        }
    }
}

/// Most bytes of standard input that a clip keeps.
const MOST_INPUT: u64 = 64 << 20;

/// How to survey.
#[derive(Clone, Copy, Debug)]
pub struct SurveyOptions {
    /// Survey runs.
    pub runs: u32,
    /// Whether to survey even if a kept survey would do.
    pub fresh: bool,
    /// Most time for each run.
    pub timeout: Option<Duration>,
}

/// Makes a program ready.
pub fn prepare(
    store: &Store,
    guest: &Guest,
    options: &SurveyOptions,
    stop: &Stop,
    each: &mut dyn FnMut(u32),
) -> Result<Prepared, PrepareError> {
    prepare_with(store, guest, read_stdin()?, options, stop, each)
}

/// Makes a program ready that reads this.
pub fn prepare_with(
    store: &Store,
    guest: &Guest,
    stdin: Vec<u8>,
    options: &SurveyOptions,
    stop: &Stop,
    each: &mut dyn FnMut(u32),
) -> Result<Prepared, PrepareError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let program = Program::find(&guest.program, &path)?;
    if program.is_script {
        return Err(PrepareError::Script { path: program.path });
    }
    let scratch = scratch()?;
    let stdin_file = scratch.path().join("stdin");
    std::fs::write(&stdin_file, &stdin).map_err(PrepareError::Input)?;
    let found = Guest { program: program.path.clone().into_os_string(), args: guest.args.clone() };
    let request = SurveyRequest {
        guest: &found,
        program: &program,
        store,
        runs: options.runs,
        fresh: options.fresh,
        timeout: options.timeout,
        memory_limit_mb: DEFAULT_MEMORY_LIMIT_MB,
        stop,
    };
    let surveyed = survey(&request, &mut GuestInput::Reopen(stdin_file.clone()), each)?;
    let (images, armed) = surveyed.arm_controlled();
    let argv: Vec<OsString> = std::iter::once(&guest.program).chain(&guest.args).cloned().collect();
    let inputs = inputs_here(&program.path, argv, stdin_file).map_err(PrepareError::Scratch)?;
    Ok(Prepared { program, inputs, stdin, images, armed, surveyed, scratch })
}

/// Makes the program of a clip ready, as it was when the clip was made.
pub fn of_clip(clip: &Clip) -> Result<Prepared, PrepareError> {
    let program = Program::find(clip.program.as_os_str(), "".as_ref())?;
    let scratch = scratch()?;
    let inputs = clip.unpack(scratch.path()).map_err(PrepareError::Input)?;
    let images = clip.files().iter().filter_map(|file| ImageSites::load(&file.path, &file.build_id)).collect();
    let surveyed =
        Surveyed { survey: Survey::default(), images, runs: 0, kept: true, end: None, lost: false, by_hand: false };
    Ok(Prepared {
        program,
        inputs,
        stdin: clip.inputs.stdin.clone(),
        images: clip.images.clone(),
        armed: Armed::default(),
        surveyed,
        scratch,
    })
}

/// A directory for files of controlled runs, in memory where the system has room for such.
pub fn scratch() -> Result<tempfile::TempDir, PrepareError> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("selvedge-");
    let memory = Path::new("/dev/shm");
    builder.tempdir_in(memory).or_else(|_| builder.tempdir()).map_err(PrepareError::Scratch)
}

/// Our own standard input, whole; nothing from a terminal.
fn read_stdin() -> Result<Vec<u8>, PrepareError> {
    let stdin = io::stdin();
    let device = rustix::fs::fstat(&stdin).map(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode));
    if stdin.is_terminal() || matches!(device, Ok(rustix::fs::FileType::CharacterDevice) | Err(_)) {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    stdin.lock().take(MOST_INPUT + 1).read_to_end(&mut bytes).map_err(PrepareError::Input)?;
    if bytes.len() as u64 > MOST_INPUT { Err(PrepareError::LargeInput) } else { Ok(bytes) }
}

/// Where clips of a store are kept.
pub fn clips_dir(store: &Store) -> Result<PathBuf, StoreError> {
    let dir = store.dir().join("clips");
    std::fs::create_dir_all(&dir).map_err(|source| StoreError::Create { path: dir.clone(), source })?;
    Ok(dir)
}

/// The clip that was written last below a directory of runs; of equally old ones the last by name.
pub fn latest_clip(runs: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(runs.join("clips")).ok()?;
    let clip = |entry: io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path();
        let written = path.metadata().and_then(|meta| meta.modified()).ok()?;
        (path.extension()? == "clip").then_some((written, path))
    };
    entries.filter_map(clip).max().map(|(_, path)| path)
}
