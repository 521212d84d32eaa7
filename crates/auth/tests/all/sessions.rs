use base64::Engine as _;
use gatewright_auth::audit::AuditKind;
use gatewright_db::params;
use serde_json::json;

use crate::support::{ANN, Call, PASSWORD, Site, config, databases, unlimited};

const DAY: i64 = 86_400;

async fn count(db: &gatewright_db::Db) -> i64 {
    db.query_opt("SELECT COUNT(*) AS n FROM sessions", params![]).await.unwrap().unwrap().get("n").unwrap()
}

#[tokio::test]
async fn a_session_expires_after_seven_days() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let session = site.signed_in_ann().await;
        site.advance(7 * DAY - 1);
        site.me(&session).await.expect(200);
        site.advance(1);
        site.me(&session).await.expect(401);
    }
}

#[tokio::test]
async fn a_login_gives_a_new_secret_and_ends_the_browsers_former_session() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let first = site.signed_in_ann().await;
        let body = json!({ "email": ANN, "password": PASSWORD });
        let second = Call::post("/auth/login").json(&body).cookie_of(&first).send(&site).await.expect(200);
        assert_ne!(first.cookie(), second.cookie());
        site.me(&first).await.expect(401);
        site.me(&second).await.expect(200);
        assert_eq!(count(&db.db).await, 1);
    }
}

/// An attacker plants a cookie of their choice, and waits for the victim to sign in.
#[tokio::test]
async fn a_planted_cookie_is_never_adopted() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        let planted = format!("__Host-session={}", "A".repeat(43));
        let body = json!({ "email": ANN, "password": PASSWORD });
        let answer = Call::post("/auth/login").json(&body).cookie(&planted).send(&site).await.expect(200);
        assert_ne!(answer.cookie().unwrap(), planted);
        Call::get("/auth/me").cookie(&planted).send(&site).await.expect(401);
        // The attacker's own session, planted: the victim does not end up in it.
        let eve = site.signed_in("eve@example.com").await;
        let answer = Call::post("/auth/login").json(&body).cookie_of(&eve).send(&site).await.expect(200);
        assert_eq!(site.me(&answer).await.json()["user"]["email"], ANN);
        site.me(&eve).await.expect(401);
    }
}

#[tokio::test]
async fn the_store_contains_only_hashes() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let session = site.signed_in_ann().await;
        let cookie = session.cookie().unwrap();
        let value = cookie.split_once('=').unwrap().1;
        let rows = db.db.query("SELECT * FROM sessions", params![]).await.unwrap();
        let stored = format!("{rows:?}");
        assert!(!stored.contains(value));
        let hash: Vec<u8> = rows[0].get("secret_hash").unwrap();
        assert_eq!(hash.len(), 32);
        // The content of the table, in any encoding, is not a valid credential.
        let as_cookie = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(&hash);
        Call::get("/auth/me").cookie(&format!("__Host-session={as_cookie}")).send(&site).await.expect(401);
        let id: String = rows[0].get("id").unwrap();
        Call::get("/auth/me").cookie(&format!("__Host-session={id}")).send(&site).await.expect(401);
    }
}

#[tokio::test]
async fn a_role_change_and_a_deletion_take_effect_at_once() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let token = site.register_ann().await.token();
        let session = site.login_ann().await;
        let accounts = site.auth.accounts();
        let ann = accounts.find(ANN).await.unwrap();
        accounts.set_roles(&ann.id, &["editor", "user"].into_iter().collect()).await.unwrap();
        for call in [Call::get("/whoami").cookie_of(&session), Call::get("/whoami").bearer(&token)] {
            assert_eq!(call.send(&site).await.json()["roles"], json!(["editor", "user"]));
        }
        db.db.execute("DELETE FROM users WHERE id = ?1", params![&ann.id]).await.unwrap();
        for call in [Call::get("/whoami").cookie_of(&session), Call::get("/whoami").bearer(&token)] {
            assert_eq!(call.send(&site).await.json(), json!("anonymous"));
        }
        site.me(&session).await.expect(401);
    }
}

#[tokio::test]
async fn the_last_use_is_stored_at_intervals() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let session = site.signed_in_ann().await;
        let last_seen = async || -> jiff::Timestamp {
            db.db
                .query_opt("SELECT last_seen_at FROM sessions", params![])
                .await
                .unwrap()
                .unwrap()
                .get("last_seen_at")
                .unwrap()
        };
        let begun = last_seen().await;
        for _ in 0..29 {
            site.advance(10);
            site.me(&session).await.expect(200);
        }
        assert_eq!(last_seen().await, begun, "not within five minutes");
        site.advance(10);
        site.me(&session).await.expect(200);
        assert_eq!(last_seen().await.duration_since(begun).as_secs(), 300);
    }
}

#[tokio::test]
async fn new_sessions_remove_expired_ones() {
    for db in databases().await {
        let mut config = config();
        config.dev_mode = true;
        config.limits.login_account.policy = unlimited();
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
        site.register_ann().await;
        for _ in 0..40 {
            site.login_ann().await.expect(200);
        }
        assert_eq!(count(&db.db).await, 40);
        site.advance(7 * DAY);
        site.login_ann().await.expect(200);
        site.login_ann().await.expect(200);
        assert_eq!(count(&db.db).await, 2);
    }
}

