//! What the application's role may not do, whatever a mistake or an intruder makes it send to the
//! server.

use tidelock_store::{AfterTrim, Append, Commit, CommitId, ExpectedVersion, Version};

use crate::ground::{append, committed, event, stream, wake};
use crate::{Shop, check_denied, put};

/// A shop with two closed streams, an open one, a record, an item and a commit that has an id: five
/// events in all.
async fn filled() -> Shop {
    let shop = Shop::new().await;
    let store = shop.open("app").await;
    for name in ["closed", "shut"] {
        let two = [event("first"), event("last")];
        let closing = Append::new(&stream(name), ExpectedVersion::NoStream, two).and_close();
        committed(&store, Commit::new().with_append(closing)).await;
    }
    let rest = append("open", "only").write(put("a"));
    committed(&store, rest.with_id(CommitId::fresh())).await;
    committed(&store, wake("a")).await;
    shop
}

async fn events(shop: &Shop) -> i64 {
    shop.admin.one("SELECT count(*) FROM tidelock.events").await
}

/// LOG-4, kept by the server itself: events stay as they are, but for trims.
#[tokio::test]
async fn the_server_denies_the_application_whatever_a_store_never_does() {
    let shop = filled().await;
    let app = shop.connect("app").await;
    for sql in [
        "UPDATE tidelock.events SET payload = 'null'",
        "UPDATE tidelock.events SET position = position + 100",
        "DELETE FROM tidelock.events",
        "TRUNCATE tidelock.events",
        "SELECT FROM tidelock.events FOR UPDATE",
        "UPDATE tidelock.streams SET first = 2",
        "UPDATE tidelock.streams SET name = 'other'",
        "INSERT INTO tidelock.version_floors VALUES ('run/', 0)",
        "UPDATE tidelock.version_floors SET version = 0",
        "DELETE FROM tidelock.version_floors",
        "UPDATE tidelock.meta SET revision_floor = 0",
        "UPDATE tidelock.meta SET fence_floor = 0",
        "UPDATE tidelock.meta SET undated_from = NULL",
        "DELETE FROM tidelock.streams",
        "UPDATE tidelock.records SET key = 'other'",
        "DELETE FROM tidelock.records",
        "UPDATE tidelock.items SET key = 'other'",
        "DELETE FROM tidelock.items",
        "UPDATE tidelock.commits SET committed = ''",
        "SELECT setval('tidelock.positions', 1)",
        "ALTER SEQUENCE tidelock.positions RESTART",
        "UPDATE tidelock.meta SET position_floor = 0",
        "UPDATE tidelock.meta SET epoch = 0",
        "INSERT INTO tidelock.epochs VALUES (1, '', 0)",
        "UPDATE tidelock.meta SET one = true",
        "INSERT INTO tidelock.meta VALUES (true, 0, 0, 0, 0)",
        "DELETE FROM tidelock.meta",
        "UPDATE tidelock.epochs SET home = ''",
        "DELETE FROM tidelock.epochs",
        "INSERT INTO tidelock.migrations VALUES (2, '', '', now())",
        "UPDATE tidelock.migrations SET checksum = ''",
        "DELETE FROM tidelock.migrations",
    ] {
        check_denied(&app, sql).await;
    }
    assert_eq!(events(&shop).await, 5);
}

#[tokio::test]
async fn the_server_denies_the_application_every_change_of_the_schema() {
    let shop = Shop::new().await;
    let app = shop.connect("app").await;
    for sql in [
        "CREATE TABLE tidelock.more (n int)",
        "CREATE FUNCTION tidelock.more() RETURNS int LANGUAGE sql AS 'SELECT 1'",
        "CREATE OR REPLACE FUNCTION tidelock.calendar() RETURNS bigint LANGUAGE sql AS 'SELECT 0::bigint'",
        "ALTER FUNCTION tidelock.trim(text, bigint) SECURITY INVOKER",
        "ALTER TABLE tidelock.events ADD COLUMN more int",
        "ALTER TABLE tidelock.events DISABLE TRIGGER ALL",
        "CREATE TRIGGER more BEFORE INSERT ON tidelock.events EXECUTE FUNCTION suppress_redundant_updates_trigger()",
        "CREATE RULE more AS ON INSERT TO tidelock.events DO INSTEAD NOTHING",
        "CREATE INDEX more ON tidelock.events (type)",
        "DROP TABLE tidelock.events",
    ] {
        check_denied(&app, sql).await;
    }
    // For a grant without the right to grant, the server only warns.
    app.run("GRANT DELETE ON tidelock.events TO PUBLIC").await;
    check_denied(&app, "DELETE FROM tidelock.events").await;
}

