//! The inspector's files, compiled in.

use std::hash::{DefaultHasher, Hash, Hasher};

/// A file of the inspector.
#[derive(Debug)]
pub(super) struct File {
    path: &'static str,
    pub(super) text: &'static str,
}

macro_rules! files {
    ($($path:literal),* $(,)?) => {
        &[$(File { path: $path, text: include_str!(concat!("../../ui/", $path)) }),*]
    };
}

const FILES: &[File] = files![
    "app.js",
    "icon.svg",
    "index.html",
    "lib/act.js",
    "lib/adjust.js",
    "lib/api.js",
    "lib/chart.js",
    "lib/clock.js",
    "lib/dialog.js",
    "lib/events.js",
    "lib/exact.js",
    "lib/format.js",
    "lib/h.js",
    "lib/icons.js",
    "lib/json.js",
    "lib/keys.js",
    "lib/live.js",
    "lib/paged.js",
    "lib/router.js",
    "lib/screen.js",
    "lib/session.js",
    "lib/theme.js",
    "lib/waterfall.js",
    "parts.css",
    "screens/audit.js",
    "screens/claims.js",
    "screens/correlation.js",
    "screens/correlation/tree.js",
    "screens/doctor.js",
    "screens/doctor/remedy.js",
    "screens/feed.js",
    "screens/leases.js",
    "screens/overview.js",
    "screens/reaction.js",
    "screens/reactions.js",
    "screens/run.js",
    "screens/run/decision.js",
    "screens/run/signal.js",
    "screens/run/status.js",
    "screens/run/timeline.js",
    "screens/runs.js",
    "screens/scope.js",
    "screens/scopes.js",
    "screens/skipped.js",
    "screens/stream.js",
    "screens/stream/travel.js",
    "screens/streams.js",
    "style.css",
];

impl File {
    pub(super) fn named(path: &str) -> Option<&'static Self> {
        FILES.iter().find(|file| file.path == path)
    }

    pub(super) fn media_type(&self) -> &'static str {
        match self.path.rsplit('.').next() {
            Some("html") => "text/html; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            _ => "text/javascript; charset=utf-8",
        }
    }

    /// The file's entity tag.
    pub(super) fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    #[test]
    fn every_file_of_the_folder_is_served_and_no_other() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("ui");
        let there: BTreeSet<String> = under(&root)
            .iter()
            .map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned())
            .collect();
        let served: BTreeSet<String> = FILES.iter().map(|file| file.path.to_owned()).collect();
        assert_eq!(served, there);
    }

    /// UI-2: the page has no way to turn text into markup or code.
    #[test]
    fn no_script_turns_text_into_markup_or_code() {
        let ways = [
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "DOMParser",
            "createContextualFragment",
            "setHTML",
            "srcdoc=",
            "javascript:",
        ];
        for file in FILES.iter().filter(|file| file.path.ends_with(".js")) {
            for way in ways {
                assert!(!file.text.contains(way), "{} uses {way}", file.path);
            }
        }
    }

    /// UI-1: nothing is loaded from elsewhere, and nothing is asked for by an absolute address.
    #[test]
    fn no_file_names_another_server_or_the_root_of_this_one() {
        for file in FILES {
            let text = file.text.replace("http://www.w3.org/2000/svg", "");
            for address in ["http://", "https://", "href=\"/", "src=\"/", "url(", "@import"] {
                assert!(!text.contains(address), "{} has {address}", file.path);
            }
        }
    }

    fn under(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { under(&path) } else { vec![path] }).collect()
    }
}
