use std::time::Duration;

use gatewright_limits::Policy;
use serde_json::json;

use crate::support::{ANN, Answer, Call, PASSWORD, Site, WRONG, config, databases};

fn policy(attempts: u32) -> Policy {
    Policy::new(attempts, Duration::from_mins(15), Duration::from_mins(30))
}

#[track_caller]
fn assert_limited(answer: &Answer, seconds: &str) {
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_eq!(answer.body, "rate limit exceeded");
    assert_eq!(answer.headers["retry-after"], seconds);
    assert!(answer.headers["content-type"].to_str().unwrap().starts_with("text/plain"));
    assert!(!answer.headers.keys().any(|name| name.as_str().starts_with("ratelimit")));
}

async fn login_from(site: &Site, peer: &'static str, email: &str, password: &str) -> Answer {
    Call::post("/auth/login").from(peer).json(&json!({ "email": email, "password": password })).send(site).await
}

#[tokio::test]
async fn default_limits_apply_without_configuration() {
    for db in databases().await {
        let site = Site::on(&db).await;
        for attempt in 0..10 {
            login_from(&site, "198.51.100.1", &format!("user{attempt}@example.com"), WRONG).await.expect(401);
        }
        assert_limited(&login_from(&site, "198.51.100.1", "user@example.com", WRONG).await, "1800");
        login_from(&site, "198.51.100.2", "user@example.com", WRONG).await.expect(401);
        for attempt in 0..10 {
            site.register(&format!("user{attempt}@example.com")).await;
        }
        let body = json!({ "email": "more@example.com", "password": PASSWORD });
        assert_limited(&Call::post("/auth/register").json(&body).send(&site).await, "1800");
    }
}

#[tokio::test]
async fn attempts_on_an_account_are_limited_across_addresses() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        let peers = ["198.51.100.1", "198.51.100.2", "2001:db8::1", "2001:db8:1::1"];
        for attempt in 0..10 {
            let email = ["ann@example.com", " ANN@Example.com"][attempt % 2];
            login_from(&site, peers[attempt % 4], email, WRONG).await.expect(401);
        }
        assert_limited(&login_from(&site, "198.51.100.9", ANN, PASSWORD).await, "1800");
        login_from(&site, "198.51.100.9", "bob@example.com", WRONG).await.expect(401);
        site.advance(1799);
        assert_limited(&login_from(&site, "198.51.100.9", ANN, PASSWORD).await, "1");
        site.advance(1);
        login_from(&site, "198.51.100.9", ANN, PASSWORD).await.expect(200);
    }
}

#[tokio::test]
async fn successes_count_for_the_account() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        for peer in ["198.51.100.1", "198.51.100.2"] {
            for _ in 0..5 {
                login_from(&site, peer, ANN, PASSWORD).await.expect(200);
            }
        }
        assert_limited(&login_from(&site, "198.51.100.3", ANN, PASSWORD).await, "1800");
    }
}

#[tokio::test]
async fn an_office_full_of_people_signs_in_from_one_address() {
    for db in databases().await {
        let mut config = config();
        config.limits.register.policy = policy(1000);
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
        for person in 0..25 {
            let email = format!("user{person}@example.com");
            site.register(&email).await;
            login_from(&site, "198.51.100.1", &email, PASSWORD).await.expect(200);
        }
        // A thief with an account of their own gets no more guesses by its successes.
        for guess in 0..10 {
            login_from(&site, "198.51.100.1", &format!("user{guess}@example.com"), WRONG).await.expect(401);
            login_from(&site, "198.51.100.1", &format!("user{}@example.com", 24 - guess), PASSWORD)
                .await
                .expect(if guess < 9 { 200 } else { 429 });
        }
        assert_limited(&login_from(&site, "198.51.100.1", "user20@example.com", PASSWORD).await, "1800");
        login_from(&site, "198.51.100.2", "user20@example.com", PASSWORD).await.expect(200);
    }
}

