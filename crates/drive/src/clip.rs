//! Clips: a schedule with everything that is needed to run it again.
//!
//! A clip is one JSON file: which program (path and build-id), its inputs (arguments, standard input, environment,
//! working directory), which sites are armed, what the world looks like, the schedule, what each switch met when it
//! was made, and how the run ended.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use selvedge_events::SiteId;
use selvedge_findings::Outcome;
use selvedge_sched::moment::NO_SITE;
use selvedge_sched::schedule::flags;
use selvedge_sched::text::Schedule;
use selvedge_sched::{OpKind, Spec, Step, Switch, When};
use serde::{Deserialize, Serialize};

use crate::control::World;
use crate::failure::{Signature, Wrong};
use crate::guard::keys::ImageFile;
use crate::plan::ImageSpec;
use crate::program::{hex, unhex};
use crate::server::Inputs;
use crate::store::{StoreError, write_whole};

/// Version of the file.
///
/// 1: first.
pub const VERSION: u32 = 1;

/// A schedule with everything that is needed to run it again.
#[derive(Clone, Debug, PartialEq)]
pub struct Clip {
    /// The program's file.
    pub program: PathBuf,
    /// Its build-id.
    pub build_id: Vec<u8>,
    /// What it is started with; the standard input is a file of its own while the clip is in use.
    pub inputs: ClipInputs,
    /// The armed sites.
    pub images: Vec<ImageSpec>,
    /// Where the images are, as far as that is known.
    pub files: Vec<ImageFile>,
    /// What the world looks like.
    pub world: World,
    /// Most steps.
    pub most_steps: u64,
    /// A command that says whether a run passed.
    pub oracle: Option<String>,
    /// The schedule, with what each switch met; empty where it is too long to be written down.
    pub script: Vec<Step>,
    /// The strategy that makes the schedule again, where it is too long to be written down.
    pub by_strategy: Option<Spec>,
    /// How the run ended.
    pub outcome: Outcome,
    /// What went wrong.
    pub wrong: Option<Wrong>,
    /// Choices in the run.
    pub steps: u64,
    /// The digest of all its choices.
    pub digest: u64,
}

/// What a program is started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClipInputs {
    /// Arguments, its own name first.
    pub argv: Vec<OsString>,
    /// Where it runs.
    pub dir: PathBuf,
    /// Its environment, whole.
    pub env: Vec<(OsString, OsString)>,
    /// What it reads.
    pub stdin: Vec<u8>,
}

/// Why a clip cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClipError {
    /// It cannot be read.
    #[error("cannot read the clip `{}`", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is no clip.
    #[error("`{}` is no clip, or only a part of one: line {line}, column {column}: {what}; `selvedge hunt` and `selvedge explore` keep clips in .selvedge/clips", path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where.
        line: usize,
        /// Where in it.
        column: usize,
        /// What is wrong.
        what: String,
    },
    /// It is of another version.
    #[error("`{}` is a clip of version {version}; this selvedge reads version {VERSION}", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// A field makes no sense.
    #[error("`{}`: {field}: {what}", path.display())]
    Field {
        /// The file.
        path: PathBuf,
        /// Which.
        field: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The program was built anew.
    #[error(
        "`{}` is not the build that the clip was made with (build-id {found}, the clip has {wanted}): \
         explore again, or give the old build back its path",
        program.display()
    )]
    OtherBuild {
        /// The program.
        program: PathBuf,
        /// Its build-id.
        found: String,
        /// The clip's.
        wanted: String,
    },
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] StoreError),
}

/// The file's form. Bytes that are not text are kept in hexadecimal behind `hex:`.
#[derive(Serialize, Deserialize)]
struct Form {
    version: u32,
    program: FormProgram,
    argv: Vec<String>,
    dir: String,
    env: Vec<(String, String)>,
    stdin: String,
    world: World,
    most_steps: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    oracle: Option<String>,
    schedule: String,
    /// The packed strategy in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by_strategy: Option<String>,
    /// Site and kind of operation that each switch met.
    met: Vec<(u32, u8)>,
    outcome: Outcome,
    wrong: Option<Wrong>,
    steps: u64,
    digest: String,
    images: Vec<FormImage>,
}

