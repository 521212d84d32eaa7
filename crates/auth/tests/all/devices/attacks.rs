use futures_util::future::join_all;
use gatewright_auth::password::PasswordAlgorithm;
use serde_json::json;

use super::{Browser, Place, device_of};
use crate::support::{ANN, Answer, Call, PASSWORD, WRONG, databases, set_proven};
use crate::two_factor::{Enrolled, enroll};

#[track_caller]
fn assert_limited(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.body.as_str()), (429, "rate limit exceeded"));
}

#[tokio::test]
async fn a_thousand_wrong_passwords_do_not_lock_the_owners_browser_out() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let mut home = Browser::default();
        home.login(site).await;
        let stranger = Browser::default();
        for _ in 0..1000 {
            let status = stranger.try_login(site, ANN, WRONG).await.status.as_u16();
            assert!(matches!(status, 401 | 429));
        }
        assert_limited(&stranger.try_login(site, ANN, PASSWORD).await);
        for _ in 0..15 {
            home.login(site).await;
        }
        // Actions of the owner neither end nor prolong the block for others.
        assert_limited(&stranger.try_login(site, ANN, PASSWORD).await);
        site.advance(1800 - 15);
        stranger.try_login(site, ANN, PASSWORD).await.expect(200);
    }
}

#[tokio::test]
async fn a_flood_of_sign_ins_from_many_addresses_does_not_keep_the_owners_browser_out() {
    for db in databases().await {
        let place = Place::with(&db, |mut config| {
            config.password = PasswordAlgorithm::Bcrypt { cost: 8 };
            config
        });
        let place = place.await;
        let site = &place.site;
        let mut home = Browser::default();
        home.login(site).await;
        let stranger = async |index: usize| {
            let body = json!({ "email": format!("user{index}@example.com"), "password": WRONG });
            let address = format!("10.0.{}.{}", index / 250, index % 250 + 1).leak();
            Call::post("/auth/login").from(address).json(&body).send(site).await.status.as_u16()
        };
        // Forty for each core: more than find a place.
        let cores = std::thread::available_parallelism().unwrap().get();
        let flood = join_all((0..cores * 40).map(stranger));
        let (strangers, owner) = futures_util::future::join(flood, home.try_login(site, ANN, PASSWORD)).await;
        assert!(strangers.contains(&503), "the flood filled the queue");
        owner.expect(200);
    }
}

#[tokio::test]
async fn an_attackers_wrong_second_factors_do_not_lock_out_the_owners_browser() {
    for db in databases().await {
        let place = Place::without_lockout(&db).await;
        let site = &place.site;
        let mut home = Browser::default();
        let Enrolled { app, .. } = enroll(site, home.login(site).await).await;
        let code = || json!({ "code": app.code(site) });
        let challenge = async |browser: &Browser, code: serde_json::Value| {
            let pending = browser.try_login(site, ANN, PASSWORD).await.expect(200);
            assert_eq!(pending.json()["two_factor_required"], true, "a known device owes the second factor too");
            browser.on(Call::post("/auth/2fa/challenge").json(&code), Some(&pending)).send(site).await
        };
        let thief = Browser::default();
        for _ in 0..9 {
            challenge(&thief, json!({ "code": "zzz" })).await.expect(401);
        }
        assert_limited(&challenge(&thief, code()).await);
        let passed = challenge(&home, code()).await.expect(200);
        home.keep(passed);
        // The known device has a limit too.
        site.advance(30);
        for _ in 0..10 {
            challenge(&home, json!({ "code": "zzz" })).await.expect(401);
        }
        assert_limited(&challenge(&home, code()).await);
    }
}

#[tokio::test]
async fn an_exhausted_device_locks_out_only_itself() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let (mut home, mut phone) = (Browser::default(), Browser::default());
        home.login(site).await;
        phone.login(site).await;
        for _ in 0..9 {
            home.try_login(site, ANN, WRONG).await.expect(401);
        }
        // A success gives back its own attempt and no other.
        home.login(site).await;
        let stolen = home.clone();
        stolen.try_login(site, ANN, WRONG).await.expect(401);
        assert_limited(&home.try_login(site, ANN, PASSWORD).await);
        phone.login(site).await;
        Browser::default().login(site).await;
        site.advance(1800);
        home.login(site).await;
    }
}