/// A stranger elsewhere has locked an account. Its owner's right passwords are not tested, so they are no failures of the office.
#[tokio::test]
async fn a_locked_account_does_not_lock_out_the_office_of_its_owner() {
    for db in databases().await {
        let site = Site::with(config(), |builder| builder.database(db.db.clone())).await;
        site.register_ann().await;
        site.register("bob@example.com").await;
        for guess in 0..10 {
            login_from(&site, ["203.0.113.1", "203.0.113.2"][guess % 2], ANN, WRONG).await.expect(401);
        }
        for _ in 0..20 {
            login_from(&site, "198.51.100.1", ANN, PASSWORD).await.expect(429);
        }
        login_from(&site, "198.51.100.1", "bob@example.com", PASSWORD).await.expect(200);
    }
}

#[tokio::test]
async fn parallel_guesses_among_right_passwords_stay_within_the_limit_of_the_address() {
    for db in databases().await {
        let mut config = config();
        config.limits.login.policy = policy(5);
        config.limits.login_account.policy = policy(1000);
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
        site.register_ann().await;
        let all = (0..20).map(|number| site.login(ANN, if number % 2 == 0 { PASSWORD } else { WRONG }));
        let answers = futures_util::future::join_all(all).await;
        let wrong = answers.iter().filter(|answer| answer.status == 401).count();
        assert!(wrong <= 5, "{}: {wrong} wrong passwords were compared", db.name);
        let mut more = 0;
        while site.login(ANN, WRONG).await.status == 401 {
            more += 1;
        }
        assert!(wrong + more <= 5, "{}: {wrong} and {more}", db.name);
    }
}

#[tokio::test]
async fn dev_mode_relaxes_the_limit_of_registrations_per_address() {
    for db in databases().await {
        for dev_mode in [false, true] {
            let mut config = config();
            config.dev_mode = dev_mode;
            let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
            let mut last = 200;
            for person in 0..12 {
                let body = json!({ "email": format!("{dev_mode}{person}@example.com"), "password": PASSWORD });
                last = Call::post("/auth/register").json(&body).send(&site).await.status.as_u16();
            }
            assert_eq!(last, if dev_mode { 200 } else { 429 });
        }
    }
}

#[tokio::test]
async fn dev_mode_relaxes_the_limit_per_address_but_not_per_account() {
    for db in databases().await {
        let mut config = config();
        config.dev_mode = true;
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
        for attempt in 0..15 {
            login_from(&site, "198.51.100.1", &format!("user{attempt}@example.com"), WRONG).await.expect(401);
        }
        for _ in 0..10 {
            login_from(&site, "198.51.100.1", ANN, WRONG).await.expect(401);
        }
        assert_limited(&login_from(&site, "198.51.100.1", ANN, WRONG).await, "1800");
    }
}

#[tokio::test]
async fn no_more_parallel_attempts_than_the_limit_reach_the_password() {
    for db in databases().await {
        let mut config = config();
        config.limits.login.policy = policy(1000);
        config.limits.login_account.policy = policy(5);
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
        site.register_ann().await;
        let all = (0..40).map(|_| site.login(ANN, WRONG));
        let answers = futures_util::future::join_all(all).await;
        let count = |status| answers.iter().filter(|answer| answer.status.as_u16() == status).count();
        assert_eq!((count(401), count(429)), (5, 35), "{}", db.name);
    }
}

#[tokio::test]
async fn a_forwarded_address_counts_only_where_it_is_trusted() {
    for db in databases().await {
        for (trust, expected) in [(false, 429), (true, 401)] {
            let mut config = config();
            config.limits.login.policy = policy(3);
            config.limits.login.trust_forwarded_for = trust;
            let site = Site::with(config, |builder| builder.database(db.db.clone())).await;
            let mut last = 0;
            for attempt in 0..5 {
                let call = Call::post("/auth/login").header("x-forwarded-for", format!("192.0.2.{attempt}"));
                let body = json!({ "email": format!("user{attempt}@example.com"), "password": WRONG });
                last = call.json(&body).send(&site).await.status.as_u16();
            }
            assert_eq!(last, expected, "trust {trust}");
        }
    }
}

