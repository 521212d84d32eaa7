//! Devices without a browser: the grant of RFC 8628, and attacks on it.

use futures_util::future::join_all;
use gatewright_testing::{Actor, Answer, TestApp};
use jiff::SignedDuration;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{BASE, ENTITIES, MCP, code, exchange, form, hidden, public_client, refresh, text};

const GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
const BEGIN: &str = "/auth/oauth2/device_authorization";

/// What a device gets when it begins.
async fn begin(device: &Actor, client: &str) -> Value {
    form(device, BEGIN, &[("client_id", client), ("scope", "notes:read")]).await.is(200).json()
}

async fn poll(app: &TestApp, client: &str, device_code: &str) -> Answer {
    let pairs = [("grant_type", GRANT), ("client_id", client), ("device_code", device_code)];
    form(&app.anonymous(), "/auth/oauth2/token", &pairs).await
}

/// The error of a poll.
async fn refused(app: &TestApp, client: &str, device_code: &str) -> String {
    text(&poll(app, client, device_code).await.is(400).json(), "error")
}

async fn typed(user: &Actor, user_code: &str) -> Answer {
    form(user, "/device", &[("user_code", user_code)]).await
}

/// Presses a button of the second page.
async fn press(user: &Actor, page: &str, decision: &str) -> Answer {
    let (request, seal) = (hidden(page, "request"), hidden(page, "seal"));
    form(user, "/device", &[("request", &*request), ("seal", &*seal), ("decision", decision)]).await
}

/// Types the code of a device and allows it.
async fn allow(user: &Actor, begun: &Value) -> Answer {
    let page = typed(user, &text(begun, "user_code")).await.is(200);
    press(user, page.text(), "allow").await
}

fn seconds(app: &TestApp, seconds: i64) {
    app.wait(SignedDuration::from_secs(seconds));
}

#[tokio::test]
async fn a_device_polls_and_gets_tokens_after_a_click() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        user.post("/notes", json!({ "title": "mine" })).await.is(201);
        let client = public_client(&app).await;
        let document = app.anonymous().get("/.well-known/oauth-authorization-server").await.is(200).json();
        assert_eq!(document["device_authorization_endpoint"], format!("{BASE}{BEGIN}"));
        assert!(document["grant_types_supported"].as_array().unwrap().contains(&json!(GRANT)), "{document}");

        let device = app.anonymous().sending("user-agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0");
        let begun = begin(&device, &client).await;
        let (device_code, user_code) = (text(&begun, "device_code"), text(&begun, "user_code"));
        let letters = user_code.replace('-', "");
        assert!(letters.len() == 8 && letters.bytes().all(|letter| b"BCDFGHJKLMNPQRSTVWXZ".contains(&letter)));
        assert_eq!((&begun["expires_in"], &begun["interval"]), (&json!(600), &json!(5)));
        assert_eq!(begun["verification_uri"], format!("{BASE}/device"));
        assert_eq!(begun["verification_uri_complete"], format!("{BASE}/device?user_code={user_code}"));

        assert_eq!(refused(&app, &client, &device_code).await, "authorization_pending");
        // An anonymous visitor signs in first, and comes back with the code.
        let to = app.anonymous().get(&format!("/device?user_code={user_code}")).await.is(303);
        assert_eq!(to.header("location"), Some(&*format!("/login?next=%2Fdevice%3Fuser_code%3D{user_code}")));
        // Opening the page looks nothing up.
        let first = user.get(&format!("/device?user_code={user_code}")).await.is(200);
        assert!(first.text().contains(&format!("value=\"{user_code}\"")) && !first.text().contains("Notes Reader"));
        let page = typed(&user, &format!(" {} ", user_code.to_lowercase().replace('-', " "))).await.is(200);
        for words in ["Notes Reader", "ada@example.com", "read notes", "Firefox on Linux", "somebody sent you"] {
            assert!(page.text().contains(words), "{words}: {}", page.text());
        }
        for page in [&first, &page] {
            let policy = page.header("content-security-policy").unwrap();
            assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self';"), "{policy}");
            assert_eq!(page.header("cache-control"), Some("no-store"));
        }
        let german = typed(&user.clone().sending("accept-language", "de"), &user_code).await.is(200);
        assert!(german.text().contains("notes lesen") && german.text().contains("geschickt hat"), "{}", german.text());
        seconds(&app, 5);
        assert_eq!(refused(&app, &client, &device_code).await, "authorization_pending", "nothing is decided");

        let done = press(&user, page.text(), "allow").await.is(200);
        assert!(done.text().contains("Notes Reader has access now"), "{}", done.text());
        let answer = poll(&app, &client, &device_code).await.is(200);
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        let tokens = answer.json();
        assert_eq!((&tokens["token_type"], &tokens["scope"]), (&json!("Bearer"), &json!("notes:read")));
        let program = app.anonymous().bearing(&text(&tokens, "access_token"));
        assert_eq!(program.get("/notes").await.is(200).at("/data/0/title"), "mine");
        program.get("/drafts").await.is(403);
        let next = refresh(&app, &client, &text(&tokens, "refresh_token")).await.is(200).json();
        app.anonymous().bearing(&text(&next, "access_token")).get("/notes").await.is(200);
        assert!(user.get("/account/programs").await.is(200).text().contains("Notes Reader"));
    }
}

