//! The metrics of the code, beside the reference page, the dashboard and the alert rules.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;
use tidelock::telemetry::{MetricInfo, MetricKind};
use tidelock_http::all_metrics;

fn file(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Metrics by name.
fn known() -> BTreeMap<&'static str, MetricInfo> {
    all_metrics().into_iter().map(|metric| (metric.name, metric)).collect()
}

/// METRIC-1.
#[test]
fn the_reference_lists_every_metric_with_its_unit_and_no_other() {
    assert_eq!(known().len(), all_metrics().len(), "no two metrics share a name");
    let kind = |kind| match kind {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    let expected: Vec<String> = all_metrics()
        .iter()
        .map(|metric| {
            let labels: Vec<_> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
            let labels = match labels.is_empty() {
                true => String::new(),
                false => format!(" {}", labels.join(", ")),
            };
            let unit = metric.unit.as_str();
            format!(
                "| `{}` | {} | {unit} |{labels} | {} |",
                metric.name,
                kind(metric.kind),
                metric.help
            )
        })
        .collect();
    let page = file("docs/guides/metrics.md");
    let listed: Vec<_> = page.lines().filter(|line| line.starts_with("| `tidelock_")).collect();
    assert_eq!(listed, expected, "left is the page, right the code");
    for metric in all_metrics() {
        assert_eq!(metric.name.ends_with("_total"), metric.kind == MetricKind::Counter);
        assert_eq!(metric.name.ends_with("_seconds"), metric.kind == MetricKind::Histogram);
    }
}

/// METRIC-1.
#[test]
fn the_dashboard_shows_every_metric_and_names_no_other() {
    let dashboard: Value = serde_json::from_str(&file("docs/operations/grafana.json")).unwrap();
    let mut shown = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        assert!(panel["title"].is_string() && panel["gridPos"]["w"].is_u64(), "{panel}");
        for target in panel["targets"].as_array().unwrap() {
            shown.extend(check(target["expr"].as_str().unwrap()));
        }
    }
    let missing: Vec<_> = known().into_keys().filter(|name| !shown.contains(name)).collect();
    assert!(missing.is_empty(), "no panel shows {missing:?}");
}

/// METRIC-1.
#[test]
fn the_alert_rules_name_metrics_and_labels_that_exist() {
    let text = file("docs/operations/alerts.yml");
    let rules = rules(&text);
    assert!(rules.len() >= 10, "{rules:?}");
    for rule in &rules {
        let alert = &rule["alert"];
        assert!(!check(&rule["expr"]).is_empty(), "{alert} watches nothing");
        for needed in ["severity", "summary", "description"] {
            assert!(rule.contains_key(needed), "{alert} has no {needed}");
        }
        let labels = rule["summary"].split("$labels.").skip(1);
        for label in labels.map(|rest| rest.split([' ', '}']).next().unwrap()) {
            let of = format!("by ({label}");
            assert!(rule["expr"].contains(&of), "{alert}: label {label} is not in its expression");
        }
    }
}

#[test]
fn a_metric_or_a_label_that_does_not_exist_is_found() {
    check("sum by (queue) (rate(tidelock_settled_total{exit=\"blocked\"}[5m]))");
    for wrong in [
        "rate(tidelock_settle_total[5m])",
        "sum by (workflow) (rate(tidelock_settled_total[5m]))",
        "rate(tidelock_settled_total{kind=\"blocked\"}[5m])",
        "tidelock_work_seconds_total",
        "sum(rate(tidelock_settled_total[5m])",
    ] {
        assert!(std::panic::catch_unwind(|| check(wrong)).is_err(), "{wrong}");
    }
    assert!(std::panic::catch_unwind(|| rules("groups:\n\t- name: a\n")).is_err());
}

/// Checks the metrics and labels of an expression, and returns the metrics.
fn check(expr: &str) -> Vec<&'static str> {
    for (open, close) in ["()", "[]", "{}"].map(|pair| pair.split_at(1)) {
        assert_eq!(expr.matches(open).count(), expr.matches(close).count(), "{expr}");
    }
    let known = known();
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in expr.match_indices("tidelock_") {
        let rest = &expr[at..];
        let name = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        let metric = known.get(name).or_else(|| {
            let histogram = known.get(name.strip_suffix("_bucket")?)?;
            (histogram.kind == MetricKind::Histogram).then_some(histogram)
        });
        let metric = metric.unwrap_or_else(|| panic!("{name} is no metric: {expr}"));
        let matchers = rest[name.len()..].strip_prefix('{').and_then(|m| m.split_once('}'));
        for matcher in matchers.into_iter().flat_map(|(matchers, _)| matchers.split(',')) {
            let label = matcher.split(['=', '!']).next().unwrap().trim();
            assert!(metric.labels.contains(&label), "{label} is no label of {name}: {expr}");
        }
        for by in expr[..at].rsplit("by (").next().into_iter().filter(|_| expr.contains("by (")) {
            for label in by.split(')').next().unwrap().split(',').map(str::trim) {
                let exists = label == "le" || metric.labels.contains(&label);
                assert!(exists, "{label} is no label of {name}: {expr}");
            }
        }
        found.push(metric.name);
    }
    found
}

/// The rules of an alert file: the part of YAML that it uses, which is nested maps and lists of
/// plain or quoted scalars, two spaces for each level.
fn rules(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut rules: Vec<BTreeMap<String, String>> = Vec::new();
    for (nth, line) in text.lines().enumerate() {
        let content = line.trim_start_matches(' ');
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let place = format!("line {}: {line:?}", nth + 1);
        assert!(!line.contains('\t') && (line.len() - content.len()).is_multiple_of(2), "{place}");
        let (is_item, content) = match content.strip_prefix("- ") {
            Some(content) => (true, content),
            None => (false, content),
        };
        let (key, value) = content.split_once(':').unwrap_or_else(|| panic!("no key in {place}"));
        let value = value.trim();
        match value.strip_prefix('"') {
            Some(quoted) => assert!(quoted.find('"') == Some(quoted.len() - 1), "{place}"),
            // A plain scalar ends at these.
            None => assert!(!value.contains(": ") && !value.contains(" #"), "{place}"),
        }
        if is_item && key == "alert" {
            rules.push(BTreeMap::new());
        }
        if let Some(rule) = rules.last_mut() {
            rule.insert(key.to_owned(), value.trim_matches('"').to_owned());
        }
    }
    rules
}