/// LOG-9, kept by the server itself.
#[tokio::test]
async fn only_a_closed_stream_is_trimmed_and_only_up_to_its_version() {
    let shop = filled().await;
    let app = shop.connect("app").await;
    for sql in [
        "SELECT tidelock.trim('open', 1)",
        "SELECT tidelock.trim('closed', 3)",
        "SELECT tidelock.trim('nowhere', 1)",
        "SELECT tidelock.trim('closed', NULL)",
        "SELECT tidelock.trim(NULL, 1)",
    ] {
        let refused = app.try_run(sql).await.expect_err(sql);
        let said = refused.as_db_error().expect("the server says so").message();
        assert!(said.contains("only a closed stream can be trimmed"), "{sql}: {said}");
    }
    assert_eq!(events(&shop).await, 5);
    let trim = Commit::new().trim(&stream("closed"), Version::FIRST, AfterTrim::StayClosed);
    committed(&shop.open("app").await, trim).await;
    assert_eq!(events(&shop).await, 4);
}

/// `let_go` removes only the empty placeholder rows.
#[tokio::test]
async fn streams_and_records_that_exist_are_not_let_go() {
    let shop = filled().await;
    shop.connect("app").await.run("SELECT tidelock.let_go('{closed,shut,open}', '{a}')").await;
    assert_eq!(shop.admin.one::<i64>("SELECT count(*) FROM tidelock.streams").await, 3);
    assert_eq!(shop.admin.one::<i64>("SELECT count(*) FROM tidelock.records").await, 1);
}

/// Sweeping removes what is past its retention, and nothing else.
#[tokio::test]
async fn the_application_cannot_sweep_away_what_is_kept() {
    let shop = filled().await;
    let app = shop.connect("app").await;
    for kind in ["records", "items", "streams", "commits"] {
        assert_eq!(
            app.one::<i64>(&format!("SELECT tidelock.forget_{kind}(500)")).await,
            0,
            "{kind}"
        );
    }
    app.run("SELECT tidelock.date_tombstones(500)").await;
    for (table, rows) in [("records", 1), ("items", 1), ("streams", 3), ("commits", 1)] {
        let count = format!("SELECT count(*) FROM tidelock.{table}");
        assert_eq!(shop.admin.one::<i64>(&count).await, rows, "{table}");
    }
}

/// Functions that run with their owner's rights must not find a caller's operators and tables
/// before the server's own.
#[tokio::test]
async fn a_caller_cannot_lead_the_owners_functions_astray() {
    let shop = filled().await;
    shop.admin.run("CREATE SCHEMA @_trap; GRANT ALL ON SCHEMA @_trap TO PUBLIC").await;
    let app = shop.connect("app").await;
    // With this operator, everything equals everything.
    app.run(
        "CREATE FUNCTION @_trap.yes(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
         CREATE OPERATOR @_trap.= (LEFTARG = text, RIGHTARG = text, FUNCTION = @_trap.yes);
         CREATE TEMPORARY TABLE streams (name text, version bigint, first bigint, closed boolean);
         CREATE TEMPORARY TABLE events (stream text, version bigint, position bigint);
         SET search_path = @_trap, pg_temp, pg_catalog",
    )
    .await;
    app.run("SELECT tidelock.trim('closed', 1)").await;
    assert_eq!(events(&shop).await, 4, "the one that was meant is gone");

    // The trap works: a function without a fixed search path falls into it.
    shop.admin.run("ALTER FUNCTION tidelock.trim(text, bigint) RESET search_path").await;
    app.run("SELECT tidelock.trim('shut', 1)").await;
    assert_eq!(events(&shop).await, 2, "one was meant, and two are gone");
}

/// Positions jump with an epoch, and that begins when the database has moved and not on request.
#[tokio::test]
async fn the_application_cannot_begin_an_epoch_where_none_begins() {
    let shop = filled().await;
    let app = shop.connect("app").await;
    app.run("SELECT tidelock.begin_epoch(0)").await;
    assert_eq!(shop.admin.one::<i64>("SELECT epoch FROM tidelock.meta").await, 0);

    shop.admin.run("UPDATE tidelock.epochs SET home = 'elsewhere'").await;
    app.run("SELECT tidelock.begin_epoch(1)").await;
    assert_eq!(shop.admin.one::<i64>("SELECT epoch FROM tidelock.meta").await, 0);
    app.run("SELECT tidelock.begin_epoch(0)").await;
    let begun = "SELECT epoch FROM tidelock.meta WHERE epoch = position_floor AND epoch = (SELECT last FROM tidelock.settled())";
    assert!(shop.admin.one::<i64>(begun).await > 0);
}

#[tokio::test]
async fn every_function_with_the_owners_rights_says_where_it_looks() {
    let shop = Shop::new().await;
    let trusted =
        "SELECT count(*) FROM pg_proc WHERE pronamespace = '@'::regnamespace AND prosecdef";
    assert_eq!(shop.admin.one::<i64>(trusted).await, 8);
    let careful = format!("{trusted} AND 'search_path=pg_catalog, pg_temp' = ANY (proconfig)");
    assert_eq!(shop.admin.one::<i64>(&careful).await, 8);
}
