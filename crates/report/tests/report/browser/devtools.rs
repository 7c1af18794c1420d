//! Chromium without a window, driven by its DevTools protocol over a pipe: JSON messages that end in a zero byte.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longest wait for an answer: a loaded machine may take seconds to start the browser.
const PATIENCE: Duration = Duration::from_secs(30);

/// A browser with one page.
pub struct Browser {
    child: Child,
    input: ChildStdin,
    messages: Receiver<Value>,
    session: Option<String>,
    last: u64,
    /// Problems of the page since it was opened: console errors, exceptions, blocked requests.
    pub complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts `program`. Its sandbox needs rights that containers often lack; the pages are our own.
    pub fn start(program: &str) -> Self {
        let profile = tempfile::tempdir().expect("a folder for the profile");
        let data = format!("--user-data-dir={}", profile.path().display());
        let flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--hide-scrollbars",
            "--disable-extensions",
            "--disable-background-networking",
            "--disable-component-update",
            "--force-device-scale-factor=1",
            "--force-color-profile=srgb",
            "--remote-debugging-pipe",
            &data,
            "about:blank",
        ];
        // The browser reads commands from descriptor 3 and writes answers to descriptor 4.
        let mut child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", program])
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let input = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, messages) = channel();
        std::thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                let Ok(value) = serde_json::from_slice(&message) else { continue };
                if sender.send(value).is_err() {
                    break;
                }
            }
        });
        let mut browser =
            Self { child, input, messages, session: None, last: 0, complaints: Vec::new(), _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}))["targetId"].clone();
        let session = browser.call("Target.attachToTarget", json!({"targetId": target, "flatten": true}));
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Calls a method and waits for its result.
    ///
    /// # Panics
    /// On an error, or without an answer in time.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut message = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = self.session.as_ref().filter(|_| !method.starts_with("Browser.")) {
            message["sessionId"] = session.as_str().into();
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.write_all(&bytes).expect("the browser takes messages");
        let id = self.last;
        let answer = self.wait(method, |message| message["id"] == id);
        assert!(answer.get("error").is_none(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// Waits for the next message for which `wanted` is true. Stores problems that arrive before it in
    /// [`Self::complaints`].
    fn wait(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).unwrap_or_else(|error| panic!("{what}: no answer: {error}"));
            self.hear(&message);
            if wanted(&message) {
                return message;
            }
        }
    }

    fn hear(&mut self, message: &Value) {
        let params = &message["params"];
        let said = match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => params["exceptionDetails"].to_string(),
            Some("Runtime.consoleAPICalled")
                if ["error", "warning", "assert"].contains(&params["type"].as_str().unwrap_or("")) =>
            {
                params["args"].to_string()
            }
            Some("Log.entryAdded") if params["entry"]["level"] == "error" => params["entry"].to_string(),
            _ => return,
        };
        self.complaints.push(said);
    }

    /// Opens a file at a size and in a theme (`light`, `dark`, or `print`), and waits until it is loaded.
    pub fn open(&mut self, file: &Path, width: u32, theme: &str) {
        self.resize(width);
        self.theme(theme);
        self.call("Page.navigate", json!({"url": format!("file://{}", file.display())}));
        self.wait("loaded", |message| message["method"] == "Page.loadEventFired");
    }

    /// Sets the width of the window, in CSS pixels.
    pub fn resize(&mut self, width: u32) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// Sets the theme of the open page.
    pub fn theme(&mut self, theme: &str) {
        let (media, scheme) = if theme == "print" { ("print", "light") } else { ("", theme) };
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"media": media, "features": features}));
    }

    /// The value of an expression in the page. A promise is awaited.
    ///
    /// # Panics
    /// The expression throws.
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let result = self.call("Runtime.evaluate", params);
        let thrown = result.get("exceptionDetails");
        assert!(thrown.is_none(), "{}: {}", expression.chars().take(200).collect::<String>(), thrown.unwrap());
        result["result"]["value"].clone()
    }

    /// Sends a mouse event at a place: `mouseMoved`, `mousePressed` or `mouseReleased`.
    pub fn mouse(&mut self, kind: &str, (x, y): (f64, f64)) {
        let pressed = u32::from(kind != "mouseMoved");
        let params = json!({"type": kind, "x": x, "y": y, "button": if pressed > 0 { "left" } else { "none" }, "clickCount": pressed});
        self.call("Input.dispatchMouseEvent", params);
    }

    /// Clicks at a place.
    pub fn click(&mut self, at: (f64, f64)) {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            self.mouse(kind, at);
        }
    }

    /// Presses and releases a key: its name, the text that it types, its code.
    pub fn key(&mut self, name: &str, text: &str, code: u32) {
        for kind in ["keyDown", "keyUp"] {
            let text = if kind == "keyDown" { text } else { "" };
            let params = json!({"type": kind, "key": name, "text": text, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", params);
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser's child processes end with it, because their pipe closes.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