/// A code is decided once: by one user, with one result.
#[tokio::test]
async fn a_refused_a_decided_and_an_expired_code_end() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (ada, eve) = (app.signed_in("ada@example.com").await, app.signed_in("eve@example.com").await);
        let client = public_client(&app).await;
        let denied = begin(&app.anonymous(), &client).await;
        let page = typed(&ada, &text(&denied, "user_code")).await.is(200);
        let of_eve = typed(&eve, &text(&denied, "user_code")).await.is(200);
        press(&ada, page.text(), "deny").await.is(200);
        assert_eq!(refused(&app, &client, &text(&denied, "device_code")).await, "access_denied");
        // Who comes second decides nothing, and finds the code no more.
        press(&eve, of_eve.text(), "allow").await.is(409);
        typed(&eve, &text(&denied, "user_code")).await.is(422);
        assert_eq!(refused(&app, &client, &text(&denied, "device_code")).await, "access_denied");

        let late = begin(&app.anonymous(), &client).await;
        let page = typed(&ada, &text(&late, "user_code")).await.is(200);
        let allowed = begin(&app.anonymous(), &client).await;
        allow(&ada, &allowed).await.is(200);
        seconds(&app, 600);
        press(&ada, page.text(), "allow").await.is(409);
        typed(&ada, &text(&late, "user_code")).await.is(422);
        for begun in [&late, &allowed] {
            assert_eq!(refused(&app, &client, &text(begun, "device_code")).await, "expired_token", "{}", app.engine());
        }
        assert_eq!(refused(&app, &client, "gwd_guess").await, "invalid_grant");
    }
}

#[tokio::test]
async fn a_device_that_polls_too_often_has_to_slow_down() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let client = public_client(&app).await;
        let begun = begin(&app.anonymous(), &client).await;
        let code = text(&begun, "device_code");
        // After these waits: 5 seconds at first, then 10, then 15.
        for (wait, expected) in [
            (0, "authorization_pending"),
            (5, "authorization_pending"),
            (4, "slow_down"),
            (9, "slow_down"),
            (14, "slow_down"),
            (20, "authorization_pending"),
            (19, "slow_down"),
            (25, "authorization_pending"),
        ] {
            seconds(&app, wait);
            assert_eq!(refused(&app, &client, &code).await, expected, "after {wait} on {}", app.engine());
        }
        // Many at once: one is in time.
        let begun = begin(&app.anonymous(), &client).await;
        let code = text(&begun, "device_code");
        let errors = join_all((0..10).map(|_| refused(&app, &client, &code))).await;
        assert_eq!(errors.iter().filter(|error| *error == "authorization_pending").count(), 1, "{errors:?}");
        assert_eq!(errors.iter().filter(|error| *error == "slow_down").count(), 9, "{errors:?}");
    }
}

/// A device code works once, for its own client and as nothing else. A second use ends the grant.
#[tokio::test]
async fn a_device_code_is_bound_to_its_client_and_works_once() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let (client, other) = (public_client(&app).await, public_client(&app).await);
        let begun = begin(&app.anonymous(), &client).await;
        let device_code = text(&begun, "device_code");
        allow(&user, &begun).await.is(200);
        assert_eq!(refused(&app, &other, &device_code).await, "invalid_grant");
        let tries = join_all((0..20).map(|_| poll(&app, &client, &device_code))).await;
        let statuses: Vec<_> = tries.iter().map(Answer::status).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{} {statuses:?}", app.engine());
        // The others were replays: what the winner got is of no use.
        let tokens = tries.iter().find(|answer| answer.status() == 200).unwrap().json();
        app.anonymous().bearing(&text(&tokens, "access_token")).get("/notes").await.is(401);
        refresh(&app, &client, &text(&tokens, "refresh_token")).await.is(400);

        // Neither is a device code an authorization code, nor the other way round.
        let begun = begin(&app.anonymous(), &client).await;
        allow(&user, &begun).await.is(200);
        exchange(&app, &client, &text(&begun, "device_code"), &[("redirect_uri", "")]).await.is(400);
        assert_eq!(refused(&app, &client, &text(&begun, "device_code")).await, "invalid_grant");
        let authorized = code(&user, &client, &[]).await;
        assert_eq!(refused(&app, &client, &authorized).await, "invalid_grant");
        exchange(&app, &client, &authorized, &[]).await.is(200);
    }
}

