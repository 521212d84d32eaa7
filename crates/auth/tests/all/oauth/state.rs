use gatewright_auth::AuthConfig;
use gatewright_auth::audit::AuditKind;
use gatewright_auth::providers::ProviderError;

use super::{Begun, NOT_HERE, Place, clears_state, cookies, identity, session, with_public_url};
use crate::support::{ANN, Call, databases};

#[tokio::test]
async fn the_redirect_to_the_provider_has_the_state_of_the_cookie() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let begun = place.begin("/auth/oauth/alpha?next=/deep", "").await;
        let (state, binding) = begun.cookie.split_once("; ").unwrap();
        assert_eq!(state, format!("svc_oauth_state={}", begun.state));
        assert!(binding.starts_with("__Host-svc_oauth_binding=") && !begun.location.as_str().contains(&binding[25..]));
        for attribute in ["HttpOnly", "SameSite=Lax", "Secure", "Path=/", "Max-Age=600"] {
            assert!(begun.set_cookie.contains(attribute), "{}", begun.set_cookie);
        }
        assert_eq!(begun.location.host_str(), Some("alpha.example"));
        let redirect = begun.location.query_pairs().find(|(name, _)| name == "redirect_uri").unwrap().1;
        assert_eq!(redirect, "https://app.example.com/auth/oauth/alpha/callback");
        let plain = Place::with(AuthConfig { dev_mode: true, ..with_public_url() }, |builder| {
            builder.database(database.db.clone())
        });
        // Without HTTPS browsers take no `__Host-` cookie.
        let plain = plain.await.begin("/auth/oauth/alpha", "").await;
        assert!(!plain.set_cookie.contains("Secure") && !plain.cookie.contains("__Host-"));
    }
}

#[tokio::test]
async fn the_host_header_does_not_change_the_redirect_uri() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let call = Call::get("/auth/oauth/alpha").header("host", "evil.example");
        let answer = call.header("x-forwarded-host", "evil.example").send(&place.site).await.expect(303);
        assert!(!answer.location().unwrap().contains("evil"));
    }
}

#[tokio::test]
async fn a_flow_of_another_browser_is_refused() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = identity("1", Some(ANN), true);
        let (mine, theirs) = (place.begin("/auth/oauth/alpha", "").await, place.begin("/auth/oauth/alpha", "").await);
        let beta = place.begin("/auth/oauth/beta", "").await;
        let forged = format!("{}x", mine.state);
        let forged_cookie = format!("svc_oauth_state={forged}");
        let cases: &[(&str, &str, &str)] = &[
            ("another browser's cookie", &mine.state, &theirs.cookie),
            ("no cookie", &mine.state, "a=b"),
            ("an empty cookie", &mine.state, "svc_oauth_state="),
            ("no state", "", &mine.cookie),
            ("neither", "", "svc_oauth_state="),
            ("a forged state in both", &forged, &forged_cookie),
            ("the other provider's state in both", &beta.state, &beta.cookie),
        ];
        for (what, state, cookie) in cases {
            let code = place.alpha.code(&ann);
            let path = format!("/auth/oauth/alpha/callback?code={code}&state={state}");
            let answer = Call::get(&path).cookie(cookie).send(&place.site).await.expect(400);
            assert_eq!(answer.detail(), NOT_HERE, "{}: {what}", database.name);
            assert!(clears_state(&answer) && session(&answer).is_none(), "{what}");
            assert!(place.alpha.codes.lock().contains_key(&code), "{what}: the code was not even looked at");
        }
        let bare = Call::get("/auth/oauth/alpha/callback").send(&place.site).await.expect(400);
        assert_eq!(bare.detail(), NOT_HERE);
        let events = place.site.audit.events();
        let refused = events.iter().filter(|event| event.kind == AuditKind::OAuthRefused);
        assert!(refused.clone().count() == cases.len() + 1 && refused.clone().all(|e| e.meta["reason"] == "state"));
    }
}

#[tokio::test]
async fn a_duplicate_state_is_refused() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let begun = place.begin("/auth/oauth/alpha", "").await;
        for extra in [format!("&state={}", begun.state), "&state=x".to_owned()] {
            let code = place.alpha.code(&identity("1", Some(ANN), true));
            let path = format!("/auth/oauth/alpha/callback?code={code}&state={}{extra}", begun.state);
            Call::get(&path).cookie(&begun.cookie).send(&place.site).await.expect(400);
        }
    }
}

