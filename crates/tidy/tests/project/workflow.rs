//! The workflow runs `./test`, and the templates ask for something.

use crate::file;
use crate::yaml::Yaml;

const WORKFLOW: &str = ".github/workflows/check.yml";

#[test]
fn the_workflow_runs_the_tests_and_nothing_else() {
    let workflow = Yaml::of_file(WORKFLOW);
    let mut runs = Vec::new();
    for (job, body) in workflow.entries("jobs") {
        for step in body.items("steps") {
            match (step.at("uses"), step.at("run")) {
                (Some(_), None) => assert!(step.text("uses").starts_with("actions/checkout@")),
                (None, Some(_)) => runs.push(step.text("run").to_owned()),
                _ => panic!("{job}: a step does one thing: {step:?}"),
            }
        }
        assert!(body.at("timeout-minutes").is_some(), "{job} may take for ages");
    }
    assert_eq!(runs, ["./test", "./test --long"]);
    assert_eq!(workflow.text("permissions.contents"), "read");
    assert!(workflow.at("on.pull_request").is_some());
}

#[test]
fn the_workflow_uses_the_oldest_supported_rust() {
    let manifest = file("Cargo.toml");
    let version =
        manifest.split("rust-version = \"").nth(1).and_then(|rest| rest.split('"').next());
    let image = format!("rust:{}-", version.expect("the workspace has a rust-version"));
    for (job, body) in Yaml::of_file(WORKFLOW).entries("jobs") {
        assert!(body.text("container").starts_with(&image), "{job} does not run in {image}");
    }
}

#[test]
fn a_template_has_a_name_and_fields_with_labels() {
    let mut templates = tidelock_tidy::sources(".yml");
    templates.retain(|file| {
        file.path.starts_with(".github/ISSUE_TEMPLATE/") && file.file_name() != "config.yml"
    });
    assert_eq!(templates.len(), 2);
    for template in templates {
        let form = Yaml::of_file(&template.path);
        assert!(!form.text("name").is_empty() && !form.text("description").is_empty());
        let mut ids = Vec::new();
        for field in form.items("body") {
            match field.text("type") {
                "markdown" => assert!(!field.text("attributes.value").is_empty()),
                kind => {
                    assert!(["input", "textarea", "dropdown"].contains(&kind), "{kind}");
                    assert!(!field.text("attributes.label").is_empty());
                    ids.push(field.text("id").to_owned());
                }
            }
        }
        let count = ids.len();
        ids.sort();
        ids.dedup();
        assert!(count > 0 && ids.len() == count, "{}: {ids:?}", template.path);
    }
}