#[tokio::test]
async fn garbage_in_the_cookie_header_is_anonymous() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        let good = site.login_ann().await.cookie().unwrap();
        let huge = format!("__Host-session={}", "A".repeat(100_000));
        let many = "a=b; ".repeat(5_000);
        for cookie in [
            "",
            ";;;",
            "=",
            "__Host-session",
            "__Host-session=",
            "__Host-session=%00",
            "__Host-session=' OR '1'='1",
            "__HOST-SESSION=x",
            &huge,
            &many,
            &good[..good.len() - 1],
            &format!("{good}A"),
            &good.replace("__Host-session", "session_id"),
            &good.to_lowercase(),
        ] {
            let answer = Call::get("/whoami").cookie(cookie).send(&site).await.expect(200);
            assert_eq!(answer.json(), json!("anonymous"), "{:?}", &cookie[..cookie.len().min(60)]);
        }
        let bytes = [b"\xff\xfe=\x80; ".as_slice(), good.as_bytes()].concat();
        let answer = Call::get("/whoami").header("cookie", bytes).send(&site).await;
        assert_eq!(answer.json()["credential"], "Session", "a foreign cookie does not hide ours");
    }
}

#[tokio::test]
async fn a_sign_in_that_began_before_a_logout_everywhere_does_not_survive_it() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let session = site.signed_in_ann().await;
        // As if the row had been written by a login that had read the account before, and committed after.
        let ann = site.auth.accounts().find(ANN).await.unwrap();
        let sql = "UPDATE users SET sessions_valid_after = ?2, tokens_valid_after = ?2 WHERE id = ?1";
        db.db.execute(sql, params![&ann.id, site.ambient.now()]).await.unwrap();
        site.me(&session).await.expect(401);
        Call::get("/auth/me").bearer(&session.token()).send(&site).await.expect(401);
        let next = site.login_ann().await.expect(200);
        site.me(&next).await.expect(200);
        Call::get("/auth/me").bearer(&next.token()).send(&site).await.expect(200);
    }
}

async fn listed(site: &Site, session: &crate::support::Answer) -> Vec<serde_json::Value> {
    let answer = Call::get("/auth/sessions").cookie_of(session).send(site).await.expect(200);
    answer.json()["sessions"].as_array().unwrap().clone()
}

#[tokio::test]
async fn a_user_sees_their_own_sessions() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        site.register("bob@example.com").await;
        site.login("bob@example.com", PASSWORD).await.expect(200);
        let body = json!({ "email": ANN, "password": PASSWORD });
        let agent = "Browser/1.0 \"quoted\"";
        let first = Call::post("/auth/login").header("user-agent", agent).from("2001:db8::7").json(&body);
        let first = first.send(&site).await.expect(200);
        site.advance(600);
        let second = site.login_ann().await.expect(200);
        let list = listed(&site, &second).await;
        assert_eq!(list.len(), 2);
        assert_eq!(list[0]["current"], true);
        let mut old = list[1].clone();
        assert!(old.as_object_mut().unwrap().remove("id").unwrap().is_string());
        let expected = json!({
            "createdAt": "2026-01-02T03:04:07.678901Z", "lastSeenAt": "2026-01-02T03:04:07.678901Z",
            "expiresAt": "2026-01-09T03:04:07.678901Z", "address": "2001:db8::7", "userAgent": agent, "current": false,
        });
        assert_eq!(old, expected);
        assert_eq!(listed(&site, &first).await.len(), 2);
        site.advance(7 * DAY - 600);
        assert_eq!(listed(&site, &second).await.len(), 1, "an expired one is not shown");
    }
}

#[tokio::test]
async fn a_user_ends_one_session_or_all_others() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        let bob = site.signed_in("bob@example.com").await;
        let (one, two, three) = (site.login_ann().await, site.login_ann().await, site.login_ann().await);
        let id_of = async |session| {
            listed(&site, session).await.iter().find(|s| s["current"] == true).unwrap()["id"]
                .as_str()
                .unwrap()
                .to_owned()
        };
        let end = |id: &str| Call::new(http::Method::DELETE, &format!("/auth/sessions/{id}"));

        let id = id_of(&one).await;
        end(&id).cookie_of(&bob).send(&site).await.expect(404);
        end("nothing").cookie_of(&two).send(&site).await.expect(404);
        end("%00").cookie_of(&two).send(&site).await.expect(404);
        site.me(&one).await.expect(200);
        assert!(end(&id).cookie_of(&two).send(&site).await.expect(204).set_cookie().is_none());
        site.me(&one).await.expect(401);
        end(&id).cookie_of(&two).send(&site).await.expect(404);

        Call::new(http::Method::DELETE, "/auth/sessions").cookie_of(&two).send(&site).await.expect(204);
        site.me(&three).await.expect(401);
        site.me(&two).await.expect(200);
        site.me(&bob).await.expect(200);

        let own = end(&id_of(&two).await).cookie_of(&two).send(&site).await.expect(204);
        assert!(own.set_cookie().unwrap().contains("Max-Age=0"));
        site.me(&two).await.expect(401);
    }
}

#[tokio::test]
async fn ending_no_session_is_not_recorded() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        let (_other, session) = (site.login(ANN, PASSWORD).await, site.login(ANN, PASSWORD).await);
        for _ in 0..5 {
            Call::new(http::Method::DELETE, "/auth/sessions").cookie_of(&session).send(&site).await.expect(204);
        }
        let ended = site.audited().into_iter().filter(|kind| *kind == AuditKind::SessionRevoked).count();
        assert_eq!(ended, 1, "{}", db.name);
    }
}

#[tokio::test]
async fn only_a_session_manages_sessions() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let token = site.register_ann().await.token();
        for method in [http::Method::GET, http::Method::DELETE] {
            Call::new(method.clone(), "/auth/sessions").bearer(&token).send(&site).await.expect(401);
            Call::new(method, "/auth/sessions").send(&site).await.expect(401);
        }
        Call::new(http::Method::DELETE, "/auth/sessions/x").bearer(&token).send(&site).await.expect(401);
    }
}
