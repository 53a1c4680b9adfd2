//! Response files (`@file`), read the way gcc and clang read them.
//!
//! The wrapper passes `@file` on as it stands, but has to know what is inside to classify the command. A name that
//! cannot be read is an ordinary input, as in gcc. Nested names are relative to the working directory.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// How deep response files may name each other. Deeper ones are handed to the compiler unread, which will refuse a cycle.
const MAX_DEPTH: usize = 32;

/// Replaces every readable `@file` by the words in it. `read` gives a file's bytes, or `None` if it cannot be read.
pub fn expand(args: &[OsString], read: &dyn Fn(&Path) -> Option<Vec<u8>>) -> Vec<OsString> {
    let mut out = Vec::with_capacity(args.len());
    for arg in args {
        expand_one(arg, read, 0, &mut out);
    }
    out
}

fn expand_one(arg: &OsStr, read: &dyn Fn(&Path) -> Option<Vec<u8>>, depth: usize, out: &mut Vec<OsString>) {
    let content = match arg.as_bytes() {
        [b'@', name @ ..] if !name.is_empty() && depth < MAX_DEPTH => read(Path::new(OsStr::from_bytes(name))),
        _ => None,
    };
    match content {
        Some(bytes) => {
            for word in split(&bytes) {
                expand_one(&word, read, depth + 1, out);
            }
        }
        None => out.push(arg.to_owned()),
    }
}

/// Splits the text of a response file: white space separates, either quote joins, a backslash takes the next byte as
/// it is, inside quotes too (libiberty's `buildargv`, LLVM's `TokenizeGNUCommandLine`).
fn split(text: &[u8]) -> Vec<OsString> {
    let mut words = Vec::new();
    let mut word: Option<Vec<u8>> = None;
    let mut quote = None;
    let mut bytes = text.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => word.get_or_insert_default().extend(bytes.next()),
            _ if quote == Some(byte) => quote = None,
            b'\'' | b'"' if quote.is_none() => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c if quote.is_none() => {
                words.extend(word.take().map(OsString::from_vec));
            }
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word.map(OsString::from_vec));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        split(text.as_bytes()).into_iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn splits_as_gcc_does() {
        let cases: &[(&str, &[&str])] = &[
            ("", &[]),
            (" \n\t ", &[]),
            ("-c x.c", &["-c", "x.c"]),
            ("-c\nx.c\n", &["-c", "x.c"]),
            ("'a b' \"c d\"", &["a b", "c d"]),
            ("a\\ b", &["a b"]),
            ("\"a\\\"b\"", &["a\"b"]),
            ("'a\\'b'", &["a'b"]),
            ("-DX='\"s\"'", &["-DX=\"s\""]),
            ("''", &[""]),
            ("a''b", &["ab"]),
            ("\"it's\"", &["it's"]),
            ("'unclosed end", &["unclosed end"]),
            ("trailing\\", &["trailing"]),
        ];
        for (text, expected) in cases {
            assert_eq!(words(text), *expected, "{text:?}");
        }
    }

    #[test]
    fn nested_files_expand_in_place_and_missing_ones_stay() {
        let read = |path: &Path| match path.to_str() {
            Some("outer") => Some(b"-c @inner @absent".to_vec()),
            Some("inner") => Some(b"x.c -o 'x y.o'".to_vec()),
            _ => None,
        };
        let args = ["@outer", "-g", "@"].map(OsString::from);
        let expected = ["-c", "x.c", "-o", "x y.o", "@absent", "-g", "@"].map(OsString::from);
        assert_eq!(expand(&args, &read), expected);
    }

    #[test]
    fn a_cycle_ends() {
        let read = |_: &Path| Some(b"@again".to_vec());
        assert_eq!(expand(&["@again".into()], &read), [OsString::from("@again")]);
    }
}