/// A sibling site may set a cookie for the domain of both, which browsers may send first.
#[tokio::test]
async fn a_planted_cookie_does_not_hide_the_real_one() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let begun = place.begin("/auth/oauth/alpha", "").await;
        let code = place.alpha.code(&identity("1", Some(ANN), true));
        let path = format!("/auth/oauth/alpha/callback?code={code}&state={}", begun.state);
        let cookies = format!("svc_oauth_state=planted; {}", begun.cookie);
        let answer = Call::get(&path).cookie(&cookies).send(&place.site).await.expect(303);
        assert!(session(&answer).is_some() && clears_state(&answer));
    }
}

/// Eve starts a flow, comes back from the provider as herself and stops. A page of a sibling domain plants her state in
/// Ann's browser and sends it to the callback, which would sign Ann in as Eve.
#[tokio::test]
async fn a_planted_state_does_not_finish_another_browsers_flow() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let (eves, anns) = (place.begin("/auth/oauth/alpha", "").await, place.begin("/auth/oauth/alpha", "").await);
        let (state, binding) = eves.cookie.split_once("; ").unwrap();
        let (_, anns_binding) = anns.cookie.split_once("; ").unwrap();
        let planted = [
            state.to_owned(),
            format!("{state}; {anns_binding}"),
            format!("{state}; __Host-svc_oauth_binding="),
            // The name without its prefix is one that a sibling can set.
            format!("{state}; {}", binding.trim_start_matches("__Host-")),
        ];
        for cookies in planted {
            let code = place.alpha.code(&identity("eve", Some("eve@example.com"), true));
            let path = format!("/auth/oauth/alpha/callback?code={code}&state={}", eves.state);
            let answer = Call::get(&path).cookie(&cookies).send(&place.site).await.expect(400);
            assert_eq!(answer.detail(), NOT_HERE, "{}: {cookies}", database.name);
            assert!(session(&answer).is_none() && clears_state(&answer));
            assert!(place.alpha.codes.lock().contains_key(&code));
        }
    }
}

#[tokio::test]
async fn a_state_is_valid_for_ten_minutes() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let begun = place.begin("/auth/oauth/alpha", "").await;
        place.site.advance(600);
        let code = place.alpha.code(&identity("1", Some(ANN), true));
        let late = place.back("alpha", &begun, &code, "").await.expect(400);
        assert_eq!(late.detail(), NOT_HERE);
    }
}

#[tokio::test]
async fn a_providers_error_is_in_the_detail_and_never_in_the_code() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        for (error, word) in [
            ("access_denied", "access_denied"),
            ("interaction_required", "interaction_required"),
            ("%3Cscript%3E", "unknown_error"),
            ("", "unknown_error"),
            ("access_denied&error=last_credential", "unknown_error"),
            ("access_denied&code=a-code", "access_denied"),
            ("&error=&code=a-code", "unknown_error"),
        ] {
            let begun = place.begin("/auth/oauth/alpha", "").await;
            let query = format!("error={error}&error_description=%3Cb%3Ephish%3C/b%3E&state={}", begun.state);
            let path = format!("/auth/oauth/alpha/callback?{query}");
            for accept in ["application/json", "text/html"] {
                let call = Call::get(&path).cookie(&begun.cookie).header("accept", accept);
                let answer = call.send(&place.site).await.expect(400);
                assert!(answer.body.contains(word) && !answer.body.contains("phish"), "{answer:?}");
                assert!(clears_state(&answer));
                if accept == "application/json" {
                    assert_eq!(answer.json()["code"], "provider_error");
                    assert_eq!(answer.detail(), format!("alpha answered with the error {word}"));
                }
            }
            // Without the state, the message could come from anybody.
            let path = format!("/auth/oauth/alpha/callback?error={error}");
            assert_eq!(Call::get(&path).send(&place.site).await.expect(400).detail(), NOT_HERE);
        }
    }
}

