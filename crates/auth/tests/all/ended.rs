//! A session that is being ended while its request is under way: a transaction that ends it has begun and holds the account.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gatewright_base::UserId;
use gatewright_db::testing::TestDb;
use gatewright_db::{Error, Tx, params};
use serde_json::{Value, json};

use crate::cut::Place;
use crate::support::{Answer, Call, PASSWORD, databases};

/// Sends a request while another transaction refuses the account's sessions. It commits when the request has had time to finish
/// without it.
async fn send_while_ending(place: &Place, db: &TestDb, user: &UserId, call: Call) -> Answer {
    let (is_held, is_released) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (held, released) = (is_held.clone(), is_released.clone());
    let (user, now) = (user.clone(), place.site.ambient.now());
    let ending = db.db.write(async move |tx: &Tx| -> Result<(), Error> {
        tx.execute("UPDATE users SET sessions_valid_after = ?2 WHERE id = ?1", params![&user, now]).await?;
        held.store(true, Ordering::SeqCst);
        // It must not wait for anything else, so it works.
        while !released.load(Ordering::SeqCst) {
            tx.query("SELECT 1 AS one", params![]).await?;
        }
        Ok(())
    });
    let request = async {
        while !is_held.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let release = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            is_released.store(true, Ordering::SeqCst);
            std::future::pending::<()>().await;
        };
        let answer = tokio::select! {
            answer = call.send(&place.site) => answer,
            () = release => unreachable!("it never ends"),
        };
        is_released.store(true, Ordering::SeqCst);
        answer
    };
    let (ended, answer) = tokio::join!(ending, request);
    ended.unwrap();
    answer
}

#[tokio::test]
async fn a_request_waits_for_the_end_of_its_session_and_is_refused() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let mut passed = Vec::new();
        for door in ["export", "delete-account", "tokens", "tenants", "change-email/confirm"] {
            let email = format!("{}@example.com", door.replace('/', "-"));
            let ann = if door.starts_with("change") {
                place.changing(&email).await
            } else {
                place.site.signed_in(&email).await
            };
            let id = place.site.auth.accounts().find(&email).await.unwrap().id;
            let call = match door {
                "export" => Call::get("/auth/export"),
                "delete-account" => Call::post("/auth/delete-account").json(&json!({ "password": PASSWORD })),
                "tokens" => Call::post("/auth/tokens").json(&json!({ "name": "CI" })),
                "tenants" => Call::post(&format!("/auth/tenants/{}/members", place.tenant(&ann).await))
                    .json(&json!({ "email": "eve@example.com" })),
                _ => Call::post(&format!("/auth/{door}")).json(&json!({ "token": place.mailed().await })),
            };
            let call = call.cookie_of(&ann);
            let refused = send_while_ending(&place, &db, &id, call).await;
            if refused.status != 401 {
                passed.push((door, refused.status));
                continue;
            }
            // Nothing is left of it.
            assert_eq!(place.site.auth.accounts().find(&email).await.unwrap().id, id, "{door}, {}", db.name);
            for table in ["account_invitations", "api_tokens", "users_deletions", "users_email_changes"] {
                let rows = db.db.query(format!("SELECT * FROM {table}"), params![]).await.unwrap();
                assert_eq!(rows.len(), 0, "{door} leaves a row of {table}, {}", db.name);
            }
        }
        assert_eq!(passed, [], "{}", db.name);
    }
}

/// The change and what its undo needs are one transaction: whoever looks at any moment sees both or neither.
#[tokio::test]
async fn no_moment_of_a_change_of_address_shows_half_of_it() {
    for db in databases().await {
        let place = Place::on(&db).await;
        for round in 0..10 {
            let email = format!("ann-{round}@example.com");
            let ann = place.changing(&email).await;
            let id = place.site.auth.accounts().find(&email).await.unwrap().id;
            let token = place.mailed().await;
            let body: Value = json!({ "token": token });
            let is_done = AtomicBool::new(false);
            let confirm = async {
                let call = Call::post("/auth/change-email/confirm").json(&body).cookie_of(&ann);
                call.send(&place.site).await.expect(200);
                is_done.store(true, Ordering::SeqCst);
            };
            let look = async {
                let mut looks = 0;
                while !is_done.load(Ordering::SeqCst) {
                    let sql = "SELECT email, (SELECT COUNT(*) FROM users_email_changes WHERE user_id = users.id) AS changes \
                               FROM users WHERE id = ?1";
                    let row = db.db.query_opt(sql, params![&id]).await.unwrap().unwrap();
                    let (present, changes) = (row.get::<String>("email").unwrap(), row.get::<i64>("changes").unwrap());
                    assert_eq!(changes, i64::from(present != email), "{present}, {}", db.name);
                    looks += 1;
                    tokio::task::yield_now().await;
                }
                assert!(looks > 0);
            };
            tokio::join!(confirm, look);
        }
    }
}