#[tokio::test]
async fn revoking_disconnecting_and_signing_out_everywhere_end_the_grant_of_a_device() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let client = public_client(&app).await;
        // Before and after the device has got its tokens.
        for polls in [false, true] {
            let begun = begin(&app.anonymous(), &client).await;
            let device_code = text(&begun, "device_code");
            allow(&user, &begun).await.is(200);
            let tokens = if polls { Some(poll(&app, &client, &device_code).await.is(200).json()) } else { None };
            let revoked = [("client_id", &*client), ("token", &*device_code)];
            form(&app.anonymous(), "/auth/oauth2/revoke", &revoked).await.is(200);
            match tokens {
                Some(tokens) => {
                    app.anonymous().bearing(&text(&tokens, "access_token")).get("/notes").await.is(401);
                }
                None => assert_eq!(refused(&app, &client, &device_code).await, "invalid_grant"),
            }
        }
        let begun = begin(&app.anonymous(), &client).await;
        allow(&user, &begun).await.is(200);
        let tokens = poll(&app, &client, &text(&begun, "device_code")).await.is(200).json();
        let waiting = begin(&app.anonymous(), &client).await;
        allow(&user, &waiting).await.is(200);
        let account = user.get("/account/programs").await.is(200);
        let end = account.text().split("action=\"/account/programs/").nth(1).unwrap().split('"').next().unwrap();
        form(&user, &format!("/account/programs/{end}"), &[]).await.is(303);
        app.anonymous().bearing(&text(&tokens, "access_token")).get("/notes").await.is(401);
        assert_eq!(refused(&app, &client, &text(&waiting, "device_code")).await, "invalid_grant", "{}", app.engine());
    }
}

/// The attack: guessing the codes that other people's devices show.
#[tokio::test]
async fn wrong_codes_are_limited_by_account_and_by_address_and_right_ones_are_given_back() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let client = public_client(&app).await;
        let ada = app.signed_in("ada@example.com").await;
        let begun = begin(&app.anonymous(), &client).await;
        let right = text(&begun, "user_code");
        let wrong = |number: usize| {
            let letter = char::from(b"BCDFGHJKLMNPQRSTVWXZ"[number % 20]);
            format!("{letter}{}", if right.starts_with("BB") { "CCC-CCCC" } else { "BBB-BBBB" })
        };
        for _ in 0..7 {
            typed(&ada, &right).await.is(200);
        }
        // What is no code at all is no guess.
        for _ in 0..6 {
            typed(&ada, "AAAA-0000").await.is(422);
        }
        let guesses: Vec<_> = (0..20).map(wrong).collect();
        let answers = join_all(guesses.iter().map(|guess| typed(&ada, guess))).await;
        let statuses: Vec<_> = answers.iter().map(Answer::status).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 422).count(), 5, "{} {statuses:?}", app.engine());
        typed(&ada, &right).await.is(429);
        // Other accounts at the same address have tries of their own, within the 30 of the address.
        for name in ["bob", "cid", "dan", "eve", "fay"] {
            let user = app.signed_in(&format!("{name}@example.com")).await;
            typed(&user, &right).await.is(200);
            for number in 0..5 {
                typed(&user, &wrong(number)).await.is(422);
            }
        }
        let gil = app.signed_in("gil@example.com").await;
        typed(&gil, &right).await.is(429);
        let elsewhere = gil.from_address("198.51.100.9".parse().unwrap());
        let page = typed(&elsewhere, &right).await.is(200);
        assert!(page.text().contains("in another network"), "{}", page.text());
    }
}

/// The attacks: a page of another site decides, or frames the page; a thief brings the form of another session.
#[tokio::test]
async fn a_decision_needs_the_form_of_its_own_session_and_a_request_of_this_site() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let client = public_client(&app).await;
        let (ada, eve) = (app.signed_in("ada@example.com").await, app.signed_in("eve@example.com").await);
        let begun = begin(&app.anonymous(), &client).await;
        let page = typed(&eve, &text(&begun, "user_code")).await.is(200);
        press(&ada, page.text(), "allow").await.is(403);
        press(&app.anonymous(), page.text(), "allow").await.is(401);
        let other = begin(&app.anonymous(), &client).await;
        let of_other = typed(&eve, &text(&other, "user_code")).await.is(200);
        let swapped = [
            ("request", hidden(of_other.text(), "request")),
            ("seal", hidden(page.text(), "seal")),
            ("decision", "allow".to_owned()),
        ];
        let swapped: Vec<_> = swapped.iter().map(|(name, value)| (*name, &**value)).collect();
        form(&eve, "/device", &swapped).await.is(403);
        for (name, value) in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site")] {
            press(&eve.clone().sending(name, value), page.text(), "allow").await.is(403);
        }
        assert_eq!(refused(&app, &client, &text(&begun, "device_code")).await, "authorization_pending");
        press(&eve, page.text(), "allow").await.is(200);
    }
}