#[tokio::test]
async fn a_failure_returns_to_the_page_of_the_front_end_that_began_the_flow() {
    let app_url = Some("https://front.example/app".parse().unwrap());
    for database in databases().await {
        let plain = Place::on(&database.db).await;
        let config = AuthConfig { app_url: app_url.clone(), ..with_public_url() };
        let with_front = Place::with(config, |builder| builder.database(database.db.clone())).await;
        let failed = async |place: &Place, next: &str, error: &str| {
            let begun = place.begin(&format!("/auth/oauth/alpha{next}"), "").await;
            let path =
                format!("/auth/oauth/alpha/callback?error={error}&error_description=phish&state={}", begun.state);
            let answer = Call::get(&path).cookie(&begun.cookie).header("accept", "text/html").send(&place.site).await;
            assert!(clears_state(&answer) && session(&answer).is_none());
            answer
        };
        let told = "error=access_denied&error_description=alpha+answered+with+the+error+access_denied";
        for (place, next, expected) in [
            (&plain, "?next=/app", Some(format!("/app?{told}"))),
            (&plain, "?next=/app?x=1%23/route", Some(format!("/app?x=1&{told}#/route"))),
            (&plain, "", None),
            // Pages of this server show no such error.
            (&plain, "?next=/account", None),
            (&plain, "?next=/login", None),
            (&plain, "?next=/", None),
            (&plain, "?next=https://evil.example/app", None),
            (&plain, "?next=//evil.example/app", None),
            (&with_front, "", Some(format!("https://front.example/app?{told}"))),
            (
                &with_front,
                "?next=https://front.example/app/deep",
                Some(format!("https://front.example/app/deep?{told}")),
            ),
            (&with_front, "?next=https://front.example/other", Some(format!("https://front.example/app?{told}"))),
            (&with_front, "?next=https://evil.example/app", Some(format!("https://front.example/app?{told}"))),
            (&with_front, "?next=/account", None),
        ] {
            let answer = failed(place, next, "access_denied").await;
            match expected {
                Some(expected) => assert_eq!(answer.expect(303).location(), Some(&*expected), "{next}"),
                None => assert!(answer.expect(400).location().is_none(), "{next}"),
            }
        }
        // The provider's text goes nowhere, and an unknown word stays one.
        let answer = failed(&plain, "?next=/app", "%3Cscript%3E").await.expect(303);
        assert!(answer.location().unwrap().starts_with("/app?error=unknown_error&"), "{answer:?}");
        assert!(!answer.location().unwrap().contains("phish"));
        // A callback that this browser did not begin leads nowhere.
        let path = "/auth/oauth/alpha/callback?error=access_denied&state=x&next=/app";
        assert_eq!(Call::get(path).send(&with_front.site).await.expect(400).detail(), NOT_HERE);
        // An address that has an account is a failure of the same kind.
        with_front.site.register(ANN).await;
        let begun = with_front.begin("/auth/oauth/alpha?next=https://front.example/app", "").await;
        let code = with_front.alpha.code(&identity("7", Some(ANN), true));
        let refused = with_front.back("alpha", &begun, &code, "").await.expect(303);
        assert!(
            refused.location().unwrap().starts_with("https://front.example/app?error=account_exists&"),
            "{refused:?}"
        );
    }
}

#[tokio::test]
async fn a_failure_that_returns_to_the_front_end_counts() {
    for database in databases().await {
        let mut config = with_public_url();
        config.limits.oauth = gatewright_auth::Limit::default();
        let place = Place::with(config, |builder| builder.database(database.db.clone())).await;
        let mut statuses = Vec::new();
        for _ in 0..11 {
            let begun = place.begin("/auth/oauth/alpha?next=/app", "").await;
            let path = format!("/auth/oauth/alpha/callback?error=access_denied&state={}", begun.state);
            statuses.push(Call::get(&path).cookie(&begun.cookie).send(&place.site).await.status.as_u16());
        }
        assert_eq!(statuses, [[303; 10].as_slice(), &[429]].concat(), "{}", database.name);
    }
}

#[tokio::test]
async fn an_error_at_the_provider_signs_nobody_in() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        for (error, status) in [
            (ProviderError::refused("invalid_grant"), 400),
            (ProviderError::Unavailable("no answer"), 503),
            (ProviderError::Failed("it answered with a server error"), 502),
            (ProviderError::Malformed("no JSON"), 502),
            (ProviderError::Misconfigured("another issuer"), 502),
        ] {
            let begun = place.begin("/auth/oauth/alpha", "").await;
            let answer = place.back("alpha", &begun, &place.alpha.answer(Err(error)), "").await.expect(status);
            assert!(session(&answer).is_none());
        }
        // A spent code is refused, and a missing one too.
        let begun = place.begin("/auth/oauth/alpha", "").await;
        place.back("alpha", &begun, "no-such-code", "").await.expect(400);
        place.back("alpha", &begun, "", "").await.expect(400);
        for bad in ["", "x\u{1}", &"9".repeat(300)] {
            let answer = place.sign_in(&identity(bad, Some(ANN), true)).await.expect(502);
            assert!(session(&answer).is_none());
        }
    }
}