#[derive(Serialize, Deserialize)]
struct FormProgram {
    path: String,
    build_id: String,
}

#[derive(Serialize, Deserialize)]
struct FormImage {
    build_id: String,
    /// `ordinal:id`, by ordinal.
    sites: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    table: String,
    /// Its file, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

const HEX: &str = "hex:";

fn to_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with(HEX) => text.to_owned(),
        _ => format!("{HEX}{}", hex(bytes)),
    }
}

fn to_bytes(text: &str) -> Option<Vec<u8>> {
    match text.strip_prefix(HEX) {
        Some(digits) => unhex(digits),
        None => Some(text.as_bytes().to_vec()),
    }
}

fn os_text(text: &OsStr) -> String {
    to_text(text.as_bytes())
}

impl Clip {
    /// The schedule by itself.
    pub fn schedule(&self) -> Schedule {
        self.script.iter().map(Step::switch).collect()
    }

    /// Which failure it shows.
    pub fn signature(&self) -> Option<&Signature> {
        self.wrong.as_ref().map(|wrong| &wrong.signature)
    }

    /// Switches that stop a thread which could have gone on.
    pub fn preemptions(&self) -> usize {
        self.script.iter().filter(|step| step.is_preemption()).count()
    }

    /// The images' files; the program's own where the clip does not say so.
    pub fn files(&self) -> Vec<ImageFile> {
        let own = ImageFile { build_id: self.build_id.clone(), path: self.program.clone() };
        let others = self.files.iter().filter(|file| file.build_id != own.build_id).cloned();
        std::iter::once(own.clone()).chain(others).collect()
    }

    /// Where an image is, if that is known.
    fn file_of(&self, build_id: &[u8]) -> Option<&ImageFile> {
        self.files.iter().find(|file| file.build_id == build_id)
    }

    /// The clip's file, as text.
    pub fn to_json(&self) -> String {
        let image = |image: &ImageSpec| FormImage {
            build_id: hex(&image.build_id),
            sites: image.sites.iter().map(|(ordinal, id)| format!("{ordinal}:{id}")).collect::<Vec<_>>().join(" "),
            table: hex(&image.table),
            path: self.file_of(&image.build_id).map(|file| os_text(file.path.as_os_str())),
        };
        let form = Form {
            version: VERSION,
            program: FormProgram { path: os_text(self.program.as_os_str()), build_id: hex(&self.build_id) },
            argv: self.inputs.argv.iter().map(|arg| os_text(arg)).collect(),
            dir: os_text(self.inputs.dir.as_os_str()),
            env: self.inputs.env.iter().map(|(key, value)| (os_text(key), os_text(value))).collect(),
            stdin: to_text(&self.inputs.stdin),
            world: self.world,
            most_steps: self.most_steps,
            oracle: self.oracle.clone(),
            schedule: self.schedule().to_string(),
            by_strategy: self.by_strategy.map(|spec| hex(&spec.to_bytes())),
            met: self.script.iter().map(|step| (step.site.0, step.kind as u8)).collect(),
            outcome: self.outcome,
            wrong: self.wrong.clone(),
            steps: self.steps,
            digest: format!("{:016x}", self.digest),
            images: self.images.iter().map(image).collect(),
        };
        serde_json::to_string_pretty(&form).unwrap_or_default()
    }

    /// Writes the clip.
    pub fn save(&self, path: &Path) -> Result<(), ClipError> {
        Ok(write_whole(path, self.to_json().as_bytes())?)
    }

    /// Reads a clip.
    pub fn load(path: &Path) -> Result<Clip, ClipError> {
        let text = std::fs::read(path).map_err(|source| ClipError::Read { path: path.to_owned(), source })?;
        Clip::from_json(path, &text)
    }

