use std::time::Duration;

use gatewright_auth::AuthConfig;
use gatewright_limits::Policy;

use super::{call, enroll_ann, send, with};
use crate::support::{Answer, PASSWORD, Site, config, databases};

fn many() -> Policy {
    Policy::new(1000, Duration::from_mins(15), Duration::from_mins(30))
}

const PEERS: [&str; 4] = ["198.51.100.1", "198.51.100.2", "2001:db8::1", "2001:db8:1::1"];

async fn guess_from(site: &Site, peer: &'static str, endpoint: &str, session: &Answer) -> Answer {
    call(endpoint, "zzz").from(peer).cookie_of(session).send(site).await
}

#[track_caller]
fn assert_limited(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.body.as_str()), (429, "rate limit exceeded"));
    assert_eq!(answer.headers["retry-after"], "1800");
}

#[tokio::test]
async fn an_account_has_ten_attempts_across_addresses_in_dev_mode_too() {
    for db in databases().await {
        for dev_mode in [false, true] {
            let site = with(&db, AuthConfig { dev_mode, ..config() }).await;
            let email = format!("user{dev_mode}@example.com");
            site.register(&email).await;
            let login = async || site.login(&email, PASSWORD).await.expect(200);
            // The enrollment is one of the ten.
            let user = super::enroll(&site, login().await).await;
            for attempt in 0..9 {
                let pending = login().await;
                guess_from(&site, PEERS[attempt % 4], "challenge", &pending).await.expect(401);
                // Sign-ins are limited as well, and not what this is about.
                if attempt == 4 {
                    site.advance(1);
                }
            }
            site.advance(30);
            let pending = site.login(&email, PASSWORD).await;
            if pending.status == 200 {
                assert_limited(&send(&site, "challenge", &pending, &user.app.code(&site)).await);
            }
            // Disabling has as many, of its own.
            for attempt in 0..10 {
                guess_from(&site, PEERS[attempt % 4], "disable", &user.session).await.expect(401);
            }
            assert_limited(&guess_from(&site, PEERS[0], "disable", &user.session).await);
        }
    }
}

#[tokio::test]
async fn verify_and_challenge_share_both_budgets() {
    for db in databases().await {
        for by_address in [true, false] {
            let mut config = config();
            let few = Policy::new(6, Duration::from_mins(15), Duration::from_mins(30));
            if by_address {
                (config.limits.two_factor.policy, config.limits.two_factor_account.policy) = (few, many());
            } else {
                (config.limits.two_factor.policy, config.limits.two_factor_account.policy) = (many(), few);
            }
            let site = with(&db, config).await;
            if by_address {
                site.register_ann().await;
            }
            let session = site.login_ann().await;
            // Two attempts, then the one that enables, which counts for the account alone, then the rest.
            super::begin(&site, &session).await;
            send(&site, "verify", &session, "zzz").await.expect(401);
            send(&site, "verify", &session, "zzz").await.expect(401);
            let ann = super::enroll(&site, session).await;
            let pending = site.login_ann().await;
            for _ in 0..if by_address { 4 } else { 3 } {
                send(&site, "challenge", &pending, "zzz").await.expect(401);
            }
            assert_limited(&send(&site, "challenge", &pending, &ann.codes[0]).await);
            site.advance(1800);
            let pending = site.login_ann().await;
            send(&site, "challenge", &pending, &ann.codes[0]).await.expect(200);
            if by_address {
                send(&site, "disable", &ann.session, &ann.codes[1]).await.expect(200);
            }
        }
    }
}

#[tokio::test]
async fn disabling_has_its_own_limit_of_ten_attempts() {
    for db in databases().await {
        for by_account in [false, true] {
            let mut config = config();
            if by_account {
                config.limits.two_factor.policy = many();
            } else {
                config.limits.two_factor_account.policy = many();
            }
            let site = with(&db, config).await;
            let email = format!("user{by_account}@example.com");
            let session = site.signed_in(&email).await;
            // Without a factor, too.
            for _ in 0..10 {
                send(&site, "disable", &session, "zzz").await.expect(409);
            }
            assert_limited(&send(&site, "disable", &session, "zzz").await);
            let user = super::enroll(&site, session).await;
            let pending = site.login(&email, PASSWORD).await.expect(200);
            send(&site, "challenge", &pending, &user.codes[0]).await.expect(200);
            // After ten more codes, the right one is refused too.
            site.advance(1800);
            for _ in 0..10 {
                send(&site, "disable", &user.session, "zzz").await.expect(401);
            }
            assert_limited(&send(&site, "disable", &user.session, &user.codes[1]).await);
        }
    }
}

#[tokio::test]
async fn an_address_is_limited_across_accounts_in_dev_mode_too() {
    for db in databases().await {
        let site = with(&db, AuthConfig { dev_mode: true, ..config() }).await;
        for _ in 0..10 {
            call("challenge", "000000").send(&site).await.expect(401);
        }
        assert_limited(&call("challenge", "000000").send(&site).await);
        call("challenge", "000000").from("198.51.100.9").send(&site).await.expect(401);
    }
}

#[tokio::test]
async fn right_codes_do_not_count_for_their_address_and_reset_nothing() {
    for db in databases().await {
        let mut config = config();
        config.limits.two_factor.policy = Policy::new(3, Duration::from_mins(15), Duration::from_mins(30));
        config.limits.two_factor_account.policy = many();
        config.limits.login.policy = many();
        config.limits.login_account.policy = many();
        let site = with(&db, config).await;
        site.register_ann().await;
        let ann = enroll_ann(&site).await;
        let guesses = |round: usize| usize::from(round < 3);
        for round in 0..6 {
            let pending = site.login_ann().await;
            for _ in 0..guesses(round) {
                send(&site, "challenge", &pending, "zzz").await.expect(401);
            }
            if round < 2 {
                send(&site, "challenge", &pending, &ann.codes[round]).await.expect(200);
            } else {
                assert_limited(&send(&site, "challenge", &pending, &ann.codes[round]).await);
            }
        }
    }
}

#[tokio::test]
async fn a_page_of_another_site_cannot_use_up_its_visitors_attempts() {
    for db in databases().await {
        let site = super::site(&db).await;
        let ann = enroll_ann(&site).await;
        let pending = site.login_ann().await;
        for _ in 0..12 {
            let form = crate::support::Call::post("/auth/2fa/challenge").form(&[("code", "000000")]);
            form.header("origin", "https://evil.example").cookie_of(&pending).send(&site).await.expect(403);
        }
        send(&site, "challenge", &pending, &ann.app.code(&site)).await.expect(200);
    }
}