#[tokio::test]
async fn an_unknown_provider_is_404() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = place.ann().await;
        for path in ["/auth/oauth/gamma", "/auth/oauth/gamma/callback", "/auth/oauth/gamma/link"] {
            let answer = Call::get(path).cookie(&ann).send(&place.site).await.expect(404);
            assert!(Begun::is_absent(&answer));
        }
    }
}

#[tokio::test]
async fn a_head_request_neither_starts_nor_ends_a_flow() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let begun = place.begin("/auth/oauth/alpha", "").await;
        let code = place.alpha.code(&identity("1", Some(ANN), true));
        let path = format!("/auth/oauth/alpha/callback?code={code}&state={}", begun.state);
        Call::new(http::Method::HEAD, &path).cookie(&begun.cookie).send(&place.site).await.expect(405);
        Call::new(http::Method::HEAD, "/auth/oauth/alpha").send(&place.site).await.expect(405);
        assert!(place.alpha.codes.lock().contains_key(&code));
    }
}

#[tokio::test]
async fn failed_callbacks_are_limited_per_address_and_drop_the_state() {
    for database in databases().await {
        let mut config = with_public_url();
        config.limits.oauth = gatewright_auth::Limit::default();
        let place = Place::with(config, |builder| builder.database(database.db.clone())).await;
        let begun = place.begin("/auth/oauth/alpha", "").await;
        for _ in 0..10 {
            place.back("alpha", &begun, "guess", "").await.expect(400);
        }
        let code = place.alpha.code(&identity("1", Some(ANN), true));
        let refused = place.back("alpha", &begun, &code, "").await.expect(429);
        assert_eq!(refused.body, "rate limit exceeded");
        assert!(place.alpha.codes.lock().contains_key(&code));
        let path = format!("/auth/oauth/alpha/callback?code={code}&state={}", begun.state);
        Call::get(&path).cookie(&begun.cookie).from("203.0.113.8").send(&place.site).await.expect(303);
    }
}

#[tokio::test]
async fn callbacks_that_succeed_are_not_limited() {
    for database in databases().await {
        let mut config = with_public_url();
        config.limits.oauth = gatewright_auth::Limit::default();
        let place = Place::with(config, |builder| builder.database(database.db.clone())).await;
        for _ in 0..25 {
            place.sign_in(&identity("1", Some(ANN), true)).await.expect(303);
        }
        for _ in 0..10 {
            let begun = place.begin("/auth/oauth/alpha", "").await;
            place.back("alpha", &begun, "guess", "").await.expect(400);
        }
        let begun = place.begin("/auth/oauth/alpha", "").await;
        place.back("alpha", &begun, "guess", "").await.expect(429);
    }
}

#[tokio::test]
async fn at_most_ten_parallel_callbacks_with_bad_codes_reach_the_provider() {
    for database in databases().await {
        let mut config = with_public_url();
        config.limits.oauth = gatewright_auth::Limit::default();
        let place = std::sync::Arc::new(Place::with(config, |builder| builder.database(database.db.clone())).await);
        let begun = std::sync::Arc::new(place.begin("/auth/oauth/alpha", "").await);
        let tries = (0..20).map(|_| {
            let (place, begun) = (place.clone(), begun.clone());
            tokio::spawn(async move { place.back("alpha", &begun, "guess", "").await.status.as_u16() })
        });
        let statuses: Vec<_> = futures_util::future::join_all(tries).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(statuses.iter().filter(|status| **status == 400).count(), 10, "{}: {statuses:?}", database.name);
        assert_eq!(statuses.iter().filter(|status| **status == 429).count(), 10, "{}: {statuses:?}", database.name);
    }
}

#[tokio::test]
async fn in_dev_mode_failed_callbacks_are_not_limited() {
    for database in databases().await {
        let mut config = AuthConfig { dev_mode: true, ..with_public_url() };
        config.limits.oauth = gatewright_auth::Limit::default();
        let place = Place::with(config, |builder| builder.database(database.db.clone())).await;
        let begun = place.begin("/auth/oauth/alpha", "").await;
        for _ in 0..15 {
            place.back("alpha", &begun, "guess", "").await.expect(400);
        }
    }
}

impl Begun {
    /// Whether an answer started no flow.
    fn is_absent(answer: &crate::support::Answer) -> bool {
        answer.location().is_none() && cookies(answer).iter().all(|line| !line.starts_with("svc_oauth_state=e"))
    }
}
