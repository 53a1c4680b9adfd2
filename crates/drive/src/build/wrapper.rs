//! `selvedge cc` and `selvedge c++`: classify, plan, run the real compiler.
//!
//! C and C++ files are compiled twice, with hooks and without ([`twice`]), and the objects joined. Where nothing is left to do
//! afterwards, the compiler takes this process's place, so its exit code, signals, standard input and speed are its own. After
//! a link the wrapper stays to have the site table written. Standard streams and environment
//! are handed on untouched; under `selvedge build` the shims are taken off `PATH`, so that nothing below finds them again.
//!
//! Under ccache, prefer `SELVEDGE_CC="ccache gcc"`: ccache then sees the real compiler and the added flags. The other way
//! round (`ccache selvedge-cc`) works too, but ccache then watches this program and not gcc for a change of version.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use super::args::{Action, CommandLine, classify};
use super::compile_commands;
use super::compiler::{Bodies, Compiler, Driver, Environment, FindCompilerError, IdentifyError, write_whole};
use super::plan::{CompilerId, Family, GCC_SPECS, Plan, Refusal, RuntimeFiles, plan};
use super::response::expand;
use super::twice;

/// How a child process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// With this code.
    Code(u8),
    /// By this signal.
    Signal(i32),
}

impl Exit {
    /// The code to exit with: the child's own, or 128 and the signal's number, as shells do.
    pub fn code(self) -> u8 {
        match self {
            Self::Code(code) => code,
            Self::Signal(signal) => u8::try_from(signal.saturating_add(128)).unwrap_or(u8::MAX),
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(u8::try_from(code).unwrap_or(u8::MAX)),
            (None, Some(signal)) => Self::Signal(signal),
            (None, None) => Self::Code(u8::MAX),
        }
    }
}

/// Why the compiler was not run.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// The command could not work with the runtime.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no compiler.
    #[error(transparent)]
    Find(#[from] FindCompilerError),
    /// The compiler is not one we know.
    #[error(transparent)]
    Identify(#[from] IdentifyError),
    /// The compiler could not be started.
    #[error("cannot start the compiler `{}`; check that it can be run", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

impl WrapError {
    /// The exit code for it: 2 for a refused command, 127 for a missing compiler, 126 for one that does not start.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_) | Self::Identify(IdentifyError::Unknown { .. }) => 2,
            Self::Find(FindCompilerError::NotFound { .. }) => 127,
            Self::Find(_) => 2,
            Self::Identify(IdentifyError::Start { .. }) | Self::Start { .. } => 126,
        }
    }
}

/// What is called with every image that was linked.
pub type PostLink<'a> = dyn FnMut(&Path) -> Result<(), Box<dyn std::error::Error>> + 'a;

/// A compiler in disguise.
pub struct Wrapper<'a> {
    /// Which front end.
    pub driver: Driver,
    /// The runtime to link.
    pub runtime: &'a RuntimeFiles,
    /// Where to keep what is known about compilers. Created when needed.
    pub cache_dir: &'a Path,
    /// The running executable, which must not be taken for the compiler.
    pub own_executable: &'a Path,
    /// What the environment says.
    pub environment: Environment,
    /// Writes the site table. If it fails, a warning appears and the build goes on.
    pub post_link: &'a mut PostLink<'a>,
}

impl fmt::Debug for Wrapper<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wrapper")
            .field("driver", &self.driver)
            .field("runtime", &self.runtime)
            .field("cache_dir", &self.cache_dir)
            .field("own_executable", &self.own_executable)
            .field("environment", &self.environment)
            .finish_non_exhaustive()
    }
}

