//! Notes of what was compiled, in `compile_commands.json` form.
//!
//! Wrappers run side by side, so each takes the file's lock, and each leaves a complete JSON array behind: one entry a line, an
//! entry that is already there is not repeated. The words are those given to the real compiler, as tools expect to run it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::args::{Action, CommandLine};
use super::compiler::Compiler;

/// Why a compilation was not noted.
#[derive(Debug, thiserror::Error)]
pub enum NoteError {
    /// The file could not be read or written.
    #[error("cannot add to `{}` ({source}); the build goes on without it", file.display())]
    File {
        /// The file.
        file: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file holds something else.
    #[error("`{}` is not an array of compile commands; the build goes on without it, move it away", file.display())]
    Foreign {
        /// The file.
        file: PathBuf,
    },
}

/// Adds an entry for every source of a compilation to `file`.
///
/// # Errors
/// If the file cannot be updated; it is then as it was.
pub(super) fn note(file: &Path, compiler: &Compiler, args: &[OsString], line: &CommandLine) -> Result<(), NoteError> {
    if !matches!(line.action, Action::Compile | Action::CompileAndLink) {
        return Ok(());
    }
    let failed = |source| NoteError::File { file: file.to_owned(), source };
    let directory = std::env::current_dir().map_err(failed)?;
    let words: Vec<String> = compiler.words().iter().chain(args).map(|word| json_string(word.as_bytes())).collect();
    let words = words.join(",");
    let entries: Vec<String> = line
        .inputs
        .iter()
        .filter(|input| input.language.is_instrumentable() && input.path != Path::new("-"))
        .map(|input| {
            let output = line.output.as_deref().map_or_else(String::new, |output| {
                format!(",\"output\":{}", json_string(output.as_os_str().as_bytes()))
            });
            format!(
                "{{\"directory\":{},\"file\":{},\"arguments\":[{words}]{output}}}",
                json_string(directory.as_os_str().as_bytes()),
                json_string(input.path.as_os_str().as_bytes()),
            )
        })
        .collect();
    let mut out = File::options().read(true).write(true).create(true).truncate(false).open(file).map_err(failed)?;
    out.lock().map_err(failed)?;
    let mut text = String::new();
    out.read_to_string(&mut text).map_err(failed)?;
    let Some(text) = with_entries(&text, &entries) else {
        let file = file.to_owned();
        return Err(NoteError::Foreign { file });
    };
    out.seek(SeekFrom::Start(0)).map_err(failed)?;
    out.write_all(text.as_bytes()).map_err(failed)
}

/// The array with the entries added at its end; `None` if `text` is no array. It never shrinks.
fn with_entries(text: &str, entries: &[String]) -> Option<String> {
    let body = match text.trim() {
        "" => "",
        array => array.strip_prefix('[')?.strip_suffix(']')?.trim(),
    };
    let fresh = entries.iter().filter(|entry| !body.contains(*entry));
    let all: Vec<&str> =
        Some(body).filter(|body| !body.is_empty()).into_iter().chain(fresh.map(String::as_str)).collect();
    Some(format!("[\n{}\n]\n", all.join(",\n")))
}

/// A JSON string; bytes that are not UTF-8 cannot be said in JSON and become U+FFFD.
fn json_string(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_added_once() {
        let one = ["{\"a\":1}".to_owned()];
        let two = ["{\"b\":2}".to_owned()];
        let text = with_entries("", &one).expect("an array");
        assert_eq!(text, "[\n{\"a\":1}\n]\n");
        assert_eq!(with_entries(&text, &one).expect("an array"), text);
        let text = with_entries(&text, &two).expect("an array");
        assert_eq!(text, "[\n{\"a\":1},\n{\"b\":2}\n]\n");
        assert_eq!(with_entries("[]", &one).expect("an array"), "[\n{\"a\":1}\n]\n");
        assert_eq!(with_entries("{}", &one), None);
    }

    #[test]
    fn strings_are_escaped() {
        assert_eq!(json_string(b"a\"b\\c\n\xff"), "\"a\\\"b\\\\c\\u000a\u{fffd}\"");
    }
}