/// As for any program: the access outlives the session, so an old session needs a proof.
#[tokio::test]
async fn an_old_session_needs_the_password_to_connect_a_device() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let user = app.signed_in("ada@example.com").await;
        let client = public_client(&app).await;
        app.wait(SignedDuration::from_mins(6));
        let begun = begin(&app.anonymous(), &client).await;
        let page = typed(&user, &text(&begun, "user_code")).await.is(200);
        assert!(page.text().contains("name=\"password\""), "{}", page.text());
        press(&user, page.text(), "allow").await.is(403);
        let decide = async |password: &str| {
            let (request, seal) = (hidden(page.text(), "request"), hidden(page.text(), "seal"));
            let pairs = [("request", &*request), ("seal", &*seal), ("decision", "allow"), ("password", password)];
            form(&user, "/device", &pairs).await
        };
        decide("wrong horse battery").await.is(401);
        assert_eq!(refused(&app, &client, &text(&begun, "device_code")).await, "authorization_pending");
        decide("correct horse battery").await.is(200);
        poll(&app, &client, &text(&begun, "device_code")).await.is(200);
    }
}

#[tokio::test]
async fn a_request_of_a_device_is_checked_and_limited() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let client = public_client(&app).await;
        let anonymous = app.anonymous();
        for (pairs, status, error) in [
            (vec![("client_id", "nobody")], 401, "invalid_client"),
            (vec![("scope", "notes:read")], 401, "invalid_client"),
            (vec![("client_id", &*client), ("scope", "users:write")], 400, "invalid_scope"),
            (vec![("client_id", &*client), ("resource", "https://evil.example")], 400, "invalid_target"),
            (vec![("client_id", &*client), ("client_id", &*client)], 400, "invalid_request"),
        ] {
            let answer = form(&anonymous, BEGIN, &pairs).await;
            assert_eq!((answer.status(), text(&answer.json(), "error")), (status, error.to_owned()), "{pairs:?}");
        }
        for _ in 0..25 {
            begin(&anonymous, &client).await;
        }
        form(&anonymous, BEGIN, &[("client_id", &client)]).await.is(429);
        // A client for devices alone registers itself without an address for redirects.
        let metadata = json!({ "client_name": "TV", "grant_types": [GRANT, "refresh_token"] });
        let tv = anonymous.post("/auth/oauth2/register", metadata).await.is(201).json();
        assert!(tv["grant_types"].as_array().unwrap().contains(&json!(GRANT)), "{tv}");
        let elsewhere = anonymous.clone().from_address("198.51.100.9".parse().unwrap());
        let user = app.signed_in("ada@example.com").await;
        let pairs = [("client_id", tv["client_id"].as_str().unwrap()), ("resource", MCP)];
        let begun = form(&elsewhere, BEGIN, &pairs).await.is(200).json();
        allow(&user, &begun).await.is(200);
        let tokens = poll(&app, tv["client_id"].as_str().unwrap(), &text(&begun, "device_code")).await.is(200).json();
        app.anonymous().bearing(&text(&tokens, "access_token")).get("/notes").await.is(401);
    }
}

/// Neither the codes nor what finds them without the key of the server.
#[tokio::test]
async fn the_table_of_devices_contains_no_code() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let client = public_client(&app).await;
        let begun = begin(&app.anonymous(), &client).await;
        let (user_code, device_code) = (text(&begun, "user_code"), text(&begun, "device_code"));
        let letters = user_code.replace('-', "");
        let sql = "SELECT id, device_hash, user_tag, client_id, resource, scopes FROM oauth2_devices";
        let rows = app.app().db().query(sql, Vec::new()).await.unwrap();
        assert_eq!(rows.len(), 1);
        let tag: Vec<u8> = rows[0].get("user_tag").unwrap();
        for text in [&*letters, &*user_code, &*device_code] {
            assert_ne!(tag, Sha256::digest(text).to_vec(), "{}", app.engine());
            for column in ["id", "client_id", "resource", "scopes"] {
                assert!(!rows[0].get::<String>(column).unwrap().contains(text), "{column}");
            }
        }
    }
}
