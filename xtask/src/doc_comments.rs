//! Doc comments as data: what a source file says of an enum's variants, and a note in its head.
//!
//! Reads the house style's layout, not Rust: one variant a line, its `///` lines directly above.

/// The first paragraph of the doc comment of each variant of `pub enum NAME`, in order.
pub(crate) fn variants(source: &str, name: &str) -> Vec<(String, String)> {
    let head = format!("pub enum {name} {{");
    let mut found = Vec::new();
    let mut doc = Vec::new();
    for line in source.lines().skip_while(|line| line.trim() != head).skip(1) {
        let line = line.trim();
        if line == "}" {
            break;
        }
        if let Some(text) = line.strip_prefix("///") {
            doc.push(text.trim());
            continue;
        }
        let variant: String = line.chars().take_while(char::is_ascii_alphanumeric).collect();
        if !variant.is_empty() {
            let paragraph: Vec<&str> = doc.iter().copied().take_while(|line| !line.is_empty()).collect();
            found.push((variant, plain(&paragraph.join(" "))));
        }
        doc.clear();
    }
    found
}

/// The lines of the file's head comment after the marked note of that title, up to the end of the comment.
pub(crate) fn note(source: &str, title: &str) -> Option<String> {
    let head = format!("//! `NOTE [{title}]`. ");
    let mut lines =
        source.lines().skip_while(|line| !line.starts_with(&head)).take_while(|line| line.starts_with("//!"));
    let mut text = lines.next()?.strip_prefix(&head)?.to_owned();
    for line in lines {
        let line = line.strip_prefix("//!").unwrap_or(line);
        text.push('\n');
        text.push_str(line.strip_prefix(' ').unwrap_or(line));
    }
    Some(plain(&text))
}

/// Turns links between items into plain code.
fn plain(text: &str) -> String {
    text.replace("[`", "`").replace("`]", "`")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
//! Things.
//!
//! `NOTE [Where]`. A thing is here:
//!
//! - at [`place`];
//!   and there.

/// No variant.
pub enum Other {
    /// Not this.
    Not,
}

#[repr(u8)]
pub enum Thing {
    /// One, as [`Other`]
    /// says.
    ///
    /// More.
    One = 1,
    Bare,
    /// Two.
    #[default]
    Two {
        /// A field.
        field: u8,
    },
}
";

    #[test]
    fn variants_have_their_first_paragraph() {
        let found = variants(SOURCE, "Thing");
        let found: Vec<(&str, &str)> = found.iter().map(|(name, doc)| (name.as_str(), doc.as_str())).collect();
        assert_eq!(found[..2], [("One", "One, as `Other` says."), ("Bare", "")]);
        assert_eq!(variants(SOURCE, "Absent"), []);
    }

    #[test]
    fn notes_end_with_the_comment() {
        assert_eq!(note(SOURCE, "Where").unwrap(), "A thing is here:\n\n- at `place`;\n  and there.");
        assert_eq!(note(SOURCE, "Absent"), None);
    }
}