#[tokio::test]
async fn the_refusal_is_plain_text_for_forms_too() {
    for db in databases().await {
        let mut config = config();
        config.limits.login.policy = policy(1);
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await.and_screens();
        let fields = [("email", ANN), ("password", WRONG)];
        Call::post("/auth/login").form(&fields).send(&site).await.expect(401);
        assert_limited(&Call::post("/auth/login").form(&fields).send(&site).await, "1800");
    }
}

#[tokio::test]
async fn a_browser_gets_a_refusal_page_with_links() {
    for db in databases().await {
        let mut config = config();
        config.limits.login.policy = policy(1);
        config.limits.login_account.policy = policy(1);
        let site = Site::with(config, |builder| builder.database(db.db.clone())).await.and_screens();
        let fields = [("email", ANN), ("password", WRONG)];
        let accept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        let submit = |peer| Call::post("/auth/login").from(peer).header("accept", accept).form(&fields);
        submit("198.51.100.1").send(&site).await.expect(401);
        // By the address, then by the account.
        for peer in ["198.51.100.1", "198.51.100.2"] {
            let page = submit(peer).send(&site).await.expect(429);
            assert_eq!(page.headers["retry-after"], "1800");
            assert!(page.headers["content-type"].to_str().unwrap().starts_with("text/html"));
            assert!(
                page.body.contains("Try again in 30 minutes.") && page.body.contains("href=\"/login\""),
                "{page:?}"
            );
        }
        let body = json!({ "email": ANN, "password": WRONG });
        let script = Call::post("/auth/login").from("198.51.100.2").header("accept", "application/json").json(&body);
        assert_limited(&script.send(&site).await, "1800");
    }
}

/// Twelve forms that a foreign page makes a visitor send are refused before they count.
#[tokio::test]
async fn another_site_cannot_use_up_its_visitors_attempts() {
    for db in databases().await {
        let site = Site::on(&db).await;
        site.register_ann().await;
        for _ in 0..12 {
            let call = Call::post("/auth/login").header("origin", "https://evil.example");
            call.form(&[("email", ANN), ("password", WRONG)]).send(&site).await.expect(403);
        }
        site.login_ann().await.expect(200);
    }
}

#[tokio::test]
async fn attempts_are_refused_while_the_limit_store_fails() {
    struct Down;
    impl gatewright_limits::Store for Down {
        fn count<'a>(
            &'a self,
            _: &'a gatewright_limits::Key,
            _: &'a Policy,
        ) -> gatewright_limits::StoreFuture<'a, (gatewright_limits::Verdict, i64)> {
            Box::pin(async { Err(gatewright_limits::StoreError::new("canary")) })
        }
        fn give_back<'a>(
            &'a self,
            _: &'a gatewright_limits::Key,
            _: &'a Policy,
            _: i64,
        ) -> gatewright_limits::StoreFuture<'a, ()> {
            Box::pin(async { Err(gatewright_limits::StoreError::new("canary")) })
        }
        fn forget<'a>(&'a self, _: &'a gatewright_limits::Key) -> gatewright_limits::StoreFuture<'a, ()> {
            Box::pin(async { Ok(()) })
        }
        fn sweep(&self) -> gatewright_limits::StoreFuture<'_, u64> {
            Box::pin(async { Ok(0) })
        }
    }
    for db in databases().await {
        let site =
            Site::with(config(), |builder| builder.database(db.db.clone()).limit_store(std::sync::Arc::new(Down)))
                .await;
        assert_limited(&site.login_ann().await, "5");
    }
}
