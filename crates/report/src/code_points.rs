//! Code points: the source lines that sites of a graph are on.
//!
//! A line of the user's own is preferred: where a site was inlined from a library's header, the line that it was inlined
//! into. What is in a library's own function stays there, because a graph does not know callers.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use selvedge_events::hooks::{HookClass, Rw};
use selvedge_image::{Loaded, Symboliser, load_or_build};

use crate::names::Source;

/// Names sites by build-id and offset.
#[derive(Debug, Default)]
pub struct CodePoints {
    images: BTreeMap<Vec<u8>, Known>,
    known: RefCell<BTreeMap<Place, Rc<Source>>>,
}

/// Build-id and offset.
type Place = (Vec<u8>, u32);

#[derive(Debug)]
struct Known {
    path: PathBuf,
    loaded: Loaded,
    symboliser: Symboliser,
}

impl CodePoints {
    /// No images yet: every site is called by its offset.
    pub fn new() -> CodePoints {
        CodePoints::default()
    }

    /// Adds an image, unless the file is gone or was built anew since.
    pub fn add(&mut self, build_id: &[u8], path: &Path) {
        if self.images.contains_key(build_id) {
            return;
        }
        if let Some(loaded) = load_or_build(path).ok().filter(|loaded| loaded.image.build_id() == build_id) {
            let symboliser = Symboliser::new(&loaded.image);
            self.images.insert(build_id.to_vec(), Known { path: path.to_owned(), loaded, symboliser });
        }
    }

    /// Whether an image of this file was added.
    pub fn has(&self, path: &Path) -> bool {
        self.images.values().any(|known| known.path == path)
    }

    /// Where a site is.
    pub fn source(&self, build_id: &[u8], offset: u32) -> Rc<Source> {
        let key = (build_id.to_vec(), offset);
        if let Some(known) = self.known.borrow().get(&key) {
            return Rc::clone(known);
        }
        let source = Rc::new(self.look_up(build_id, offset));
        self.known.borrow_mut().insert(key, Rc::clone(&source));
        source
    }

    /// What a site does to memory: `read`, `write`, or `access` where that is not known.
    pub fn access(&self, build_id: &[u8], offset: u32) -> &'static str {
        let hook = self.images.get(build_id).and_then(|known| {
            let at = known.loaded.entries.binary_search_by_key(&offset, |entry| entry.offset).ok()?;
            known.loaded.entries.get(at)?.hook.get()
        });
        let rw = hook.and_then(|hook| match hook.class {
            HookClass::Range { rw } => Some(rw),
            _ => hook.access().map(|(rw, _)| rw),
        });
        match rw {
            Some(Rw::Read) => "read",
            Some(Rw::Write | Rw::ReadWrite) => "write",
            None => "access",
        }
    }

    fn look_up(&self, build_id: &[u8], offset: u32) -> Source {
        let Some(Known { path, symboliser, .. }) = self.images.get(build_id) else {
            let short: String = build_id.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
            return Source { code: Some((short, offset)), ..Source::default() };
        };
        let image = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let code = Some((image, offset));
        let source = |frame: selvedge_image::lines::Frame| Source {
            function: Some(frame.function).filter(|name| !name.is_empty() && name != "??"),
            file: frame.file,
            line: frame.line,
            column: frame.column,
            code: code.clone(),
        };
        let frames: Vec<Source> = symboliser.frames(u64::from(offset)).into_iter().map(source).collect();
        Source::of_stack(&frames).cloned().unwrap_or(Source { code, ..Source::default() })
    }
}
