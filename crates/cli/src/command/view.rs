//! `selvedge view`: pages of findings for a browser on this machine.
//!
//! A server of few words on the loopback interface. It knows the pages that it found when it was asked, by name, and opens
//! no file that a request names. A request must be addressed to this machine by its own names: a page of another site whose
//! name was made to lead here gets nothing.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use selvedge_findings::ExitCode;

use crate::args::ViewArgs;
use crate::command::page::{Extra, page};
use crate::command::report;
use crate::messages::Failure;

/// Serves pages until it is interrupted.
pub(crate) fn run(args: &ViewArgs) -> Result<u8, Failure> {
    let site = Site::of(&args.what)?;
    let usage = |error: io::Error| {
        let text = format!("cannot listen on 127.0.0.1:{}: {error}; try another --port", args.port);
        Failure::Error { code: ExitCode::Usage.code(), text }
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).map_err(usage)?;
    let port = listener.local_addr().map_err(usage)?.port();
    let mut out = anstream::stdout().lock();
    writeln!(out, "http://127.0.0.1:{port}/")?;
    out.flush()?;
    drop(out);
    let (site, open) = (Arc::new(site), Arc::new(AtomicUsize::new(0)));
    for connection in listener.incoming() {
        let Ok(stream) = connection else { continue };
        if args.once {
            if serve(stream, &site, port).is_ok_and(|found| found) {
                break;
            }
            continue;
        }
        // A browser opens connections ahead of its requests: they must not wait for each other.
        if open.fetch_add(1, Ordering::Relaxed) < MOST_OPEN {
            let (site, open) = (Arc::clone(&site), Arc::clone(&open));
            std::thread::spawn(move || {
                // Whoever went away does not want the answer.
                let _ = serve(stream, &site, port);
                open.fetch_sub(1, Ordering::Relaxed);
            });
        } else {
            open.fetch_sub(1, Ordering::Relaxed);
        }
    }
    Ok(ExitCode::Success.code())
}

/// Connections at once.
const MOST_OPEN: usize = 32;
/// Bytes of a request's head.
const MOST_HEAD: usize = 16 << 10;
/// Time for a request to come.
const PATIENCE: Duration = Duration::from_secs(5);

/// What there is to see.
#[derive(Debug)]
enum Site {
    /// One page.
    Page(Vec<u8>),
    /// Files by name.
    Dir(Vec<(String, PathBuf)>),
}

impl Site {
    fn of(what: &Path) -> Result<Site, Failure> {
        let usage = |text: String| Failure::Error { code: ExitCode::Usage.code(), text };
        let cannot = |error: io::Error| usage(format!("cannot read `{}`: {error}", what.display()));
        if what.is_dir() {
            let mut files = Vec::new();
            for entry in std::fs::read_dir(what).map_err(cannot)? {
                let path = entry.map_err(cannot)?.path();
                let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
                if path.is_file() && is_page(&path) {
                    files.push((name, path));
                }
            }
            files.sort();
            if files.is_empty() {
                let dir = what.display();
                return Err(usage(format!(
                    "no pages in `{dir}`: `selvedge hunt --html bugs.html -- ./prog` makes one"
                )));
            }
            return Ok(Site::Dir(files));
        }
        content(what).map(Site::Page)
    }
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "html" || end == "json")
}

/// A page; made from findings where it is a file of those.
fn content(path: &Path) -> Result<Vec<u8>, Failure> {
    if path.extension().is_some_and(|end| end == "json") {
        return Ok(page(&report::read(path)?, &Extra::default()).into_bytes());
    }
    std::fs::read(path).map_err(|error| {
        let text = format!("cannot read `{}`: {error}", path.display());
        Failure::Error { code: ExitCode::Usage.code(), text }
    })
}

/// Answers one request; whether that was a page.
fn serve(mut stream: TcpStream, site: &Site, port: u16) -> io::Result<bool> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut buffer)? {
            0 => return Ok(false),
            count => head.extend(buffer.iter().take(count)),
        }
        if head.len() > MOST_HEAD {
            break;
        }
    }
    let (is_head, answer) = answer(&String::from_utf8_lossy(&head), site, port);
    let (status, body) = match answer {
        Ok(body) => ("200 OK", body),
        Err((status, text)) => (status, text.as_bytes().to_vec()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\
         Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\r\n",
        body.len()
    )?;
    if !is_head {
        stream.write_all(&body)?;
    }
    stream.flush()?;
    Ok(status.starts_with("200"))
}

