//! A small WebDriver client: one chromedriver, one session, and the few commands that the tests need.
//!
//! Needs `chromedriver` (Debian: `chromium-driver`) in the path, and [`BROWSER`]; without them the test fails and says so.

use std::cell::Cell;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// How long any condition may take: far longer than it does, for a busy machine.
const DEADLINE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(25);
/// How WebDriver marks a reference to an element.
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";
/// `key("Tab")` and so on: the private-use code points of the WebDriver standard.
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";
pub(crate) const END: &str = "\u{e010}";
pub(crate) const HOME: &str = "\u{e011}";
pub(crate) const LEFT: &str = "\u{e012}";
pub(crate) const RIGHT: &str = "\u{e014}";

/// Browsers are heavy: so many run at once, whatever the number of test threads.
const BROWSERS_MAX: usize = 2;
static QUEUE: Mutex<Queue> = Mutex::new(Queue { running: 0, came: 0, served: 0 });
static MOVED: Condvar = Condvar::new();

/// A browser with a new profile. Dropping it ends the browser and the driver, by their own handles.
pub(crate) struct Browser {
    driver: Child,
    agent: ureq::Agent,
    session: String,
    _profile: tempfile::TempDir,
    _turn: Turn,
}

impl Browser {
    pub(crate) fn start() -> Browser {
        let [turn] = Turn::take();
        Browser::with(turn)
    }

    /// Two browsers that know nothing of each other.
    pub(crate) fn two() -> (Browser, Browser) {
        let [first, second] = Turn::take();
        (Browser::with(first), Browser::with(second))
    }

