//! Endpoints that create something refuse keys that they do not know.

use serde_json::json;

use super::Place;
use crate::support::{ANN, Call, databases};

#[tokio::test]
async fn an_endpoint_that_creates_something_refuses_unknown_keys() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let session = place.site.signed_in_ann().await;
        for (path, body) in [
            ("/auth/register", json!({ "email": "bob@example.com", "password": "a long password", "ttl": 60 })),
            ("/auth/magic-link/send", json!({ "email": ANN, "ttl": 60 })),
            ("/auth/send-verification", json!({ "ttl": 60 })),
            ("/auth/2fa/enroll", json!({ "ttl": 60 })),
            ("/auth/2fa/verify", json!({ "code": "123456", "ttl": 60 })),
            ("/auth/2fa/backup-codes", json!({ "ttl": 60 })),
        ] {
            let answer = Call::post(path).json(&body).cookie_of(&session).send(&place.site).await.expect(422).json();
            let error = json!({ "field": "ttl", "code": "unknown", "message": "there is no such field" });
            assert_eq!(answer["errors"], json!([error]), "{}: {path}", database.name);
        }
        assert!(place.mails().await.is_empty());
        // `next` and `_csrf` are known everywhere.
        let form = Call::post("/auth/magic-link/send").form(&[("email", ANN), ("next", "/x"), ("_csrf", "x")]);
        form.send(&place.site).await.expect(200);
    }
}
