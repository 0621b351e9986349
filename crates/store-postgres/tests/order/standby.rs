//! A lagging standby is never read from: its feed is another one.

use tidelock_store::{FeedQuery, Position, RetryAdvice, Store, StoreErrorKind};
use tidelock_store_postgres::PostgresStore;
use tidelock_test_postgres::{Server, Stop};

use crate::ground::{append, committed, feed_after, said};

/// The standby comes first; `any` takes the first server that answers.
fn url(first: &Server, second: &Server, attributes: &str) -> String {
    let (first, second) = (first.port(), second.port());
    format!(
        "postgres://postgres@127.0.0.1:{first},127.0.0.1:{second}/postgres?target_session_attrs={attributes}"
    )
}

/// Schedule 16. LOG-7.
#[tokio::test]
async fn nothing_is_read_from_a_standby() {
    let primary = Server::start().unwrap();
    let writer = PostgresStore::open(&primary.url()).await.unwrap();
    committed(&writer, append("a", "replicated")).await;
    let standby = primary.standby("behind").unwrap();
    standby.run_sql("postgres", "SELECT pg_wal_replay_pause()").unwrap();
    committed(&writer, append("a", "not replayed")).await;
    let behind = standby.run_sql("postgres", "SELECT count(*) FROM tidelock.events").unwrap();
    assert_eq!(behind, "1", "the standby shows another feed");

    let reader = PostgresStore::open(&url(&standby, &primary, "read-write")).await.unwrap();
    assert_eq!(said(&feed_after(&reader, Position::START).await), ["replicated", "not replayed"]);

    for url in [standby.url(), format!("{}?target_session_attrs=any", standby.url())] {
        let refused = PostgresStore::open(&url).await.map(drop).unwrap_err();
        assert_eq!(
            (refused.kind(), refused.advice()),
            (StoreErrorKind::Unavailable, RetryAdvice::Later),
            "{refused}"
        );
        assert!(refused.context().contains("standby"), "{refused}");
    }

    // Opened on the primary, and allowed to take any server: when the primary goes down, the
    // standby is still not read from.
    let any = PostgresStore::open(&url(&primary, &standby, "any")).await.unwrap();
    primary.stop(Stop::Immediate).unwrap();
    for store in [&reader, &any] {
        let refused =
            store.read_feed(FeedQuery::after(Position::START)).await.map(drop).unwrap_err();
        assert_eq!(refused.advice(), RetryAdvice::Later, "{refused}");
    }
}
