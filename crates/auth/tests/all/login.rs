use gatewright_auth::audit::AuditKind;
use gatewright_auth::password::PasswordAlgorithm;
use gatewright_base::Secret;
use gatewright_db::params;
use gatewright_http::Next;
use serde_json::json;

use crate::support::{ANN, Call, PASSWORD, Site, WRONG, config, databases, query, unlimited};

/// A complete sign-in, from the form to `GET /me`.
#[tokio::test]
async fn a_login_sets_a_session_cookie_and_returns_the_user() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let registered = site.register_ann().await.json()["user"].clone();
        let answer = site.login_ann().await.expect(200);
        assert_eq!(answer.json()["user"], registered);
        assert!(answer.json().get("two_factor_required").is_none());
        let cookie = answer.set_cookie().unwrap();
        assert!(cookie.starts_with("__Host-session="), "{cookie}");
        for attribute in ["HttpOnly", "Secure", "SameSite=Lax", "Path=/", "Max-Age=604800"] {
            assert!(cookie.split("; ").any(|part| part == attribute), "{attribute} in {cookie}");
        }
        assert!(!cookie.contains("Domain"));
        assert_eq!(answer.headers["cache-control"], "no-store");
        let me = site.me(&answer).await.expect(200);
        assert_eq!(me.json(), json!({ "user": registered, "emailVerified": false, "twoFactorEnabled": false }));
        let by_token = Call::get("/auth/me").bearer(&answer.token()).send(&site).await.expect(200);
        assert_eq!(by_token.json(), me.json());
        let whole = Call::get("/session").cookie_of(&answer).send(&site).await.expect(200);
        assert!(!cookie.contains(&whole.body), "the cookie does not hold the public id");
        assert_eq!(site.audited(), [AuditKind::RegisterSucceeded, AuditKind::LoginSucceeded]);
    }
}

#[tokio::test]
async fn the_address_may_have_another_spelling() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        site.login(" ANN@example.COM ", PASSWORD).await.expect(200);
    }
}

#[tokio::test]
async fn a_form_redirects_to_next_within_this_origin() {
    for db in databases().await {
        let mut config = config();
        config.dev_mode = true;
        config.limits.login_account.policy = unlimited();
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
        site.register_ann().await;
        for (next, expected) in [
            ("/", "/"),
            ("/posts?page=2#top", "/posts?page=2#top"),
            ("//evil.example", "/"),
            ("/\\evil.example", "/"),
            ("https://evil.example/", "/"),
            ("javascript:alert(1)", "/"),
            ("/%2f/evil.example", "/"),
            ("/\r\nSet-Cookie: a=b", "/"),
            ("posts", "/"),
            ("", "/"),
        ] {
            let fields = [("email", ANN), ("password", PASSWORD), ("next", next)];
            let answer = Call::post("/auth/login").form(&fields).send(&site).await.expect(303);
            assert_eq!(answer.location(), Some(expected), "{next:?} in the form");
            let cookies = answer.headers.get_all("set-cookie").iter().map(|line| line.to_str().unwrap());
            let names: Vec<_> = cookies.map(|line| line.split('=').next().unwrap()).collect();
            assert!(answer.cookie().is_some() && names == ["session_id", "svc_device"], "{names:?}");
            let query = query("next", next);
            let fields = [("email", ANN), ("password", PASSWORD)];
            let answer = Call::post(&format!("/auth/login?{query}")).multipart(&fields).send(&site).await.expect(303);
            assert_eq!(answer.location(), Some(expected), "{next:?} in the query");
            assert_eq!(Next::parse(next).unwrap_or_default().as_str(), expected);
        }
    }
}

/// Unknown address, wrong password, no password, no address: one answer.
#[tokio::test]
async fn refusals_are_indistinguishable() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        site.auth.accounts().create("link@example.com", None, None).await.unwrap();
        let oversized = "a".repeat(100_000);
        let mut answers = Vec::new();
        for (email, password) in [
            (ANN, WRONG),
            ("nobody@example.com", WRONG),
            ("link@example.com", WRONG),
            ("not an address", WRONG),
            (ANN, ""),
            (ANN, oversized.as_str()),
            ("nobody@example.com", oversized.as_str()),
            ("' OR 1=1 --", WRONG),
        ] {
            let answer = site.login(email, password).await.expect(401);
            assert_eq!(answer.detail(), "invalid credentials");
            assert!(answer.set_cookie().is_none());
            answers.push((answer.body, format!("{:?}", answer.headers)));
        }
        assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
        let kinds = site.audited();
        assert_eq!(kinds.iter().filter(|kind| **kind == AuditKind::LoginFailed).count(), 8);
    }
}

/// Each of them costs one comparison, so that the time reveals nothing; a comparison computes the same for every account
/// and for none (`password/effort.rs`), and `bench timing` measures it.
#[tokio::test]
async fn every_refusal_costs_one_hash_comparison() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        site.auth.accounts().create("link@example.com", None, None).await.unwrap();
        for email in [ANN, "nobody@example.com", "link@example.com", "not an address", "' OR 1=1 --"] {
            let before = site.auth.hashing_load().computed;
            site.login(email, WRONG).await.expect(401);
            assert_eq!(site.auth.hashing_load().computed - before, 1, "{email}");
        }
    }
}

