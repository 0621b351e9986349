//! The page as a person has it: they look, click and type, and look again until it shows what it
//! should.

use std::future::Future;
use std::time::Duration;

use fantoccini::actions::{InputSource, KeyAction, KeyActions};
use fantoccini::error::CmdError;
use fantoccini::wd::WebDriverCompatibleCommand;
use fantoccini::{Client, Locator};
use serde_json::{Value, json};
use tidelock_test_stage::PATIENCE;
use tokio::time::Instant;

/// How often the page is looked at.
const GLANCE: Duration = Duration::from_millis(20);

/// A page in a browser.
#[derive(Debug)]
pub(crate) struct Page {
    client: Client,
    address: String,
}

/// A command that only this browser has.
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

    /// Goes to a screen.
    pub(crate) async fn go(&self, hash: &str) {
        self.run("location.hash = arguments[0]", vec![json!(hash)]).await;
    }

    /// Waits until something that this selector finds has this text.
    pub(crate) async fn sees(&self, css: &str, text: &str) {
        let shows = "return [...document.querySelectorAll(arguments[0])].some((it) => it.textContent.includes(arguments[1]) && it.checkVisibility())";
        self.until(&format!("{css:?} shows {text:?}"), shows, vec![json!(css), json!(text)]).await;
    }

    /// Waits until nothing that this selector finds has this text.
    pub(crate) async fn sees_no(&self, css: &str, text: &str) {
        let shows = "return ![...document.querySelectorAll(arguments[0])].some((it) => it.textContent.includes(arguments[1]))";
        self.until(&format!("{css:?} shows no {text:?}"), shows, vec![json!(css), json!(text)])
            .await;
    }

    /// Waits until a script says that it is so.
    pub(crate) async fn until(&self, what: &str, script: &str, args: Vec<Value>) {
        let begun = Instant::now();
        while self.run(script, args.clone()).await != json!(true) {
            if begun.elapsed() > PATIENCE {
                panic!(
                    "waited in vain until {what}; the page says:\n{}\nand the console:\n{}",
                    self.text().await,
                    self.console().await.join("\n")
                );
            }
            tokio::time::sleep(GLANCE).await;
        }
    }

    /// Clicks on what this path through the elements finds, once it is there. A list that is read
    /// anew may take it away in between.
    pub(crate) async fn click(&self, xpath: &str) {
        let begun = Instant::now();
        loop {
            match self.client.find(Locator::XPath(xpath)).await {
                Ok(element) if element.click().await.is_ok() => return,
                _ if begun.elapsed() > PATIENCE => {
                    panic!("{xpath} cannot be clicked; the page says:\n{}", self.text().await)
                }
                _ => tokio::time::sleep(GLANCE).await,
            }
        }
    }

    /// Types into what this selector finds, instead of what is there.
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

    /// All that can be read.
    pub(crate) async fn text(&self) -> String {
        self.run("return document.body.innerText", vec![])
            .await
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// What the browser complained about since it was asked last. That a token was asked for is no
    /// complaint.
    pub(crate) async fn console(&self) -> Vec<String> {
        let log = self.own("se/log", json!({ "type": "browser" })).await;
        let lines = log.as_array().cloned().unwrap_or_default();
        let said = lines.iter().map(|line| format!("{} {}", line["level"], line["message"]));
        said.filter(|line| !line.contains("status of 401")).collect()
    }

    /// Lets the page do something that a browser asks people about, or does not let it.
    pub(crate) async fn permit(&self, what: &str, is_allowed: bool) {
        let setting = if is_allowed { "granted" } else { "denied" };
        let permission = json!({ "permission": { "name": what }, "setting": setting });
        let command = json!({ "cmd": "Browser.setPermission", "params": permission });
        self.own("goog/cdp/execute", command).await;
    }

    /// As wide as this from now on.
    pub(crate) async fn wide(&self, width: u32, height: u32) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.own(
            "goog/cdp/execute",
            json!({ "cmd": "Emulation.setDeviceMetricsOverride", "params": metrics }),
        )
        .await;
    }

    /// Paints the screen, if somebody wants pictures.
    pub(crate) async fn paint(&self, name: &str) {
        if let Some(folder) = std::env::var_os("TIDELOCK_PICTURES") {
            let picture = self.bounded("painting", self.client.screenshot()).await;
            std::fs::write(std::path::Path::new(&folder).join(format!("{name}.png")), picture)
                .unwrap();
        }
    }

    /// Ends the browser.
    pub(crate) async fn close(self) {
        // A browser that does not end by itself ends with its driver.
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
