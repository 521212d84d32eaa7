//! Guests: accounts without an address, and how they become full ones.

use std::time::Duration;

use futures_util::future::join_all;
use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::guests::GuestsPlugin;
use gatewright_auth::{AuthConfig, Guests};
use gatewright_db::params;
use http::Method;
use serde_json::{Value, json};

use crate::cut::Place;
use crate::support::{Answer, Call, PASSWORD, Site, config, databases};

const ANN: &str = "ann@example.com";

async fn arrive(site: &Site) -> Answer {
    Call::post("/auth/anonymous").json(&json!({})).send(site).await.expect(200)
}

fn id(answer: &Answer) -> String {
    answer.json()["user"]["id"].as_str().unwrap().to_owned()
}

async fn is_guest(site: &Site, guest: &Answer) -> bool {
    let me = site.me(guest).await;
    me.status == 200 && me.json()["user"]["email"] == Value::Null
}

fn registering(email: &str, guest: &Answer) -> Call {
    Call::post("/auth/register").json(&json!({ "email": email, "password": PASSWORD })).cookie_of(guest)
}

async fn token(site: &Site, guest: &Answer) -> String {
    let body = json!({ "name": "ci", "scopes": ["notes:read"] });
    Call::post("/auth/tokens").json(&body).cookie_of(guest).send(site).await.expect(200).token()
}

/// The guest that the last sign-in names.
fn named(site: &Site) -> Option<Value> {
    let events = site.audit.events();
    let last = events.iter().rev().find(|event| event.kind == AuditKind::LoginSucceeded).unwrap();
    last.meta.get("guest").cloned()
}

#[tokio::test]
async fn a_guest_that_registers_keeps_its_id_and_everything_issued_to_it_ends() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let guest = arrive(site).await;
        assert!(guest.headers["set-cookie"].to_str().unwrap().contains("Max-Age=34560000"));
        assert_eq!(guest.json()["user"]["email"], Value::Null);
        assert!(is_guest(site, &guest).await);
        let claims = guest.token();
        let claims = claims.split('.').nth(1).unwrap();
        let claims = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, claims).unwrap();
        assert!(!String::from_utf8(claims).unwrap().contains("email"));
        let token = token(site, &guest).await;
        Call::get("/whoami").bearer(&token).send(site).await.expect(200);
        site.advance(1);
        // A guest that comes back is the same one, in a new session.
        let again = Call::post("/auth/anonymous").json(&json!({})).cookie_of(&guest).send(site).await.expect(200);
        assert_eq!(id(&again), id(&guest));
        site.me(&guest).await.expect(401);
        site.advance(1);

        let full = registering(ANN, &again).send(site).await.expect(200);
        assert_eq!((id(&full), &full.json()["user"]["email"]), (id(&guest), &json!(ANN)));
        assert_eq!(site.me(&full).await.expect(200).json()["user"]["email"], json!(ANN));
        for ended in [&guest, &again] {
            site.me(ended).await.expect(401);
            Call::get("/auth/me").bearer(&ended.token()).send(site).await.expect(401);
        }
        let whoami = Call::get("/whoami").bearer(&token).send(site).await;
        assert_eq!(whoami.json(), json!("anonymous"));
        site.login(ANN, PASSWORD).await.expect(200);
        // It is no guest any more: an ended session upgrades nothing.
        site.advance(1);
        let other = registering("bob@example.com", &again).send(site).await.expect(200);
        assert_ne!(id(&other), id(&guest));
    }
}