impl Wrapper<'_> {
    /// Runs the compiler for these arguments (without the program name). Does not return when the compiler
    /// takes this process's place, which is whenever nothing is linked.
    ///
    /// # Errors
    /// If the command is refused, or no compiler can be run. What the compiler itself says is not an error here.
    pub fn run(self, args: &[OsString]) -> Result<Exit, WrapError> {
        let compiler = Compiler::find(&self.driver, &self.environment, self.own_executable)?;
        let expanded = expand(args, &|path| std::fs::read(path).ok());
        let line = classify(&expanded);
        if line.action == Action::Passthrough {
            return Err(self.replace(&compiler, args));
        }
        let id = compiler.identify(self.cache_dir)?;
        if self.environment.bodies != Bodies::One && twice::applies(&expanded, &line, id) {
            // Refused as a whole, before any part of it is done.
            plan(args, &expanded, &line, id, self.runtime, None)?;
            return match line.action {
                Action::Compile => Ok(self.compile_twice(&compiler, id, &expanded, &line)?.into()),
                _ => self.build_twice(&compiler, id, &expanded, &line),
            };
        }
        let specs = self.specs(line.action, id);
        let plan = plan(args, &expanded, &line, id, self.runtime, specs.as_deref())?;
        self.note(&compiler, &plan.args, &line);
        match plan {
            Plan { args, linked: None } => Err(self.replace(&compiler, &args)),
            Plan { args, linked: Some(image) } => self.link(&compiler, &args, &image),
        }
    }

    fn note(&self, compiler: &Compiler, args: &[OsString], line: &CommandLine) {
        if let Some(file) = &self.environment.compile_commands
            && let Err(error) = compile_commands::note(file, compiler, args, line)
        {
            warn(&error);
        }
    }

    /// Compiles one file with hooks and without, side by side, and joins the objects. Where that cannot be, the one with hooks
    /// stays, and what the compiler says is of that one only.
    fn compile_twice(
        &self,
        compiler: &Compiler,
        id: CompilerId,
        args: &[OsString],
        line: &CommandLine,
    ) -> Result<ExitStatus, WrapError> {
        let mut hooked = plan(args, args, line, id, self.runtime, None)?.args;
        hooked.extend(twice::hooked_flags(id));
        self.note(compiler, &hooked, line);
        let object = twice::object(line);
        // `/dev/null` takes an object, but gives none back.
        let is_file = |path: &PathBuf| std::fs::metadata(path).map_or(true, |there| there.is_file());
        let dir = tempfile::tempdir().ok();
        let (Some(object), Some(dir)) = (object.filter(is_file), dir) else {
            return self.command(compiler, &hooked).status().map_err(|source| start_error(compiler, source));
        };
        let plain = dir.path().join("plain.o");
        let mut beside = self.command(compiler, &twice::plain_args(args, line, id, &plain));
        // It would write the user's dependencies a second time.
        beside.env_remove("DEPENDENCIES_OUTPUT").env_remove("SUNPRO_DEPENDENCIES");
        // Its words would be said twice.
        let beside = beside.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let status = self.command(compiler, &hooked).status().map_err(|source| start_error(compiler, source));
        let is_made = beside.and_then(|mut beside| beside.wait()).is_ok_and(|status| status.success());
        if status.as_ref().is_ok_and(ExitStatus::success) {
            let joined = if is_made { join_files(&plain, &object) } else { Err("it compiles with hooks only".into()) };
            if let Err(why) = joined
                && self.environment.bodies == Bodies::TwoSaid
            {
                let source = line.inputs.first().map_or(object.as_path(), |input| &input.path);
                warn(&format_args!("one body for each function of `{}`: {why}", source.display()));
            }
        }
        status
    }

    /// Compiles the files of a command one by one, and links the objects.
    fn build_twice(
        self,
        compiler: &Compiler,
        id: CompilerId,
        args: &[OsString],
        line: &CommandLine,
    ) -> Result<Exit, WrapError> {
        let program = || PathBuf::from(&compiler.words()[0]);
        let dir = tempfile::tempdir().map_err(|source| WrapError::Start { program: program(), source })?;
        let mut objects = Vec::new();
        for input in line.inputs.iter().filter(|input| input.language.is_instrumentable()) {
            let object = dir.path().join(format!("{}.o", objects.len()));
            let alone = twice::compile_alone(args, &input.path, id, &object);
            let status = self.compile_twice(compiler, id, &alone, &classify(&alone))?;
            if !status.success() {
                return Ok(status.into());
            }
            objects.push((input.path.clone(), object));
        }
        let mut args = twice::link_instead(args, &objects);
        if id.family == Family::Clang {
            // What is for compiling is not used here.
            args.push("-Wno-unused-command-line-argument".into());
        }
        let plan = plan(&args, &args, &classify(&args), id, self.runtime, None)?;
        let status = self.command(compiler, &plan.args).status().map_err(|source| start_error(compiler, source))?;
        Ok(self.linked(status, plan.linked.as_deref()))
    }

    /// The specs file for gcc, written on first use.
    fn specs(&self, action: Action, id: CompilerId) -> Option<PathBuf> {
        if action != Action::CompileAndLink || id.family != Family::Gcc {
            return None;
        }
        let file = self.cache_dir.join("gcc-hooks-1.specs");
        let there = std::fs::read(&file).is_ok_and(|text| text == GCC_SPECS.as_bytes());
        (there || write_whole(&file, GCC_SPECS.as_bytes()).is_ok()).then_some(file)
    }

    fn command(&self, compiler: &Compiler, args: &[OsString]) -> Command {
        let words = compiler.words();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(args);
        // After the user's own directories, and those that the environment names already.
        for variable in ["C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"] {
            let mut dirs = std::env::var_os(variable).unwrap_or_default();
            if !dirs.is_empty() {
                dirs.push(":");
            }
            dirs.push(&self.runtime.include);
            command.env(variable, dirs);
        }
        if self.environment.shims.is_some() {
            command.env("PATH", self.environment.path_without_shims());
        }
        command
    }

    /// Becomes the compiler; comes back only with the reason why not.
    fn replace(&self, compiler: &Compiler, args: &[OsString]) -> WrapError {
        let source = self.command(compiler, args).exec();
        start_error(compiler, source)
    }

    fn link(self, compiler: &Compiler, args: &[OsString], image: &Path) -> Result<Exit, WrapError> {
        let status = self.command(compiler, args).status().map_err(|source| start_error(compiler, source))?;
        Ok(self.linked(status, Some(image)))
    }

    /// Has the site table of what was linked written.
    fn linked(self, status: ExitStatus, image: Option<&Path>) -> Exit {
        // `-o /dev/null` and `-Wl,--version` succeed without leaving an image.
        if status.success()
            && let Some(image) = image.filter(|image| image.is_file())
            && let Err(error) = (self.post_link)(image)
        {
            warn(&format_args!(
                "no site table for `{}`: {error}; it will be made when the program is first used",
                image.display()
            ));
        }
        status.into()
    }
}

/// Puts the joined object in the place of the hooked one.
fn join_files(plain: &Path, hooked: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let joined = selvedge_image::join(&std::fs::read(plain)?, &std::fs::read(hooked)?)?;
    Ok(write_whole(hooked, &joined)?)
}

fn start_error(compiler: &Compiler, source: io::Error) -> WrapError {
    WrapError::Start { program: PathBuf::from(&compiler.words()[0]), source }
}

/// One line on standard error. That it cannot be written is nobody's concern.
fn warn(message: &dyn fmt::Display) {
    drop(writeln!(io::stderr(), "selvedge: warning: {message}"));
}
