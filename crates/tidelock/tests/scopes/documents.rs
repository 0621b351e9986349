//! Valid documents of a scope.

use serde_json::{Value, json};
use tidelock::prelude::*;
use tidelock::scopes::ScopeError;
use tidelock_test_stage::{TestStore, on_every_store};

use crate::basket::{Basket, baskets, in_memory, put, revision, shared};

on_every_store!(
    nothing_is_written_that_the_type_could_not_read,
    nothing_is_written_that_the_check_does_not_allow,
    unknown_fields_are_kept_by_named_operations,
    an_unreadable_document_is_reported_without_its_content,
    a_scope_without_a_proper_name_is_refused,
);

/// SCOPE-10.
async fn nothing_is_written_that_the_type_could_not_read(stage: TestStore) {
    for scope in [in_memory(), shared(&stage.tidelock().await)] {
        put(&scope, "tea").await;
        let before = revision(&scope).await;
        let errors = [
            scope.patch(json!({ "total": "many" })).await.map(drop).unwrap_err(),
            scope.push("items", 7).await.map(drop).unwrap_err(),
            scope.set_entry("flags", "gift", "yes").await.map(drop).unwrap_err(),
            scope.increment("items", 1).await.map(drop).unwrap_err(),
            scope.push("total", 1).await.map(drop).unwrap_err(),
            scope.operation_id("bad").patch(json!([1])).await.map(drop).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, ScopeError::Unfit { .. }), "{error}");
        }
        assert_eq!(revision(&scope).await, before);
        assert_eq!(scope.get().await.unwrap().items, ["tea"]);
    }
}

/// SCOPE-10.
async fn nothing_is_written_that_the_check_does_not_allow(stage: TestStore) {
    let sober = |basket: &Basket| {
        if basket.items.iter().any(|item| item == "gin") {
            Err("no gin".to_owned())
        } else {
            Ok(())
        }
    };
    for scope in [in_memory(), shared(&stage.tidelock().await)] {
        let scope = scope.validate(sober);
        put(&scope, "tea").await;
        let gin = || Basket { items: vec!["gin".to_owned()], ..Basket::default() };
        let errors = [
            scope.push("items", "gin").await.map(drop).unwrap_err(),
            scope.set(&gin()).await.map(drop).unwrap_err(),
            scope.operation_id("gin").set(&gin()).await.map(drop).unwrap_err(),
            scope.create(gin()).await.map(drop).unwrap_err(),
        ];
        for error in errors {
            let name =
                if error.to_string().contains("here") { "basket/here" } else { "basket/shared" };
            assert_eq!(error.to_string(), format!("scope {name}: rejected by its check: no gin"));
        }
        assert_eq!(scope.get().await.unwrap().items, ["tea"]);
    }
}

/// SCOPE-10.
async fn unknown_fields_are_kept_by_named_operations(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    let dynamic = tidelock.scope::<Value>(baskets(), "shared");
    dynamic.patch(json!({ "total": 1, "newer": { "a": 1 } })).await.unwrap();
    let scope = shared(&tidelock);
    scope.increment("total", 1).await.unwrap();
    put(&scope, "tea").await;
    scope.operation_id("op").set_entry("flags", "gift", true).await.unwrap();
    let document =
        json!({ "total": 2, "items": ["tea"], "flags": { "gift": true }, "newer": { "a": 1 } });
    assert_eq!(dynamic.get().await.unwrap(), document);
}

/// SCOPE-10.
async fn an_unreadable_document_is_reported_without_its_content(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    tidelock
        .scope::<Value>(baskets(), "shared")
        .set(&json!({ "total": "a secret" }))
        .await
        .unwrap();
    let scope = shared(&tidelock);
    let errors = [
        scope.get().await.map(drop).unwrap_err(),
        scope.increment("total", 1).await.map(drop).unwrap_err(),
        scope.operation_id("op").increment("total", 1).await.map(drop).unwrap_err(),
        scope.watch().unwrap().next().await.map(drop).unwrap_err(),
    ];
    for error in errors {
        assert!(matches!(error, ScopeError::Unreadable { .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("basket/shared") && !text.contains("secret"), "{text}");
    }
    scope.delete().await.unwrap();
}

/// SCOPE-10.
async fn a_scope_without_a_proper_name_is_refused(stage: TestStore) {
    let tidelock = stage.tidelock().await;
    for (kind, id) in [("", "1"), ("~run", "1"), ("a/b", "1"), ("basket", ""), ("basket", "a\nb")] {
        let stored = tidelock.scope::<Basket>(ScopeKind::custom(kind), id);
        for scope in [stored, Scope::in_memory(ScopeKind::custom(kind), id, Basket::default())] {
            scope.get().await.expect_err(kind);
            scope.increment("total", 1).await.expect_err(kind);
            scope.create(Basket::default()).await.expect_err(kind);
            scope.delete().await.expect_err(kind);
            scope.touch().await.expect_err(kind);
            scope.watch().expect_err(kind);
        }
    }
    let long = tidelock.scope::<Basket>(baskets(), "x".repeat(600));
    let error = long.get().await.unwrap_err();
    assert!(error.to_string().contains("the limit is 512"), "{error}");
}