/// What a request gets, and whether it wants only the head of it.
fn answer(head: &str, site: &Site, port: u16) -> (bool, Result<Vec<u8>, (&'static str, &'static str)>) {
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or("").split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let is_head = method == "HEAD";
    let host = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("host").then(|| value.trim().to_owned())
    });
    let own = [format!("127.0.0.1:{port}"), format!("localhost:{port}")];
    if !host.is_some_and(|host| own.contains(&host)) {
        return (is_head, Err(("403 Forbidden", "This server answers to 127.0.0.1 only.\n")));
    }
    if !matches!(method, "GET" | "HEAD") {
        return (is_head, Err(("405 Method Not Allowed", "Pages can only be read.\n")));
    }
    let name = decoded(target.split(['?', '#']).next().unwrap_or("").trim_start_matches('/'));
    let missing = || Err(("404 Not Found", "There is no such page.\n"));
    let found = match (site, name.as_str()) {
        (Site::Page(page), "") => Ok(page.clone()),
        (Site::Dir(files), "") => Ok(list(files).into_bytes()),
        // By what was found when we began: a name is never taken for a path.
        (Site::Dir(files), name) => match files.iter().find(|(known, _)| known == name) {
            Some((_, path)) => content(path).or_else(|_| missing()),
            None => missing(),
        },
        _ => missing(),
    };
    (is_head, found)
}

/// A list of pages.
fn list(files: &[(String, PathBuf)]) -> String {
    let mut text = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><meta name=\"viewport\" \
                    content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\"><title>Selvedge</title>\
                    <style>body{font:16px/1.6 system-ui,sans-serif;max-width:40rem;margin:2rem auto;padding:0 1rem}</style>\
                    <h1>Reports</h1><ul>"
        .to_owned();
    for (name, _) in files {
        let link: String = name.bytes().map(encoded).collect();
        let shown = name.replace('&', "&amp;").replace('<', "&lt;");
        text.push_str(&format!("<li><a href=\"/{link}\">{shown}</a></li>"));
    }
    text.push_str("</ul></html>\n");
    text
}

fn encoded(byte: u8) -> String {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    }
}

/// Text with its `%XX` undone; what is none stays.
fn decoded(text: &str) -> String {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::new(), 0);
    while let Some(byte) = bytes.get(at) {
        match (byte, digit(bytes.get(at + 1)), digit(bytes.get(at + 2))) {
            (b'%', Some(high), Some(low)) => {
                out.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(request: &str, site: &Site) -> &'static str {
        match answer(request, site, 80).1 {
            Ok(_) => "200",
            Err((status, _)) => status,
        }
    }

    #[test]
    fn only_known_pages_are_served_and_only_to_this_machine() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("a b.html"), "<p>here").expect("written");
        std::fs::write(dir.path().join("secret.txt"), "no").expect("written");
        let site = Site::of(dir.path()).expect("has a page");
        let rows = [
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1:80\r\n", "200"),
            ("GET /a%20b.html HTTP/1.1\r\nHost: localhost:80\r\n", "200"),
            ("HEAD /a%20b.html?x=1 HTTP/1.1\r\nhost: localhost:80\r\n", "200"),
            ("GET / HTTP/1.1\r\nHost: evil.example:80\r\n", "403 Forbidden"),
            ("GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n", "403 Forbidden"),
            ("GET / HTTP/1.1\r\n", "403 Forbidden"),
            ("POST / HTTP/1.1\r\nHost: 127.0.0.1:80\r\n", "405 Method Not Allowed"),
            ("GET /secret.txt HTTP/1.1\r\nHost: 127.0.0.1:80\r\n", "404 Not Found"),
            ("GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1:80\r\n", "404 Not Found"),
            ("GET /%2e%2e/a%20b.html HTTP/1.1\r\nHost: 127.0.0.1:80\r\n", "404 Not Found"),
            ("", "403 Forbidden"),
        ];
        for (request, expected) in rows {
            assert_eq!(status(request, &site), expected, "{request}");
        }
    }

    #[test]
    fn names_survive_their_way_through_a_link() {
        for name in ["a b.html", "100%.html", "ä<&\".html", "%41.html"] {
            let link: String = name.bytes().map(encoded).collect();
            assert_eq!(decoded(&link), name);
        }
    }
}