#[tokio::test]
async fn a_form_that_fails_is_a_page_with_the_status() {
    for db in databases().await {
        let site = Site::on(&db).await;
        let fields = [("email", "<script>@example.com"), ("password", WRONG)];
        let answer = Call::post("/auth/login").form(&fields).send(&site).await.expect(401);
        assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/html"));
        assert!(answer.body.contains("Email or password is wrong."));
        assert!(!answer.body.contains("<script>@") && !answer.body.contains(WRONG));
        assert_eq!(answer.headers["cache-control"], "no-store");
    }
}

#[tokio::test]
async fn dev_mode_has_a_plain_cookie_of_another_name() {
    for db in databases().await {
        let mut config = config();
        config.dev_mode = true;
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
        let answer = site.signed_in_ann().await;
        let cookie = answer.set_cookie().unwrap();
        assert!(cookie.starts_with("session_id=") && !cookie.contains("Secure"), "{cookie}");
        site.me(&answer).await.expect(200);
        let renamed = answer.cookie().unwrap().replace("session_id", "__Host-session");
        Call::get("/auth/me").cookie(&renamed).send(&site).await.expect(401);
    }
}

#[tokio::test]
async fn after_a_change_of_algorithm_or_cost_passwords_work_and_hashes_are_renewed() {
    for db in databases().await {
        let stored = async || -> String {
            let sql = "SELECT password_hash FROM users WHERE email = ?1";
            db.db.query_opt(sql, params![ANN]).await.unwrap().unwrap().get("password_hash").unwrap()
        };
        let site = Site::on(&db).await;
        site.register_ann().await;
        let mut previous = stored().await;
        assert!(previous.starts_with("$2b$04$"));
        let small = PasswordAlgorithm::Argon2id { memory_kib: 64, iterations: 1, parallelism: 1 };
        for (algorithm, prefix) in [
            (PasswordAlgorithm::Bcrypt { cost: 5 }, "$2b$05$"),
            (small, "$argon2id$v=19$m=64,t=1,p=1$"),
            (PasswordAlgorithm::Bcrypt { cost: 4 }, "$2b$04$"),
        ] {
            let changed = gatewright_auth::AuthConfig { password: algorithm, ..config() };
            let site = Site::with(changed, |builder| builder.database(db.db.clone())).await;
            let before = site.login_ann().await.expect(200);
            let renewed = stored().await;
            assert!(renewed.starts_with(prefix), "{renewed}");
            assert_ne!(renewed, previous);
            site.login(ANN, WRONG).await.expect(401);
            site.me(&before).await.expect(200);
            Call::get("/auth/me").bearer(&before.token()).send(&site).await.expect(200);
            previous = renewed;
        }
        let site = Site::on(&db).await;
        site.login_ann().await.expect(200);
        assert_eq!(stored().await, previous, "a current hash stays");
    }
}

#[tokio::test]
async fn every_character_of_the_password_counts() {
    for db in databases().await {
        let mut config = config();
        config.password = PasswordAlgorithm::Argon2id { memory_kib: 64, iterations: 1, parallelism: 1 };
        config.dev_mode = true;
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
        for (index, password) in
            [" spaces at both ends ", "pässwörter", "🦀🦐🦑🦀🐙🦀🦐🐚", &"x".repeat(128)].into_iter().enumerate()
        {
            let email = format!("user{index}@example.com");
            let password = password.to_owned();
            site.auth.accounts().create(&email, Some(Secret::new(&*password)), None).await.unwrap();
            site.login(&email, &password).await.expect(200);
            site.login(&email, &password[..password.len() - password.chars().last().unwrap().len_utf8()])
                .await
                .expect(401);
            site.login(&email, &password.to_uppercase().replace('🦀', "🦞").replace(' ', "")).await.expect(401);
        }
    }
}

#[tokio::test]
async fn with_a_full_hashing_queue_a_login_is_503_with_retry_after() {
    let mut config = config();
    config.password = PasswordAlgorithm::Bcrypt { cost: 9 };
    config.dev_mode = true;
    let site = Site::with_ambient(config, |builder, ambient| {
        builder.users(std::sync::Arc::new(gatewright_auth::users::MemoryUserStore::new(ambient.clone())))
    })
    .await;
    // All cores except one work for one address (a single core works for it too), and 24 wait for each core. Ten more
    // find no place.
    let cores = std::thread::available_parallelism().unwrap().get();
    let places = (cores - 1).max(1) + cores * 24;
    let emails: Vec<_> = (0..places + 10).map(|index| format!("user{index}@example.com")).collect();
    let all = futures_util::future::join_all(emails.iter().map(|email| site.login(email, WRONG)));
    let elsewhere = serde_json::json!({ "email": "ann@example.com", "password": WRONG });
    let elsewhere = Call::post("/auth/login").from("198.51.100.9").json(&elsewhere);
    let (answers, other) = futures_util::future::join(all, elsewhere.send(&site)).await;
    other.expect(401);
    let (full, others): (Vec<_>, Vec<_>) = answers.into_iter().partition(|answer| answer.status == 503);
    assert!((1..=10).contains(&full.len()), "{} were turned away", full.len());
    assert!(full.iter().all(|answer| answer.headers["retry-after"] == "5"));
    assert!(others.iter().all(|answer| answer.status == 401));
    site.login("user0@example.com", WRONG).await.expect(401);
}