#[tokio::test]
async fn a_link_a_code_and_a_provider_turn_a_guest_into_a_verified_account_with_the_same_id() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let verified = async |answer: &Answer, guest: &Answer| {
            let me = site.me(answer).await.expect(200).json();
            assert_eq!((&me["user"]["id"], &me["emailVerified"]), (&json!(id(guest)), &json!(true)));
            site.me(guest).await.expect(401);
        };
        let guest = arrive(site).await;
        let send = Call::post("/auth/magic-link/send").json(&json!({ "email": ANN }));
        send.cookie_of(&guest).send(site).await.expect(200);
        let link = place.mailed().await;
        site.advance(1);
        let redeem = Call::post("/auth/magic-link/verify").json(&json!({ "token": link }));
        let full = redeem.cookie_of(&guest).send(site).await.expect(200);
        verified(&full, &guest).await;

        let guest = arrive(site).await;
        let (request, code) = place.mailed_code("bob@example.com").await;
        site.advance(1);
        let body = json!({ "email": "bob@example.com", "code": code, "request": request });
        let full = Call::post("/auth/email-code/verify").json(&body).cookie_of(&guest).send(site).await.expect(200);
        verified(&full, &guest).await;

        let guest = arrive(site).await;
        let token = token(site, &guest).await;
        site.advance(1);
        let back = place.returning("/auth/oauth/alpha", Some(&guest), "cat@example.com").await;
        let full = back.send(site).await.expect(303);
        verified(&full, &guest).await;
        assert_eq!(Call::get("/whoami").bearer(&token).send(site).await.json(), json!("anonymous"));
        // The link that made the account is its way to sign in.
        let again = place.returning("/auth/oauth/alpha", None, "cat@example.com").await.send(site).await.expect(303);
        assert_eq!(site.me(&again).await.expect(200).json()["user"]["id"], json!(id(&guest)));
    }
}

#[tokio::test]
async fn a_link_that_somebody_else_requested_does_not_take_a_guest() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let guest = arrive(site).await;
        // Eve mails herself a link, and has the guest open it.
        let link = place.asked("/auth/magic-link/send", "eve@example.com").await;
        site.advance(1);
        let redeem = Call::post("/auth/magic-link/verify").json(&json!({ "token": link }));
        let eve = redeem.cookie_of(&guest).send(site).await.expect(200);
        assert_ne!(id(&eve), id(&guest));
        assert_eq!(named(site), Some(json!(id(&guest))));
        let sql = "SELECT email FROM users WHERE id = ?1";
        let rows = db.db.query(sql, params![id(&guest)]).await.unwrap();
        assert_eq!(rows[0].get::<String>("email").unwrap(), format!("guest-{}@guest.invalid", id(&guest)));
    }
}

#[tokio::test]
async fn an_address_with_an_account_is_409_and_a_proof_signs_that_account_in() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        // Registered by a stranger, and never verified.
        let ann = site.register(ANN).await;
        let guest = arrive(site).await;
        let token = token(site, &guest).await;
        let refused = registering(ANN, &guest).send(site).await.expect(409);
        let as_today = Call::post("/auth/register").json(&json!({ "email": ANN, "password": PASSWORD }));
        assert_eq!(refused.json()["code"], as_today.send(site).await.expect(409).json()["code"]);
        assert!(is_guest(site, &guest).await, "nothing of the guest has changed");
        assert_ne!(Call::get("/whoami").bearer(&token).send(site).await.json(), json!("anonymous"));

        let send = Call::post("/auth/magic-link/send").json(&json!({ "email": ANN }));
        send.cookie_of(&guest).send(site).await.expect(200);
        let link = place.mailed().await;
        site.advance(1);
        let redeem = Call::post("/auth/magic-link/verify").json(&json!({ "token": link }));
        let signed_in = redeem.cookie_of(&guest).send(site).await.expect(200);
        assert_eq!(id(&signed_in), id(&ann));
        assert_eq!(named(site), Some(json!(id(&guest))));
        // The guest is as before, with its token; its browser has another session now.
        site.me(&guest).await.expect(401);
        assert_ne!(Call::get("/whoami").bearer(&token).send(site).await.json(), json!("anonymous"));

        let guest = arrive(site).await;
        let back = place.returning("/auth/oauth/alpha", Some(&guest), ANN).await.send(site).await.expect(303);
        assert_eq!(site.me(&back).await.expect(200).json()["user"]["id"], json!(id(&ann)));
        assert_eq!(named(site), Some(json!(id(&guest))));
    }
}

