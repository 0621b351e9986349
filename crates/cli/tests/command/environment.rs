//! Options from the environment: what comes first, and what a variable can say.

use crate::harness::{Said, Shop, append, bare, said};

fn run(variables: &[(&str, &str)], args: &[&str]) -> Said {
    let mut command = bare(args);
    command.envs(variables.iter().copied());
    said(command)
}

/// Two shops, with one stream each.
fn two_shops() -> (Shop, Shop) {
    let shops = (Shop::sqlite(), Shop::sqlite());
    for (shop, stream) in [(&shops.0, "tea-1"), (&shops.1, "oil-1")] {
        shop.with(|store| async move {
            append(store.as_ref(), stream, "placed", &[serde_json::json!({})]).await;
        });
    }
    shops
}

/// CMD-13.
#[test]
fn the_store_is_the_one_on_the_command_line_else_tidelock_store_else_database_url() {
    let (tea, oil) = two_shops();
    let finds = |variables: &[(&str, &str)], args: &[&str]| run(variables, args).out;
    let both = [("TIDELOCK_STORE", tea.url.as_str()), ("DATABASE_URL", oil.url.as_str())];
    let has = |out: &str, stream: &str| out.contains(stream);
    assert!(has(&finds(&both[1..], &["streams"]), "oil-1"));
    assert!(has(&finds(&both, &["streams"]), "tea-1"));
    assert!(has(&finds(&both, &["streams", "--store", &oil.url]), "oil-1"));
    assert!(has(&finds(&both, &["--store", &oil.url, "streams"]), "oil-1"));
    let empty = [("TIDELOCK_STORE", ""), ("DATABASE_URL", oil.url.as_str())];
    assert!(has(&finds(&empty, &["streams"]), "oil-1"), "an empty variable is none");
}

/// CMD-13.
#[test]
fn a_database_url_of_something_else_is_named_in_the_hint_without_its_password() {
    let refused = run(&[("DATABASE_URL", "mysql://shop:s3cret@db/shop")], &["streams"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("that is DATABASE_URL; --store URL or"), "{refused:?}");
    assert!(!refused.err.contains("s3cret"), "{refused:?}");
}

/// CMD-13. A story that writes meets no store by accident.
#[test]
fn the_demo_plays_on_a_store_only_if_the_command_line_names_it() {
    let (tea, _) = two_shops();
    let before = tea.ok(&["streams"]);
    for variable in ["TIDELOCK_STORE", "DATABASE_URL"] {
        let demo = run(&[(variable, &tea.url)], &["demo", "--once"]);
        assert_eq!(demo.code, 0, "{demo:?}");
    }
    assert_eq!(tea.ok(&["streams"]), before);
}

/// CMD-13.
#[test]
fn a_variable_sets_an_option_of_its_command_only_and_the_command_line_comes_first() {
    let (tea, _) = two_shops();
    let store = ("TIDELOCK_STORE", tea.url.as_str());
    let shows = |name, value, args: &[&str]| run(&[store, (name, value)], args);
    let json = shows("TIDELOCK_JSON", "true", &["streams"]).out;
    assert!(json.starts_with('{'), "{json}");
    for off in ["false", "0", "NO", ""] {
        let table = shows("TIDELOCK_JSON", off, &["streams"]).out;
        assert!(!table.starts_with('{'), "{off}: {table}");
    }
    let none = |said: &Said| !said.out.contains("tea-1");
    assert!(none(&shows("TIDELOCK_EVENTS_TYPE", "paid,shipped", &["events", "--after", "0"])));
    assert!(!none(&shows("TIDELOCK_EVENTS_TYPE", "paid,placed", &["events", "--after", "0"])));
    assert!(!none(&shows("TIDELOCK_LEASES_LIMIT", "0", &["streams"])), "of another command");
    let typed = &["events", "--after", "0", "--type", "placed"];
    assert!(!none(&shows("TIDELOCK_EVENTS_TYPE", "paid", typed)), "the command line");
    let typed = &["events", "--after", "0", "--type=paid,placed"];
    assert!(none(&shows("TIDELOCK_EVENTS_TYPE", "placed", typed)), "a comma is one of its letters");
}

/// CMD-13.
#[test]
fn a_flag_that_a_variable_turns_off_excludes_nothing() {
    let (tea, _) = two_shops();
    let store = ("TIDELOCK_STORE", tea.url.as_str());
    let limited = &["streams", "--limit", "5"];
    assert_eq!(run(&[store, ("TIDELOCK_STREAMS_ALL", "off")], limited).code, 0);
    let refused = run(&[store, ("TIDELOCK_STREAMS_ALL", "on")], limited);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("'--limit <COUNT>'"), "{refused:?}");
    let sets = "The environment sets TIDELOCK_STORE, TIDELOCK_STREAMS_ALL.";
    assert!(refused.err.contains(sets), "{refused:?}");
}

/// CMD-13.
#[test]
fn a_value_that_is_none_is_refused_with_the_name_of_its_variable() {
    for (variable, value) in [("TIDELOCK_STREAMS_LIMIT", "many"), ("TIDELOCK_JSON", "perhaps")] {
        let refused = run(&[(variable, value)], &["streams"]);
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{refused:?}");
        assert!(refused.err.contains(variable), "{refused:?}");
    }
}

/// CMD-13.
#[test]
fn help_names_the_variables_and_never_shows_a_value() {
    let help = run(&[("TIDELOCK_STORE", "postgres://shop:s3cret@db/shop")], &["serve", "--help"]);
    assert!(help.out.contains("[env: TIDELOCK_STORE]"), "{help:?}");
    assert!(help.out.contains("[env: TIDELOCK_SERVE_TLS_CERT]"), "{help:?}");
    assert!(!help.out.contains("s3cret") && help.err.is_empty(), "{help:?}");
}