    fn with(turn: Turn) -> Browser {
        let profile = tempfile::tempdir().expect("a temporary directory");
        let (driver, port) = start_driver(profile.path());
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(DEADLINE * 5))
            .proxy(None)
            .build();
        let mut browser = Browser {
            driver,
            agent: config.into(),
            session: format!("http://127.0.0.1:{port}/session"),
            _profile: profile,
            _turn: turn,
        };
        let answer = browser.send("", Some(&capabilities(browser._profile.path())));
        let id = answer["sessionId"].as_str().expect("a session id").to_owned();
        browser.session = format!("{}/{id}", browser.session);
        browser
    }

    pub(crate) fn open(&self, url: &str) {
        self.send("/url", Some(&json!({ "url": url })));
    }

    pub(crate) fn reload(&self) {
        self.send("/refresh", Some(&json!({})));
    }

    pub(crate) fn url(&self) -> String {
        self.send("/url", None).as_str().expect("a url").to_owned()
    }

    /// Opens another tab of the same profile and goes to it; returns the one that was left.
    pub(crate) fn new_tab(&self) -> String {
        let left = self.send("/window", None).as_str().expect("a window handle").to_owned();
        let opened = self.send("/window/new", Some(&json!({ "type": "tab" })));
        self.switch_to(opened["handle"].as_str().expect("a window handle"));
        left
    }

    pub(crate) fn switch_to(&self, tab: &str) {
        self.send("/window", Some(&json!({ "handle": tab })));
    }

    /// The viewport's width, as a phone or a desktop has it.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        let command = json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": metrics });
        self.send("/goog/cdp/execute", Some(&command));
    }

    /// Runs the body of a function in the page and returns what it returns.
    pub(crate) fn run(&self, script: &str) -> Value {
        self.send("/execute/sync", Some(&json!({ "script": script, "args": [] })))
    }

    /// The same of a function that calls `done` with what it has found.
    pub(crate) fn run_async(&self, script: &str) -> Value {
        let script = format!("const done = arguments[arguments.length - 1];\n{script}");
        self.send("/execute/async", Some(&json!({ "script": script, "args": [] })))
    }

    /// As for a reader who has asked for dark pages.
    pub(crate) fn darken(&self, dark: bool) {
        let value = if dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": value }] });
        let command = json!({ "cmd": "Emulation.setEmulatedMedia", "params": features });
        self.send("/goog/cdp/execute", Some(&command));
    }

    /// Whether pages run their scripts. Those of [`Browser::run`] always run.
    pub(crate) fn allow_scripts(&self, allowed: bool) {
        let command =
            json!({ "cmd": "Emulation.setScriptExecutionDisabled", "params": { "value": !allowed } });
        self.send("/goog/cdp/execute", Some(&command));
    }

    /// A real click: it fails on an element that is covered or not displayed.
    pub(crate) fn click(&self, css: &str) {
        self.at_element(css, &[("click", json!({}))]);
    }

    /// As by a hand that presses twice before anything has come of the first.
    pub(crate) fn double_click(&self, css: &str) {
        let origin = json!({ ELEMENT: self.element(css) });
        let to = json!({ "type": "pointerMove", "duration": 0, "origin": origin, "x": 0, "y": 0 });
        let [down, up] = ["pointerDown", "pointerUp"].map(|of| json!({ "type": of, "button": 0 }));
        let mouse = json!({ "type": "pointer", "id": "mouse", "actions": [to, down, up, down, up] });
        self.send("/actions", Some(&json!({ "actions": [mouse] })));
    }

    pub(crate) fn type_into(&self, css: &str, text: &str) {
        self.at_element(css, &[("clear", json!({})), ("value", json!({ "text": text }))]);
    }

    /// Keys for whatever has the focus.
    pub(crate) fn press(&self, keys: &str) {
        let presses: Vec<Value> = keys
            .chars()
            .flat_map(|key| {
                [json!({ "type": "keyDown", "value": key }), json!({ "type": "keyUp", "value": key })]
            })
            .collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": presses });
        self.send("/actions", Some(&json!({ "actions": [keyboard] })));
    }

    /// The text of the first match as a reader sees it; empty while there is none or it is hidden.
    pub(crate) fn text(&self, css: &str) -> String {
        let script = format!(
            "const found = document.querySelector({});
             return found?.checkVisibility() ? found.innerText : ''",
            json!(css)
        );
        self.run(&script).as_str().unwrap_or_default().trim().to_owned()
    }

    pub(crate) fn attribute(&self, css: &str, name: &str) -> Option<String> {
        let (css, name) = (json!(css), json!(name));
        let script = format!("return document.querySelector({css})?.getAttribute({name}) ?? null");
        self.run(&script).as_str().map(str::to_owned)
    }

    /// Waits until the condition holds; the failure says what was waited for and what the page said.
    pub(crate) fn wait_until(&self, what: &str, condition: impl Fn(&Browser) -> bool) {
        let deadline = Instant::now() + DEADLINE;
        while !condition(self) {
            if Instant::now() > deadline {
                let (url, text) = (self.url(), self.text("main"));
                panic!("waited for {what} at {url}; the page says:\n{text}\nlog: {:?}", self.complaints());
            }
            std::thread::sleep(POLL);
        }
    }

    pub(crate) fn wait_for_text(&self, css: &str, part: &str) {
        self.wait_until(&format!("{part:?} in {css}"), |browser| browser.text(css).contains(part));
    }

    /// What the browser has complained about since it was last asked: script errors, refused resources,
    /// violations of the policy. Failed requests are not among them; tests cause those on purpose.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let entries = self.send("/se/log", Some(&json!({ "type": "browser" })));
        let entries = entries.as_array().cloned().unwrap_or_default();
        entries
            .iter()
            .filter(|entry| entry["level"] == "SEVERE" && entry["source"] != "network")
            .map(|entry| entry["message"].as_str().unwrap_or_default().to_owned())
            .collect()
    }

    /// Does all of this to the first match. One that the page draws anew before it is done is looked for again: the driver is asked for
    /// an element first, and then for what is to be done to that one, where a hand would press what is there.
    fn at_element(&self, css: &str, commands: &[(&str, Value)]) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let element = self.element(css);
            let mut each = commands.iter();
            let done = each.try_for_each(|(command, body)| {
                self.try_send(&format!("/element/{element}/{command}"), Some(body)).map(drop)
            });
            match done {
                Ok(()) => return,
                Err(why) if why.contains("stale element") && Instant::now() < deadline => {}
                Err(why) => panic!("{css}: {why}"),
            }
        }
    }

    fn element(&self, css: &str) -> String {
        let found = self.send("/element", Some(&json!({ "using": "css selector", "value": css })));
        found[ELEMENT].as_str().unwrap_or_else(|| panic!("no element {css}: {found}")).to_owned()
    }

    /// POST with a body, GET without; the `value` of the answer. An error of the driver fails the test.
    fn send(&self, command: &str, body: Option<&Value>) -> Value {
        self.try_send(command, body).unwrap_or_else(|why| panic!("{why}"))
    }

    fn try_send(&self, command: &str, body: Option<&Value>) -> Result<Value, String> {
        let url = format!("{}{command}", self.session);
        let answer = match body {
            Some(body) => self.agent.post(&url).send_json(body),
            None => self.agent.get(&url).call(),
        };
        let mut answer = answer.unwrap_or_else(|error| panic!("WebDriver {command}: {error}"));
        let status = answer.status();
        let mut value: Value = answer.body_mut().read_json().expect("WebDriver answers in JSON");
        let sent: String = body.map(Value::to_string).unwrap_or_default().chars().take(300).collect();
        match status.is_success() {
            true => Ok(value["value"].take()),
            false => Err(format!("WebDriver {command} {sent}: {}", value["value"]["message"])),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ending the session ends Chromium; the driver is our own child.
        let ended = self.agent.delete(&self.session).call();
        let killed = self.driver.kill().and_then(|()| self.driver.wait());
        if !std::thread::panicking() {
            ended.expect("chromedriver ends its session");
            killed.expect("chromedriver is ours to end");
        }
    }
}

