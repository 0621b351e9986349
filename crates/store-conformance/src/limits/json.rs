//! JSON validation: what can and cannot be stored.

use tidelock_store::{
    Commit, ExpectedRevision, ExpectedVersion, NewEvent, RawJson, RecordWrite, StoreExt, limits,
};

use super::{assert_invalid, assert_over};
use crate::case::{World, cases};
use crate::sample::{commit, event, failed, json, key, stream};

cases! { "limits::json":
    "LIMIT-1 LOG-4" json_of_full_depth_is_kept,
    "LIMIT-1" json_one_level_deeper_is_refused,
    "LIMIT-1" json_with_a_nul_is_refused,
    "LIMIT-1" a_number_that_is_not_finite_is_refused,
    "LIMIT-1" text_that_is_no_json_is_refused,
    "LIMIT-1" metadata_that_is_no_object_is_refused,
    "LOG-4 REC-3" numbers_and_characters_at_the_ends_of_their_range_are_kept,
}

/// Arrays in an object, that many levels in all.
fn deep(levels: usize) -> String {
    let inside = levels - 1;
    format!("{{\"a\":{}{}}}", "[".repeat(inside), "]".repeat(inside))
}

async fn json_of_full_depth_is_kept(world: World) {
    let (store, deep) = (&*world.store, json(&deep(limits::JSON_DEPTH)));
    let new = NewEvent { payload: deep.clone(), metadata: deep.clone(), ..event(1) };
    let all = Commit::new()
        .append(&stream("s"), ExpectedVersion::NoStream, [new])
        .write(RecordWrite::put(&key("k"), ExpectedRevision::Absent, deep.clone()));
    commit(store, all).await;
    let found = store.read_whole_stream(&stream("s")).await.unwrap();
    assert_eq!((&found[0].payload, &found[0].metadata), (&deep, &deep));
    assert_eq!(store.get_one(&key("k")).await.unwrap().live().unwrap().value, deep);
}

async fn json_one_level_deeper_is_refused(_: World) {
    for levels in [limits::JSON_DEPTH + 1, limits::JSON_DEPTH * 2, 100_000] {
        assert_over(&RawJson::parse(deep(levels)).unwrap_err(), limits::JSON_DEPTH);
    }
    let nested =
        (0..=limits::JSON_DEPTH).fold(serde_json::json!(1), |inner, _| serde_json::json!([inner]));
    assert_over(&RawJson::new(&nested).unwrap_err(), limits::JSON_DEPTH);
}

async fn json_with_a_nul_is_refused(_: World) {
    for text in [r#""\u0000""#, r#"{"a":["x\u0000y"]}"#, r#"{"\u0000":1}"#, "\"\0\""] {
        assert_invalid(&RawJson::parse(text).unwrap_err(), "JSON");
    }
    assert_invalid(&RawJson::new("a\0b").unwrap_err(), "NUL");
}

async fn a_number_that_is_not_finite_is_refused(_: World) {
    for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_invalid(&RawJson::new(&number).unwrap_err(), "not finite");
        assert_invalid(&RawJson::new(&[Some(number)]).unwrap_err(), "not finite");
    }
    for text in ["1e999", "-1e999", "[1, 1e999]", "NaN", "Infinity", "-Infinity"] {
        assert_invalid(&RawJson::parse(text).unwrap_err(), "not JSON");
    }
}

async fn text_that_is_no_json_is_refused(_: World) {
    for text in ["", " ", "{", "nul", "1 2", "'a'", "{a:1}", "[1,]", "\"\u{1}\"", "01", "+1"] {
        assert_invalid(&RawJson::parse(text).unwrap_err(), "not JSON");
    }
}

async fn metadata_that_is_no_object_is_refused(world: World) {
    for text in ["null", "[]", "\"who\"", "1", " [ {} ]", "true"] {
        let new = event(1).with_metadata(json(text));
        let append = Commit::new().append(&stream("s"), ExpectedVersion::Any, [event(2), new]);
        assert_invalid(&failed(&*world.store, append).await, "metadata");
    }
    let new = event(1).with_metadata(json(" {} "));
    commit(&*world.store, Commit::new().append(&stream("s"), ExpectedVersion::Any, [new])).await;
}

async fn numbers_and_characters_at_the_ends_of_their_range_are_kept(world: World) {
    let store = &*world.store;
    let texts = [
        "1.7976931348623157e308",
        "5e-324",
        "-0",
        "-0.0",
        "9223372036854775807",
        "18446744073709551615",
        "123456789012345678901234567890",
        "\"\u{ffff}\u{10ffff}\u{7f}\u{85}\u{2028}\"",
        r#""\ud83e\udd80\u0001""#,
        "\t[ 1 ]\r\n",
        r#"{"a":1,"a":2}"#,
    ];
    for text in texts {
        let put = RecordWrite::put(&key("k"), ExpectedRevision::Any, json(text));
        let new = NewEvent { payload: json(text), ..event(1) };
        commit(store, Commit::new().write(put).append(&stream("s"), ExpectedVersion::Any, [new]))
            .await;
        assert_eq!(store.get_one(&key("k")).await.unwrap().live().unwrap().value.as_str(), text);
        let found = store.read_whole_stream(&stream("s")).await.unwrap();
        assert_eq!(found.last().unwrap().payload.as_str(), text);
    }
}
