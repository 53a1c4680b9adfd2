//! A real browser: Chromium without a window, driven through ChromeDriver by the WebDriver protocol (W3C), with its own
//! extension for what that has no words for: screen sizes of telephones, the colour scheme, and what the console said.
//!
//! What goes wrong in here is a failed test, so methods panic with what they know. A machine without Chromium has no
//! browser, and tests say so and pass over.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A browser with one window.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// Its profile; removed at the end.
    _profile: TempDir,
}

/// Time for one command of the protocol: starting takes longest.
const LIMIT: Duration = Duration::from_secs(60);
/// The key of an element in the protocol.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

impl Browser {
    /// Starts one; `None` where there is none to start.
    pub fn start() -> Option<Browser> {
        let mut driver = Command::new("chromedriver")
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut port = None;
        for line in BufReader::new(driver.stdout.take()?).lines().map_while(Result::ok) {
            if let Some((_, rest)) = line.split_once("successfully on port ") {
                port = rest.trim_end_matches('.').parse().ok();
                break;
            }
        }
        let port = port.expect("ChromeDriver says its port");
        let profile = tempfile::Builder::new().prefix("selvedge-browser-").tempdir().expect("a temporary directory");
        let mut browser = Browser { driver, port, session: String::new(), _profile: profile };
        let user_data = format!("--user-data-dir={}", browser._profile.path().display());
        let args = json!([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--no-first-run",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
            user_data,
        ]);
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": {"args": args}, "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        match browser.ask("POST", "/session", &wanted) {
            Ok(told) => browser.session = told["sessionId"].as_str().expect("a session").to_owned(),
            // A driver without its browser.
            Err(why) if why.contains("cannot find Chrome binary") => return None,
            Err(why) => panic!("no session: {why}"),
        }
        Some(browser)
    }

    /// Opens a page.
    pub fn open(&self, url: &str) {
        self.command("url", &json!({ "url": url }));
    }

    /// Opens a file.
    pub fn open_file(&self, file: &Path) {
        self.open(&format!("file://{}", file.display()));
    }

    /// What a function body in the page returns.
    pub fn eval(&self, script: &str) -> Value {
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until a condition in the page holds.
    pub fn until(&self, condition: &str) {
        let begin = Instant::now();
        while self.eval(&format!("return !!({condition})")) != true {
            assert!(begin.elapsed() < LIMIT, "never: {condition}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Clicks on an element as a person would: it must be there to be seen.
    pub fn click(&self, selector: &str) {
        let element = self.element(selector);
        self.command(&format!("element/{element}/click"), &json!({}));
    }

    /// Types into an element.
    pub fn type_into(&self, selector: &str, text: &str) {
        let element = self.element(selector);
        self.command(&format!("element/{element}/value"), &json!({ "text": text }));
    }

    /// Presses a key, wherever the focus is.
    pub fn press(&self, key: &str) {
        let actions = json!([{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]);
        self.command("actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": actions}]}));
    }

    /// Moves the pointer over an element.
    pub fn hover(&self, selector: &str) {
        let origin = json!({ ELEMENT: self.element(selector) });
        let actions = json!([{"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": origin}]);
        self.command("actions", &json!({"actions": [{"type": "pointer", "id": "mouse", "actions": actions}]}));
    }

    /// Makes the window so large, on a telephone or not.
    pub fn screen(&self, width: u32, height: u32, is_phone: bool) {
        let scale = if is_phone { 2 } else { 1 };
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height, "deviceScaleFactor": scale, "mobile": is_phone}),
        );
    }

    /// What the system prefers: `light` or `dark`.
    pub fn prefers(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.devtools("Emulation.setEmulatedMedia", &json!({ "features": features }));
    }

    /// What is seen, as PNG.
    pub fn screenshot(&self) -> Vec<u8> {
        let told = self.devtools("Page.captureScreenshot", &json!({"format": "png"}));
        base64(told["data"].as_str().expect("a picture"))
    }

    /// What the console said since it was last asked.
    pub fn console(&self) -> Vec<String> {
        let told = self.command("se/log", &json!({"type": "browser"}));
        let lines = told.as_array().cloned().unwrap_or_default();
        lines.iter().filter_map(|line| line["message"].as_str().map(str::to_owned)).collect()
    }

    fn devtools(&self, name: &str, params: &Value) -> Value {
        self.command("goog/cdp/execute", &json!({"cmd": name, "params": params}))
    }

    fn element(&self, selector: &str) -> String {
        let found = self.command("element", &json!({"using": "css selector", "value": selector}));
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("no {selector}")).to_owned()
    }

    fn command(&self, path: &str, body: &Value) -> Value {
        let path = format!("/session/{}/{path}", self.session);
        self.ask("POST", &path, body).unwrap_or_else(|why| panic!("{path} {body}: {why}"))
    }

    /// A request of the protocol: the value that is answered, or what is wrong.
    fn ask(&self, method: &str, path: &str, body: &Value) -> Result<Value, String> {
        let text = body.to_string();
        let answer = self.http(method, path, &text).map_err(|error| error.to_string())?;
        let answer: Value = serde_json::from_slice(&answer).map_err(|error| error.to_string())?;
        match answer["value"]["error"].as_str() {
            Some(error) => Err(format!("{error}: {}", answer["value"]["message"])),
            None => Ok(answer["value"].clone()),
        }
    }

    fn http(&self, method: &str, path: &str, body: &str) -> std::io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(LIMIT))?;
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: localhost:{}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            self.port,
            body.len()
        )?;
        let mut answer = BufReader::new(stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            answer.read_line(&mut line)?;
            match line.trim_end().split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse().unwrap_or(0);
                }
                _ if line.trim_end().is_empty() => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        answer.read_exact(&mut body)?;
        Ok(body)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser is the driver's child: it goes with the session.
        if !self.session.is_empty() {
            let _ = self.http("DELETE", &format!("/session/{}", self.session), "");
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

/// The bytes of a base64 text.
fn base64(text: &str) -> Vec<u8> {
    let (mut bytes, mut bits, mut count) = (Vec::with_capacity(text.len() / 4 * 3), 0_u32, 0);
    for c in text.bytes() {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(six);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn pictures_come_as_base64() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v", "foo"), ("Zm9vYmE=", "fooba")] {
            assert_eq!(base64(text), bytes.as_bytes());
        }
    }
}