/// Those who run a browser and those who wait for one, first come, first served: else whoever wants two would
/// wait until nobody else wants any.
struct Queue {
    running: usize,
    came: usize,
    served: usize,
}

thread_local! {
    /// Of the test on this thread.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// The right to run one browser.
struct Turn;

impl Turn {
    /// Waits for all of them at once: whoever held one and waited for another might wait for ever.
    fn take<const N: usize>() -> [Turn; N] {
        assert_eq!(HELD.get(), 0, "a test that needs two browsers takes them at once, by Browser::two");
        HELD.set(N);
        let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
        let number = queue.came;
        queue.came += 1;
        let wait = |queue: &mut Queue| queue.served != number || queue.running + N > BROWSERS_MAX;
        let mut queue = MOVED.wait_while(queue, wait).unwrap_or_else(PoisonError::into_inner);
        queue.served += 1;
        queue.running += N;
        MOVED.notify_all();
        [const { Turn }; N]
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        HELD.set(HELD.get().saturating_sub(1));
        QUEUE.lock().unwrap_or_else(PoisonError::into_inner).running -= 1;
        MOVED.notify_all();
    }
}

/// Chromium without a window and all that belongs to one: it starts for a quarter of the processor time.
const BROWSER: &str = "/usr/bin/chromium-headless-shell";

fn capabilities(profile: &std::path::Path) -> Value {
    let arguments = [
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        // Else it gives a page that it thinks nobody looks at less of the processors than any other process has.
        "--disable-renderer-backgrounding",
        "--disable-backgrounding-occluded-windows",
        "--disable-background-timer-throttling",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1200,900",
        &format!("--user-data-dir={}", profile.display()),
    ];
    json!({ "capabilities": { "alwaysMatch": {
        "browserName": "chrome-headless-shell",
        // A page makes some of what is pressed once it has heard of it; and axe, which takes a second of a processor, took 30 s
        // beside all other tests, and over 90 s beside these and two busy loops, with 60 processes that were ready to run.
        "timeouts": { "implicit": DEADLINE.as_millis(), "script": (4 * DEADLINE).as_millis() },
        "goog:chromeOptions": { "binary": BROWSER, "args": arguments },
        "goog:loggingPrefs": { "browser": "ALL" },
    } } })
}

/// Starts chromedriver and returns it with its port. What it and the browser leave behind is in `dir`.
///
/// The driver wants one number in both address families, and asked for port 0 it ends if the number that it got in
/// one is in use in the other. So we look for a free one; somebody may still be quicker to use it, and then we look
/// for another.
fn start_driver(dir: &std::path::Path) -> (Child, u16) {
    const PORTS_MAX: usize = 10;
    let mut printed = String::new();
    for _ in 0..PORTS_MAX {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let port = free.expect("a free port on loopback").port();
        let mut driver = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .env("TMPDIR", dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the browser tests need chromedriver in the path (Debian: apt install chromium-driver)");
        let mut output = BufReader::new(driver.stdout.take().expect("its output is piped"));
        printed.clear();
        while output.read_line(&mut printed).is_ok_and(|read| read > 0) {
            if printed.contains("started successfully") {
                // Kept open: a later line of the driver's must not end it.
                driver.stdout = Some(output.into_inner());
                return (driver, port);
            }
        }
        let ended = driver.kill().and_then(|()| driver.wait());
        ended.expect("chromedriver is ours to end");
    }
    panic!("chromedriver did not start on any of {PORTS_MAX} ports; it printed:\n{printed}");
}