    /// Reads a clip's text; `path` is for messages.
    pub fn from_json(path: &Path, text: &[u8]) -> Result<Clip, ClipError> {
        let syntax = |error: serde_json::Error| ClipError::Syntax {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
            what: error.to_string().split(" at line ").next().unwrap_or_default().to_owned(),
        };
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let Versioned { version } = serde_json::from_slice(text).map_err(syntax)?;
        if version != VERSION {
            return Err(ClipError::Version { path: path.to_owned(), version });
        }
        let form: Form = serde_json::from_slice(text).map_err(syntax)?;
        let field =
            |field: &'static str, what: &str| ClipError::Field { path: path.to_owned(), field, what: what.to_owned() };
        let bytes = |name: &'static str, text: &str| to_bytes(text).ok_or_else(|| field(name, "not hexadecimal"));
        let os = |name: &'static str, text: &str| bytes(name, text).map(OsString::from_vec);
        let schedule: Schedule = form.schedule.parse().map_err(|error: selvedge_sched::text::ParseError| {
            ClipError::Field { path: path.to_owned(), field: "schedule", what: error.to_string() }
        })?;
        if form.met.len() != schedule.len() {
            return Err(field("met", "must have an entry for each switch"));
        }
        let met = schedule.iter().zip(&form.met);
        let script = met.map(|(switch, (site, kind))| Step {
            site: SiteId(*site),
            kind: OpKind::from_u8(*kind),
            ..bare(switch)
        });
        let unpack = |text: &str| Spec::from_bytes(&unhex(text)?.try_into().ok()?);
        let by_strategy = match &form.by_strategy {
            Some(text) => Some(unpack(text).ok_or_else(|| field("by_strategy", "no strategy of this version"))?),
            None => None,
        };
        let (mut images, mut files) = (Vec::new(), Vec::new());
        for image in &form.images {
            let mut sites = Vec::new();
            for pair in image.sites.split_whitespace() {
                let (ordinal, id) = pair.split_once(':').ok_or_else(|| field("images", "sites are ordinal:id"))?;
                let number = |text: &str| text.parse().map_err(|_| field("images", "sites are ordinal:id"));
                sites.push((number(ordinal)?, number(id)?));
            }
            if !sites.is_sorted_by(|a: &(u32, u32), b| a.0 < b.0) {
                return Err(field("images", "sites must ascend"));
            }
            let build_id = unhex(&image.build_id).ok_or_else(|| field("images", "build-ids are hexadecimal"))?;
            if let Some(path) = &image.path {
                files.push(ImageFile { build_id: build_id.clone(), path: os("images", path)?.into() });
            }
            images.push(ImageSpec {
                build_id,
                sites,
                table: unhex(&image.table).ok_or_else(|| field("images", "tables are hexadecimal"))?,
            });
        }
        Ok(Clip {
            program: os("program", &form.program.path)?.into(),
            build_id: unhex(&form.program.build_id).ok_or_else(|| field("program", "build-ids are hexadecimal"))?,
            inputs: ClipInputs {
                argv: form.argv.iter().map(|arg| os("argv", arg)).collect::<Result<_, _>>()?,
                dir: os("dir", &form.dir)?.into(),
                env: form.env.iter().map(|(key, value)| Ok((os("env", key)?, os("env", value)?))).collect::<Result<
                    _,
                    ClipError,
                >>(
                )?,
                stdin: bytes("stdin", &form.stdin)?,
            },
            script: script.collect(),
            by_strategy,
            images,
            files,
            world: form.world,
            most_steps: form.most_steps,
            oracle: form.oracle,
            outcome: form.outcome,
            wrong: form.wrong,
            steps: form.steps,
            digest: u64::from_str_radix(&form.digest, 16).map_err(|_| field("digest", "not hexadecimal"))?,
        })
    }

    /// Checks that the program is the one that the clip was made with.
    pub fn check_build(&self) -> Result<(), ClipError> {
        let read = |source| ClipError::Read { path: self.program.clone(), source };
        let found = match selvedge_image::Image::open(&self.program) {
            Ok(image) => image.build_id().to_vec(),
            Err(error) => return Err(read(io::Error::other(error))),
        };
        if found != self.build_id {
            let (found, wanted) = (hex(&found), hex(&self.build_id));
            return Err(ClipError::OtherBuild { program: self.program.clone(), found, wanted });
        }
        Ok(())
    }

    /// The inputs, with the standard input in a file of `dir`.
    pub fn unpack(&self, dir: &Path) -> io::Result<Inputs> {
        let stdin = dir.join("stdin-of-clip");
        std::fs::write(&stdin, &self.inputs.stdin)?;
        Ok(Inputs {
            program: self.program.clone(),
            argv: self.inputs.argv.clone(),
            dir: self.inputs.dir.clone(),
            env: self.inputs.env.clone(),
            stdin,
        })
    }
}