#[tokio::test]
async fn a_rotated_device_token_is_unknown() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let mut home = Browser::default();
        home.login(site).await;
        let copied = home.clone();
        home.login(site).await;
        assert_ne!(copied.device, home.device);
        // The first sign-in counted as well.
        for _ in 0..9 {
            copied.try_login(site, ANN, WRONG).await.expect(401);
        }
        assert_limited(&copied.try_login(site, ANN, PASSWORD).await);
        home.login(site).await;
        site.advance(1800);
        assert_eq!(place.notices().await.len(), 0);
        copied.try_login(site, ANN, PASSWORD).await.expect(200);
        assert_eq!(place.notices().await.len(), 1, "who uses a copy that is out of date is noticed");
        // In the other order the owner's cookie is unknown: the copy was used first.
        let copied = home.clone();
        copied.try_login(site, ANN, PASSWORD).await.expect(200);
        home.login(site).await;
        assert_eq!(place.notices().await.len(), 2);
    }
}

#[tokio::test]
async fn one_of_twenty_sign_ins_with_one_cookie_counts_as_the_known_device() {
    for db in databases().await {
        let place = Place::without_lockout(&db).await;
        let site = &place.site;
        let mut home = Browser::default();
        home.login(site).await;
        let answers = join_all((0..20).map(|_| home.try_login(site, ANN, PASSWORD))).await;
        let cookies: std::collections::BTreeSet<_> = answers.iter().filter_map(device_of).collect();
        assert_eq!(cookies.len(), 20, "each has a value of its own");
        assert_eq!(place.added(), 19, "{}", db.name);
        assert_eq!(place.notices().await.len(), 10, "mails are limited");

        // One of parallel first sign-ins is the first.
        site.register("bob@example.com").await;
        set_proven(&db.db, "bob@example.com", true).await;
        let strangers = (0..5).map(|_| async { Browser::default().try_login(site, "bob@example.com", PASSWORD).await });
        join_all(strangers).await;
        let to_bob = place.notices().await.iter().filter(|mail| mail.to.as_str() == "bob@example.com").count();
        assert_eq!(to_bob, 4, "{}", db.name);
    }
}

#[tokio::test]
async fn a_stolen_device_cookie_grants_nothing_and_is_invalid_for_other_accounts() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let mut home = Browser::default();
        home.login(site).await;
        let stolen = home.clone();
        stolen.on(Call::get("/auth/me"), None).send(site).await.expect(401);
        stolen.on(Call::get("/auth/devices"), None).send(site).await.expect(401);

        // The thief signs in to his own account with it: Ann's browser stays known.
        site.register("eve@example.com").await;
        stolen.try_login(site, "eve@example.com", PASSWORD).await.expect(200);
        let before = place.added();
        home.login(site).await;
        assert_eq!(place.added(), before);

        // A browser of one account is a stranger to the others, whether they exist or not: the answers are the same.
        let mut eve = Browser::default();
        eve.keep(eve.try_login(site, "eve@example.com", PASSWORD).await.expect(200));
        site.register("bob@example.com").await;
        let mut answers = Vec::new();
        for email in ["bob@example.com", "nobody@example.com"] {
            for attempt in 0..11 {
                let browser = if attempt % 2 == 0 { eve.clone() } else { Browser::default() };
                let answer = browser.try_login(site, email, WRONG).await;
                let headers: Vec<_> = answer.headers.keys().map(|name| name.as_str().to_owned()).collect();
                answers.push((attempt, answer.status.as_u16(), headers, answer.headers.get("retry-after").cloned()));
            }
        }
        let (of_bob, of_nobody) = answers.split_at(11);
        assert_eq!(of_bob, of_nobody);
        assert_eq!(of_bob[10].1, 429);
    }
}

#[tokio::test]
async fn wrong_passwords_send_no_notice() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        Browser::default().login(site).await;
        for email in [ANN, "nobody@example.com"] {
            let answer = Browser::default().try_login(site, email, WRONG).await.expect(401);
            assert!(device_of(&answer).is_none(), "{answer:?}");
        }
        assert!(place.mails().await.is_empty());
    }
}

/// Somebody registers an address that is not theirs and signs in; its owner claims the account.
#[tokio::test]
async fn a_claim_forgets_the_previous_holders_devices() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        set_proven(&db.db, ANN, false).await;
        let mut squatter = Browser::default();
        squatter.login(site).await;
        Call::post("/auth/magic-link/send").json(&json!({ "email": ANN })).send(site).await.expect(200);
        let token = place.token(gatewright_auth::MailKind::MagicLink).await;
        let call = Call::post("/auth/magic-link/verify").json(&json!({ "token": token }));
        let mut owner = Browser::default();
        let session = owner.keep(call.send(site).await.expect(200));
        assert_eq!(place.notices().await.len(), 0, "the owner's first sign-in");
        assert_eq!(place.devices(&session, &owner).await.len(), 1);
        // The first sign-in counted as well.
        for _ in 0..9 {
            squatter.try_login(site, ANN, PASSWORD).await.expect(401);
        }
        assert_limited(&squatter.try_login(site, ANN, PASSWORD).await);
    }
}
