//! The OpenAPI document and the routes are one list.

use std::collections::BTreeSet;

use tidelock_http::{Api, Needs};
use tidelock_test_stage::Stage;

use crate::ground::{READER, Server};

/// HTTP-1.
async fn every_route_is_in_the_document_and_the_other_way_round(stage: Stage) {
    let server = Server::start(&stage).await;
    let document = server.client(READER).get("/v1/openapi.json").await.ok(200);
    let documented: BTreeSet<_> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(move |method| (method.to_uppercase(), path.clone()))
        })
        .collect();
    let routes = Api::over(&server.tidelock).routes();
    let served: BTreeSet<_> =
        routes.iter().map(|route| (route.method.to_string(), route.path.clone())).collect();
    assert_eq!(documented, served);
    for route in routes {
        let operation = &document["paths"][&route.path][route.method.as_str().to_lowercase()];
        assert!(operation["summary"].as_str().is_some_and(|summary| !summary.is_empty()), "{route:?}");
        assert_eq!(operation["security"].is_array(), route.needs != Needs::Nothing, "{route:?}");
        for (status, answer) in operation["responses"].as_object().unwrap() {
            assert!(answer["description"].is_string(), "{route:?} {status}");
        }
    }
    server.stop().await;
}

over_sockets!(every_route_is_in_the_document_and_the_other_way_round);
