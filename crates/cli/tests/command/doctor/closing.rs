//! Streams whose closing was interrupted.

use serde_json::json;
use tidelock::closing::CloseError;
use tidelock::prelude::*;
use tidelock::store::StreamName;

use super::{commands, findings, only, paste};
use crate::harness::{Shop, append};

on_files_and_postgres!(an_interrupted_closing_is_found_and_finished);

/// CMD-5.
fn an_interrupted_closing_is_found_and_finished(shop: &Shop) {
    shop.with(|store| async move {
        append(&*store, "order-1", "placed", &[json!(1), json!(2)]).await;
        let full =
            |_: Vec<tidelock::store::StoredEvent>| async { Err::<(), _>("the disk is full") };
        let stream = StreamName::new("order-1").unwrap();
        let failed =
            Tidelock::over(store).archive_stream_to(&stream, full).close().await.unwrap_err();
        assert!(matches!(failed, CloseError::Archive { .. }), "{failed}");
    });
    let (what, remedy) = only(shop, "half_closed");
    assert_eq!(
        what,
        "stream \"order-1\": close() was started and not finished: of its events up to 2, those up to 0 are in the archive; \
         the stream still has all of them, and accepts no more events"
    );
    assert!(remedy.contains("tidelock close order-1 --archive FILE --store "), "{remedy}");
    let (_, found) = findings(shop, &[]);
    assert!(found[0]["since"].is_string(), "{found:?}");
    assert_eq!(
        shop.run(&["doctor", "--stuck-after", "1h"]).code,
        0,
        "with more patience there are fewer findings"
    );
    let (command, file) = (commands(&found[0]).remove(0), shop.path("order-1.jsonl"));
    let closed = paste(shop, &format!("{command} -y"), &[("FILE", &file)]);
    assert_eq!(closed.code, 0, "{command}: {closed:?}");
    assert_eq!(findings(shop, &[]), (0, Vec::new()));
}
