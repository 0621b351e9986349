//! The page as a person uses it: look, click, type, and wait until it shows what it should.

use std::future::Future;
use std::time::Duration;

use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::error::CmdError;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, Locator};
use serde_json::{Value, json};
use tidelock_test_stage::PATIENCE;
use tokio::time::Instant;

/// The polling interval.
const GLANCE: Duration = Duration::from_millis(20);

/// A page in a browser.
#[derive(Debug)]
pub(crate) struct Page {
    client: Client,
    address: String,
}

/// A `WebDriver` command that only this browser has.
#[derive(Debug)]
struct Own {
    path: &'static str,
    body: Value,
}

impl Page {
    pub(crate) fn new(client: Client, address: String) -> Self {
        Self { client, address }
    }

    /// Opens the inspector.
    pub(crate) async fn open(&self) {
        self.bounded("opening", self.client.goto(&self.address)).await;
    }

    /// Navigates to a screen.
    pub(crate) async fn go(&self, hash: &str) {
        self.run("location.hash = arguments[0]", vec![json!(hash)]).await;
    }

    /// Waits until an element of this selector contains this text.
    pub(crate) async fn sees(&self, css: &str, text: &str) {
        let shows = "return [...document.querySelectorAll(arguments[0])].some((it) => it.textContent.includes(arguments[1]) && it.checkVisibility())";
        self.until(&format!("{css:?} shows {text:?}"), shows, vec![json!(css), json!(text)]).await;
    }

    /// Waits until no element of this selector contains this text.
    pub(crate) async fn sees_no(&self, css: &str, text: &str) {
        let shows = "return ![...document.querySelectorAll(arguments[0])].some((it) => it.textContent.includes(arguments[1]))";
        self.until(&format!("{css:?} shows no {text:?}"), shows, vec![json!(css), json!(text)])
            .await;
    }

    /// Waits until a script returns true.
    pub(crate) async fn until(&self, what: &str, script: &str, args: Vec<Value>) {
        let begun = Instant::now();
        while self.run(script, args.clone()).await != json!(true) {
            if begun.elapsed() > PATIENCE {
                panic!(
                    "timed out waiting until {what}; the page shows:\n{}\nand the console:\n{}",
                    self.text().await,
                    self.console().await.join("\n")
                );
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Clicks the element at this `XPath`, once it exists. A list that reloads may remove it in
    /// between.
    pub(crate) async fn click(&self, xpath: &str) {
        let begun = Instant::now();
        loop {
            match self.client.find(Locator::XPath(xpath)).await {
                Ok(element) if element.click().await.is_ok() => return,
                _ if begun.elapsed() > PATIENCE => {
                    panic!("{xpath} cannot be clicked; the page shows:\n{}", self.text().await)
                }
                _ => tokio::time::sleep(GLANCE).await,
            }
        }
    }

    /// Replaces the text of the field of this selector.
    pub(crate) async fn write(&self, css: &str, text: &str) {
        self.until(
            &format!("{css:?} is there"),
            "return document.querySelector(arguments[0]) !== null",
            vec![json!(css)],
        )
        .await;
        let field = self.bounded("finding", self.client.find(Locator::Css(css))).await;
        self.bounded("clearing", field.clear()).await;
        self.bounded("typing", field.send_keys(text)).await;
    }

    /// Presses keys, one after the other, wherever the focus is.
    pub(crate) async fn press(&self, keys: &[char]) {
        let pressed = keys.iter().fold(KeyActions::new("keyboard".to_owned()), |actions, key| {
            actions.then(KeyAction::Down { value: *key }).then(KeyAction::Up { value: *key })
        });
        self.bounded("pressing keys", self.client.perform_actions(pressed)).await;
    }

    /// Runs a script in the page.
    pub(crate) async fn run(&self, script: &str, args: Vec<Value>) -> Value {
        self.bounded(script, self.client.execute(script, args)).await
    }

    /// The visible text.
    pub(crate) async fn text(&self) -> String {
        self.run("return document.body.innerText", vec![])
            .await
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// New messages in the browser's console. A 401 is expected.
    pub(crate) async fn console(&self) -> Vec<String> {
        let log = self.own("se/log", json!({ "type": "browser" })).await;
        let lines = log.as_array().cloned().unwrap_or_default();
        let said = lines.iter().map(|line| format!("{} {}", line["level"], line["message"]));
        said.filter(|line| !line.contains("status of 401")).collect()
    }

    /// Grants or denies a browser permission.
    pub(crate) async fn permit(&self, what: &str, is_allowed: bool) {
        let setting = if is_allowed { "granted" } else { "denied" };
        let permission = json!({ "permission": { "name": what }, "setting": setting });
        let command = json!({ "cmd": "Browser.setPermission", "params": permission });
        self.own("goog/cdp/execute", command).await;
    }

    /// Sets the window's size.
    pub(crate) async fn wide(&self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.own(
            "goog/cdp/execute",
            json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": metrics }),
        )
        .await;
    }

    /// Takes a screenshot, if a folder is given.
    pub(crate) async fn paint(&self, name: &str) {
        if let Some(folder) = std::env::var_os("TIDELOCK_PICTURES") {
            let picture = self.bounded("painting", self.client.screenshot()).await;
            std::fs::write(std::path::Path::new(&folder).join(format!("{name}.png")), picture)
                .unwrap();
        }
    }

    /// Ends the browser.
    pub(crate) async fn close(self) {
        // A browser that does not exit ends with its driver.
        let _closed = tokio::time::timeout(PATIENCE, self.client.close()).await;
    }

    async fn own(&self, path: &'static str, body: Value) -> Value {
        self.bounded(path, self.client.issue_cmd(Own { path, body })).await
    }

    async fn bounded<T>(&self, what: &str, doing: impl Future<Output = Result<T, CmdError>>) -> T {
        match tokio::time::timeout(PATIENCE, doing).await {
            Ok(Ok(done)) => done,
            Ok(Err(error)) => panic!("{what}: {error}"),
            Err(_) => panic!("{what}: the browser does not answer within {PATIENCE:?}"),
        }
    }
}

impl WebDriverCompatibleCommand for Own {
    fn endpoint(
        &self,
        base: &url::Url,
        session: Option<&str>,
    ) -> Result<url::Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &url::Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}
