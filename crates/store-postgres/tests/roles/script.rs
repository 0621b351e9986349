//! The script itself: when it can be run, and what it leaves behind.

use tidelock_store::{Store, StoreErrorKind};

use crate::ground::{append, committed};
use crate::{Shop, check_denied, check_error};

/// Everything that the catalogs say about owners and rights in the schema.
const RIGHTS: &str = "SELECT string_agg(said, E'\\n' ORDER BY said) FROM (
    SELECT concat_ws(' ', 'table', relname, relowner::regrole, relacl::text) FROM pg_class
        WHERE relnamespace = '@'::regnamespace AND relkind = 'r'
    UNION ALL SELECT concat_ws(' ', 'column', attrelid::regclass, attname, attacl::text) FROM pg_attribute
        JOIN pg_class ON pg_class.oid = attrelid WHERE relnamespace = '@'::regnamespace AND attacl IS NOT NULL
    UNION ALL SELECT concat_ws(' ', 'function', proname, proowner::regrole, proacl::text) FROM pg_proc
        WHERE pronamespace = '@'::regnamespace
    UNION ALL SELECT concat_ws(' ', 'schema', nspowner::regrole, nspacl::text) FROM pg_namespace
        WHERE nspname = '@') AS rights (said)";

impl Shop {
    async fn rights(&self) -> String {
        self.admin.one(RIGHTS).await
    }
}

#[tokio::test]
async fn the_script_run_again_changes_nothing() {
    let shop = Shop::new().await;
    let before = shop.rights().await;
    shop.run_script();
    assert_eq!(shop.rights().await, before);
}

#[tokio::test]
async fn the_script_takes_back_what_was_granted_too_freely() {
    let shop = Shop::new().await;
    let before = shop.rights().await;
    shop.admin
        .run(
            "GRANT ALL ON ALL TABLES IN SCHEMA @ TO @_app, @_reader, PUBLIC;
             GRANT UPDATE (payload) ON tidelock.events TO @_app;
             GRANT ALL ON ALL FUNCTIONS IN SCHEMA @ TO @_reader, PUBLIC; GRANT ALL ON SCHEMA @ TO @_app, PUBLIC",
        )
        .await;
    assert_ne!(shop.rights().await, before);
    shop.run_script();
    assert_eq!(shop.rights().await, before);
}

/// For a store that began without roles.
#[tokio::test]
async fn a_schema_made_by_another_role_is_handed_to_the_owner() {
    let (shop, usual) = (Shop::without_roles().await, Shop::new().await);
    let store = shop.ground.open().await;
    committed(&store, append("a", "before")).await;
    shop.run_script();
    shop.make_logins().await;
    let anonymous = |rights: String, shop: &Shop| rights.replace(shop.ground.schema.as_str(), "@");
    assert_eq!(anonymous(shop.rights().await, &shop), anonymous(usual.rights().await, &usual));
    committed(&shop.open("app").await, append("a", "after")).await;
    committed(&store, append("a", "as before")).await;
}

/// An administrator of one database, as hosting companies provide it.
#[tokio::test]
async fn the_database_owner_that_may_create_roles_can_run_the_script() {
    let shop = Shop::without_roles().await;
    shop.admin.run("CREATE ROLE @_dba CREATEROLE").await;
    shop.admin.run("CREATE DATABASE @_base OWNER @_dba").await;
    let schema = &shop.ground.schema;
    let script = format!(
        "SET SESSION AUTHORIZATION {schema}_dba;\n\\set schema {schema}\n{}",
        crate::SCRIPT
    );
    for _ in 0..2 {
        crate::SERVER.run_sql(&format!("{schema}_base"), &script).unwrap();
    }
    shop.admin.run("REVOKE CONNECT ON DATABASE @_base FROM PUBLIC").await;
    for role in ["owner", "app", "reader"] {
        let sql = format!("SELECT has_database_privilege('@_{role}', '@_base', 'CONNECT')");
        assert!(shop.admin.one::<bool>(&sql).await, "{role}");
    }
}

#[tokio::test]
async fn tables_of_later_migrations_can_be_read_at_once_and_written_by_no_other_role() {
    let shop = Shop::new().await;
    shop.connect("owner").await.run("CREATE TABLE tidelock.later (n int)").await;
    for role in ["app", "reader"] {
        let client = shop.connect(role).await;
        client.run("SELECT FROM tidelock.later").await;
        check_denied(&client, "INSERT INTO tidelock.later VALUES (1)").await;
    }
}

#[tokio::test]
async fn a_role_that_may_not_create_tables_is_told_which_one_may() {
    let said = "open it once with the owner role";
    let shop = Shop::without_tables().await;
    for role in ["app", "reader"] {
        let refused = shop.refusal_to_open(role).await;
        check_error(&refused, StoreErrorKind::Incompatible, said);
        assert!(refused.context().contains(shop.ground.schema.as_str()), "{refused}");
    }
    shop.admin.run("DROP SCHEMA @").await;
    check_error(&shop.refusal_to_open("app").await, StoreErrorKind::Incompatible, said);
    assert!(
        shop.admin.one::<bool>("SELECT to_regnamespace('@') IS NULL").await,
        "nothing was made"
    );
}

/// The script was not run again once the tables were there.
#[tokio::test]
async fn an_application_without_its_rights_is_told_where_to_read_about_them() {
    let shop = Shop::without_tables().await;
    shop.open("owner").await.close().await.unwrap();
    let refused = shop
        .open("app")
        .await
        .commit(append("a", "denied"))
        .await
        .expect_err("nothing was granted");
    check_error(&refused, StoreErrorKind::Storage, "docs/guides/postgres.md");
}
