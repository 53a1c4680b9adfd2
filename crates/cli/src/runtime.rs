//! The runtime's files, embedded in this program and unpacked to a cache keyed by their content.
//!
//! Build systems remember the paths (libtool writes them into its files), so they are stable for as long
//! as the runtime is the same.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use selvedge_drive::build::RuntimeFiles;

const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/object.o"));
const STUB: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stub.o"));
const LIST: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/dynamic.list"));
const HEADER: &[u8] = include_bytes!("../../../include/selvedge.h");

/// Why the runtime could not be unpacked.
#[derive(Debug, thiserror::Error)]
#[error("cannot unpack the runtime to {path}: {source}; set SELVEDGE_CACHE to a directory that can be written")]
pub(crate) struct UnpackError {
    path: PathBuf,
    source: io::Error,
}

/// Where we keep things that can be made again: `$SELVEDGE_CACHE`, `$XDG_CACHE_HOME/selvedge`,
/// `~/.cache/selvedge`, else a directory of the user's own below the temporary one.
pub(crate) fn cache_dir() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("SELVEDGE_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|dir| dir.join("selvedge")))
        .or_else(|| set("HOME").map(|dir| dir.join(".cache/selvedge")))
        .unwrap_or_else(|| std::env::temp_dir().join(format!("selvedge-{}", rustix::process::getuid().as_raw())))
}

/// Another one for another runtime.
pub(crate) fn key() -> u64 {
    [OBJECT, STUB, LIST, HEADER]
        .iter()
        .fold(0_u64, |hash, file| hash.rotate_left(17) ^ selvedge_events::bytes::checksum(file))
}

/// Unpacks what is not there yet and says where everything is.
pub(crate) fn unpack() -> Result<RuntimeFiles, UnpackError> {
    let dir = cache_dir().join(format!("runtime-{:016x}", key()));
    let put = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        write_once(&path, bytes).map_err(|source| UnpackError { path: path.clone(), source })?;
        Ok(path)
    };
    put("include/selvedge.h", HEADER)?;
    Ok(RuntimeFiles {
        include: dir.join("include"),
        object: put("selvedge-rt.o", OBJECT)?,
        dynamic_list: put("selvedge.list", LIST)?,
        shared_stub: put("selvedge-stub.o", STUB)?,
    })
}

/// Writes a file that is missing or of another size, in one step: many compilers may run at once.
fn write_once(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|there| there.len() == bytes.len() as u64) {
        return Ok(());
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir)?;
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|why| why.error)?;
    Ok(())
}