/// A switch that expects nothing in particular.
pub fn bare(switch: &Switch) -> Step {
    let standing = match switch.when {
        When::Arriving => flags::READY,
        When::Stuck => 0,
    };
    let short = |thread: selvedge_events::ThreadIx| u16::try_from(thread.0).unwrap_or(u16::MAX);
    Step {
        thread: short(switch.thread),
        to: short(switch.to),
        point: switch.point,
        site: NO_SITE,
        kind: OpKind::Other,
        flags: standing,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use selvedge_events::ThreadIx;
    use selvedge_findings::Harm;

    use super::*;

    fn clip() -> Clip {
        let step = |thread: u16, point, to, site, kind| Step {
            thread,
            to,
            point,
            site: SiteId(site),
            kind,
            flags: flags::READY,
        };
        Clip {
            program: "/bin/prog".into(),
            build_id: vec![0xab; 20],
            inputs: ClipInputs {
                argv: vec!["prog".into(), OsString::from_vec(vec![0xff, b'x'])],
                dir: "/tmp".into(),
                env: vec![("A".into(), "b=c".into())],
                stdin: vec![0, 159, 146],
            },
            images: vec![ImageSpec { build_id: vec![1; 20], sites: vec![(3, 1), (9, 0)], table: vec![] }],
            files: vec![ImageFile { build_id: vec![1; 20], path: "/lib/one.so".into() }],
            world: World::default(),
            most_steps: 99,
            oracle: Some("true".into()),
            script: vec![step(0, 2, 1, 7, OpKind::Read), step(1, 4, 0, u32::MAX, OpKind::Lock)],
            by_strategy: Some(Spec { seed: 9, ..Spec::default() }),
            outcome: Outcome::of_code(3),
            wrong: Some(Wrong {
                signature: Signature { harm: Harm::WrongExit, detail: "exit code #".into() },
                words: "exit code 3".into(),
            }),
            steps: 12,
            digest: u64::MAX,
        }
    }

    fn read(text: &str) -> Result<Clip, String> {
        Clip::from_json(Path::new("x.clip"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn clips_round_trip_with_bytes_that_are_no_text() {
        let clip = clip();
        assert_eq!(read(&clip.to_json()), Ok(clip.clone()));
        assert_eq!(clip.schedule().to_string(), "s1:0@2-1,1@4-0");
        assert_eq!(clip.preemptions(), 2);
    }

    #[test]
    fn what_is_wrong_with_a_clip_is_said_where_it_is() {
        let good = clip().to_json();
        let cases = [
            ("", "line 1"),
            ("{}", "missing field `version`"),
            ("{\"version\": 9}", "version 9"),
            (&good.replace("s1:0@2-1", "s1:0@2?1"), "schedule: at byte 6"),
            (&good.replace("\"3:1 9:0\"", "\"9:1 3:0\""), "sites must ascend"),
            (&good.replace("\"3:1 9:0\"", "\"9\""), "ordinal:id"),
            (&good.replace("hex:009f92", "hex:0"), "stdin: not hexadecimal"),
            (&good.replace("\"0900", "\"09"), "by_strategy: no strategy"),
            (&good.replace("ffffffffffffffff", "y"), "digest"),
            (&good.replacen("[\n      7,\n      2\n    ],", "", 1), "an entry for each switch"),
        ];
        for (text, expect) in cases {
            let error = read(text).expect_err(expect);
            assert!(error.contains(expect), "{error}\nwanted: {expect}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_survive_as_text(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(to_bytes(&to_text(&bytes)), Some(bytes));
        }

        #[test]
        fn damage_is_an_error_never_a_panic(at in 0_usize..2000, byte in any::<u8>()) {
            let mut text = clip().to_json().into_bytes();
            let len = text.len();
            text[at % len] = byte;
            drop(Clip::from_json(Path::new("x.clip"), &text));
        }
    }

    #[test]
    fn a_bare_switch_keeps_its_place() {
        let switch = Switch { thread: ThreadIx(2), point: 7, when: When::Stuck, to: ThreadIx(1) };
        assert_eq!(bare(&switch).switch(), switch);
    }
}