#[tokio::test]
async fn of_20_parallel_registrations_of_one_guest_one_succeeds() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let guest = arrive(site).await;
        let tries = (0..20).map(|n| registering(&format!("ann{n}@example.com"), &guest).send(site));
        let answers = join_all(tries).await;
        let won: Vec<_> =
            answers.iter().filter(|answer| answer.status == 200).filter(|won| id(won) == id(&guest)).collect();
        assert_eq!(won.len(), 1, "{answers:?}");
        let rows = db.db.query("SELECT id FROM users WHERE id = ?1", params![id(&guest)]).await.unwrap();
        assert_eq!(rows.len(), 1);
        for lost in answers.iter().filter(|answer| answer.status != 200) {
            assert_eq!((lost.status.as_u16(), &lost.json()["code"]), (409, &json!("no_guest")));
        }
    }
}

#[tokio::test]
async fn a_limit_by_network_bounds_new_guests_also_in_parallel() {
    for db in databases().await {
        let config = AuthConfig { guests: Some(Guests { idle: Duration::from_hours(720) }), ..config() };
        let site = Site::with(config, |builder| builder.database(db.db.clone()).plugin(GuestsPlugin)).await;
        let tries = (0..20).map(|_| Call::post("/auth/anonymous").json(&json!({})).send(&site));
        let answers = join_all(tries).await;
        let made: Vec<_> = answers.iter().filter(|answer| answer.status == 200).collect();
        assert_eq!(made.len(), 10, "{answers:?}");
        let rows = db.db.query("SELECT id FROM users", params![]).await.unwrap();
        assert_eq!(rows.len(), 10);
        Call::post("/auth/anonymous").json(&json!({})).send(&site).await.expect(429);
        // Another network is not affected.
        Call::post("/auth/anonymous").json(&json!({})).from("198.51.100.9").send(&site).await.expect(200);
    }
}

#[tokio::test]
async fn nobody_names_the_reserved_address_of_a_guest_and_no_answer_shows_it() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let guest = arrive(site).await;
        let reserved = format!("guest-{}@guest.invalid", id(&guest));
        for (path, status) in [("/auth/register", 422), ("/auth/login", 401)] {
            let body = json!({ "email": reserved, "password": PASSWORD });
            Call::post(path).json(&body).send(site).await.expect(status);
        }
        for path in ["/auth/magic-link/send", "/auth/email-code/send"] {
            Call::post(path).json(&json!({ "email": reserved })).send(site).await.expect(422);
        }
        let before = place.kinds().await.len();
        Call::post("/auth/forgot-password").json(&json!({ "email": reserved })).send(site).await;
        assert_eq!(place.kinds().await.len(), before, "no mail goes to it");
        for path in ["/auth/me", "/auth/sessions", "/auth/tokens", "/account", "/whoami"] {
            let shown = Call::get(path).cookie_of(&guest).send(site).await.expect(200).body;
            assert!(!shown.contains("guest.invalid"), "{path}: {shown}");
        }
        let export = Call::post("/auth/export").json(&json!({})).cookie_of(&guest).send(site).await;
        assert!(!export.body.contains("guest.invalid"), "{}", export.body);
        assert!(Call::get("/account").cookie_of(&guest).send(site).await.expect(200).body.contains("as a guest"));
    }
}

#[tokio::test]
async fn a_session_of_an_account_makes_no_guest_and_a_signed_out_guest_is_gone() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let ann = site.signed_in(ANN).await;
        let refused = Call::post("/auth/anonymous").json(&json!({})).cookie_of(&ann).send(site).await.expect(409);
        assert_eq!(refused.json()["code"], "signed_in");
        let guest = arrive(site).await;
        Call::new(Method::POST, "/auth/logout").json(&json!({})).cookie_of(&guest).send(site).await.expect(204);
        site.me(&guest).await.expect(401);
        assert_ne!(id(&arrive(site).await), id(&guest));
    }
}
