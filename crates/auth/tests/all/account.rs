//! The page `/account`, with forms only.

use std::time::Duration;

use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_auth::plugins::two_factor::TwoFactorPlugin;
use gatewright_auth::{AccountPage, AuthConfig};
use gatewright_db::testing::TestDb;
use gatewright_limits::Policy;
use serde_json::json;

use crate::support::{ANN, Answer, Call, PASSWORD, Site, WRONG, config, databases, query};
use crate::two_factor::enroll;

const NEW: &str = "another horse battery";

async fn site(db: &TestDb) -> Site {
    let settings = AuthConfig { public_url: Some("https://example.com".parse().unwrap()), ..config() };
    let site = Site::with(settings, |builder| {
        builder.database(db.db.clone()).plugin(TwoFactorPlugin::new("Test")).plugin(EmailVerificationPlugin::new())
    });
    site.await.and_screens()
}

async fn page(site: &Site, cookie_of: &Answer) -> String {
    site.account(&cookie_of.cookie().unwrap()).await
}

fn form(path: &str, fields: &[(&str, &str)], cookie_of: &Answer) -> Call {
    Call::post(path).form(fields).cookie_of(cookie_of)
}

fn change(current: &str, new: &str, cookie_of: &Answer) -> Call {
    form("/account/password", &[("current_password", current), ("password", new)], cookie_of)
}

#[tokio::test]
async fn only_a_session_sees_the_account_page() {
    for db in databases().await {
        let site = site(&db).await;
        let jwt = site.register_ann().await.token();
        let stranger = Call::get("/account").send(&site).await.expect(303);
        assert_eq!(stranger.location(), Some("/login?next=%2Faccount"));
        // A redirect would send a program with a token into a loop.
        Call::get("/account").bearer(&jwt).send(&site).await.expect(401);
        let ann = site.login_ann().await.expect(200);
        let first = Call::get("/account").cookie_of(&ann).send(&site).await.expect(303);
        assert_eq!(first.location(), Some("/account/sign-in"));
        for (path, parts) in [
            ("/account/sign-in", &["<h1>Sign-in</h1>", ANN, "id=\"address\"", "id=\"password\""][..]),
            ("/account/second-factor", &["<h1>Second factor</h1>", "id=\"two-factor\""]),
            ("/account/devices", &["<h1>Devices</h1>", "id=\"sessions\"", "aria-current=\"page\">Devices</a>"]),
        ] {
            let stranger = Call::get(path).send(&site).await.expect(303);
            assert_eq!(stranger.location(), Some(&*format!("/login?{}", query("next", path))));
            Call::get(path).bearer(&jwt).send(&site).await.expect(401);
            let shown = Call::get(path).cookie_of(&ann).send(&site).await.expect(200);
            assert_eq!(shown.headers["cache-control"], "no-store");
            for part in parts {
                assert!(shown.body.contains(part), "{part} is not in {}", shown.body);
            }
        }
        // Nothing is there for plugins that are off.
        for path in ["/account/tokens", "/account/organisations", "/account/programs", "/account/data"] {
            Call::get(path).cookie_of(&ann).send(&site).await.expect(404);
        }
        let shown = Call::get("/account/sign-in").cookie_of(&ann).send(&site).await.expect(200);
        assert!(!shown.body.contains("/account/tokens"), "{}", shown.body);
        assert!(!shown.markup().contains("<script") && !shown.body.contains("_csrf"));
        enroll(&site, ann.clone()).await;
        let pending = site.login_ann().await.expect(200);
        let away = Call::get("/account").cookie_of(&pending).send(&site).await.expect(303);
        assert_eq!(away.location(), Some("/two-factor?next=%2Faccount"));
        for (path, page) in [
            ("/account/password", "/account/sign-in"),
            ("/account/two-factor/disable", "/account/second-factor"),
            ("/account/sessions/end-others", "/account/devices"),
        ] {
            let fields = [("current_password", PASSWORD), ("password", NEW), ("code", "1")];
            let back = query("next", page);
            let to = Call::post(path).form(&fields).send(&site).await.expect(303);
            assert_eq!(to.location(), Some(&*format!("/login?{back}")), "{path}");
            let to = form(path, &fields, &pending).send(&site).await.expect(303);
            assert_eq!(to.location(), Some(&*format!("/two-factor?{back}")), "{path}");
        }
        site.login(ANN, NEW).await.expect(401);
    }
}

#[tokio::test]
async fn a_password_change_ends_everything_else_and_renews_this_browsers_session() {
    for db in databases().await {
        let site = site(&db).await;
        let jwt = site.register_ann().await.token();
        let (here, elsewhere) = (site.login_ann().await.expect(200), site.login_ann().await.expect(200));
        site.advance(1);
        let changed = change(PASSWORD, NEW, &here).send(&site).await.expect(303);
        assert_eq!(changed.location(), Some("/account/sign-in?done=password-changed#password"));
        assert_ne!(changed.cookie(), here.cookie());
        site.me(&changed).await.expect(200);
        for old in [&here, &elsewhere] {
            site.me(old).await.expect(401);
        }
        Call::get("/auth/me").bearer(&jwt).send(&site).await.expect(401);
        site.login(ANN, PASSWORD).await.expect(401);
        site.login(ANN, NEW).await.expect(200);
        assert!(site.audited().contains(&AuditKind::PasswordResetCompleted));
        let shown =
            Call::get("/account/sign-in?done=password-changed").cookie_of(&changed).send(&site).await.expect(200);
        assert!(shown.body.contains("role=\"status\">Your password was changed"), "{}", shown.body);
    }
}

#[tokio::test]
async fn a_password_change_needs_the_current_password_and_a_valid_new_one() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = site.signed_in_ann().await;
        for (current, new, status, message) in [
            (WRONG, NEW, 401, "the current password is wrong"),
            ("", NEW, 401, "the current password is wrong"),
            (PASSWORD, "short", 422, "at least 8 characters"),
        ] {
            let answer = change(current, new, &ann).send(&site).await.expect(status);
            let alert = answer.body.split("id=\"password\"").nth(1).unwrap().split("role=\"alert\">").nth(1).unwrap();
            assert!(alert.split('<').next().unwrap().contains(message), "{}", answer.body);
            assert!(answer.cookie().is_none() && !answer.headers.contains_key("www-authenticate"));
            assert!(!answer.body.contains(WRONG));
        }
        site.me(&ann).await.expect(200);
        site.login_ann().await.expect(200);
        let answer = Call::post("/auth/change-password")
            .json(&json!({ "currentPassword": PASSWORD, "password": NEW }))
            .cookie_of(&ann)
            .send(&site)
            .await
            .expect(200);
        assert_eq!(answer.json(), json!({ "updated": true }));
        site.me(&answer).await.expect(200);
        Call::post("/auth/change-password")
            .json(&json!({ "currentPassword": NEW, "password": PASSWORD }))
            .send(&site)
            .await
            .expect(401);
    }
}

/// The attack: a person at an open browser tries passwords until one is right.
#[tokio::test]
async fn guesses_of_the_current_password_are_limited_per_account() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = site.signed_in_ann().await;
        for _ in 0..10 {
            change(WRONG, NEW, &ann).send(&site).await.expect(401);
        }
        change(PASSWORD, NEW, &ann).send(&site).await.expect(429);
        // Sign-ins have their own limit: the owner is not locked out.
        site.login_ann().await.expect(200);
    }
}

#[tokio::test]
async fn one_of_twenty_parallel_password_changes_succeeds() {
    for db in databases().await {
        let mut settings = config();
        let loose = Policy::new(100, Duration::from_mins(15), Duration::from_mins(30));
        (settings.limits.login.policy, settings.limits.login_account.policy) = (loose, loose);
        let site = Site::with(settings, |builder| builder.database(db.db.clone())).await.and_screens();
        let ann = site.signed_in_ann().await;
        let news: Vec<String> = (0..20).map(|number| format!("{NEW} {number}")).collect();
        let changes = news.iter().map(|new| change(PASSWORD, new, &ann).send(&site));
        let answers = futures_util::future::join_all(changes).await;
        let won: Vec<_> = answers.iter().enumerate().filter(|(_, answer)| answer.status == 303).collect();
        let mut opened = 0;
        for new in &news {
            site.advance(1);
            opened += u32::from(site.login(ANN, new).await.status == 200);
        }
        assert_eq!(opened, 1, "one password is in force");
        let kept: Vec<_> = won.iter().filter(|(_, answer)| answer.cookie().is_some()).collect();
        assert!(kept.len() <= 1, "{} were told that theirs is the new one", kept.len());
    }
}

#[tokio::test]
async fn sessions_are_listed_and_ended() {
    for db in databases().await {
        let site = site(&db).await;
        site.register_ann().await;
        let firefox = "Mozilla/5.0 (Windows NT 10.0; rv:140.0) Gecko/20100101 Firefox/140.0";
        let body = json!({ "email": ANN, "password": PASSWORD });
        let far = Call::post("/auth/login").json(&body).header("user-agent", firefox).send(&site).await.expect(200);
        let third =
            Call::post("/auth/login").json(&body).header("user-agent", "<b>\"x\"").send(&site).await.expect(200);
        let here = site.login_ann().await.expect(200);
        let shown = page(&site, &here).await;
        assert!(
            shown.contains("Firefox on Windows") && shown.contains("this browser") && shown.contains("203.0.113.7")
        );
        assert!(shown.contains("&lt;b&gt;&quot;x&quot;") && !shown.contains("<b>"));
        let far_id = Call::get("/session").cookie_of(&far).send(&site).await.expect(200).body;
        let end = format!("/account/sessions/{far_id}/end");
        assert!(shown.contains(&format!("action=\"{end}\"")));
        let other = Call::post("/auth/register").json(&json!({ "email": "bob@example.com", "password": PASSWORD }));
        other.send(&site).await.expect(200);
        let bob = site.login("bob@example.com", PASSWORD).await.expect(200);
        let missed = form(&end, &[], &bob).send(&site).await.expect(303);
        assert_eq!(missed.location(), Some("/account/devices?done=session-gone#sessions"), "not his to end");
        site.me(&far).await.expect(200);
        form(&end, &[], &here).send(&site).await.expect(303);
        site.me(&far).await.expect(401);
        form("/account/sessions/end-others", &[], &here).send(&site).await.expect(303);
        site.me(&third).await.expect(401);
        site.me(&here).await.expect(200);
        site.me(&bob).await.expect(200);
        let own = Call::get("/session").cookie_of(&here).send(&site).await.expect(200).body;
        let out = form(&format!("/account/sessions/{own}/end"), &[], &here).send(&site).await.expect(303);
        assert_eq!((out.location(), out.cookie()), (Some("/login"), None));
        form("/account/sessions/nonsense/end", &[], &bob).send(&site).await.expect(303);
    }
}

#[tokio::test]
async fn the_second_factor_is_turned_on_and_off() {
    for db in databases().await {
        let site = site(&db).await;
        let old = site.signed_in_ann().await;
        let here = site.login_ann().await.expect(200);
        let off = page(&site, &here).await;
        assert!(
            off.contains("action=\"/auth/2fa/enroll\"")
                && off.contains("name=\"next\" value=\"/account/second-factor\"")
        );
        let app = enroll(&site, here.clone()).await.app;
        let on = page(&site, &here).await;
        assert!(
            on.contains("action=\"/auth/2fa/backup-codes\"")
                && on.contains("action=\"/account/two-factor/disable#two-factor\"")
        );
        // A session from before the enrollment sees the page, but cannot change anything dangerous there.
        let stale = page(&site, &old).await;
        assert!(stale.contains("role=\"note\"") && !stale.contains("/disable") && !stale.contains("current_password"));
        change(PASSWORD, NEW, &old).send(&site).await.expect(403);
        form("/account/two-factor/disable", &[("code", &app.code(&site))], &old).send(&site).await.expect(403);
        let wrong = form("/account/two-factor/disable", &[("code", "000000x")], &here).send(&site).await.expect(401);
        assert!(wrong.body.contains("role=\"alert\">The code is wrong."));
        // After a password change, the second factor stays proven: the renewed session may still turn it off.
        let here = change(PASSWORD, NEW, &here).send(&site).await.expect(303);
        let done = form("/account/two-factor/disable", &[("code", &app.code(&site))], &here).send(&site).await;
        assert_eq!(done.expect(303).location(), Some("/account/second-factor?done=two-factor-off#two-factor"));
        assert!(page(&site, &here).await.contains("action=\"/auth/2fa/enroll\""));
    }
}

#[tokio::test]
async fn a_page_that_the_operator_turns_off_and_its_forms_do_not_exist() {
    for db in databases().await {
        let settings = AuthConfig { account_pages: vec![AccountPage::Devices], ..config() };
        let site = Site::with(settings, |builder| builder.database(db.db.clone()).plugin(TokensPlugin::new()));
        let site = site.await.and_screens();
        let ann = site.signed_in_ann().await;
        let first = Call::get("/account").cookie_of(&ann).send(&site).await.expect(303);
        assert_eq!(first.location(), Some("/account/devices"));
        let shown = page(&site, &ann).await;
        assert!(shown.contains("id=\"sessions\"") && !shown.contains("/account/sign-in"), "{shown}");
        for path in ["/account/sign-in", "/account/tokens"] {
            Call::get(path).cookie_of(&ann).send(&site).await.expect(404);
        }
        change(PASSWORD, NEW, &ann).send(&site).await.expect(404);
        form("/account/tokens", &[("name", "x")], &ann).send(&site).await.expect(404);
        // The routes of programs stay.
        Call::get("/auth/tokens").cookie_of(&ann).send(&site).await.expect(200);
    }
}

#[tokio::test]
async fn the_done_parameter_is_shown_only_if_a_section_defines_it() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = site.signed_in_ann().await;
        for done in ["nonsense", "%3Cscript%3E", "session-ended%22"] {
            let shown =
                Call::get(&format!("/account/devices?done={done}")).cookie_of(&ann).send(&site).await.expect(200);
            assert!(!shown.body.contains("role=\"status\"") && !shown.markup().contains("<script"));
        }
    }
}

#[tokio::test]
async fn a_page_of_another_site_changes_nothing() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = site.signed_in_ann().await;
        let fields = [("current_password", PASSWORD), ("password", NEW), ("code", "1")];
        for path in [
            "/account/password",
            "/account/two-factor/disable",
            "/account/sessions/end-others",
            "/account/sessions/x/end",
        ] {
            form(path, &fields, &ann).header("origin", "https://evil.example").send(&site).await.expect(403);
            form(path, &fields, &ann).header("sec-fetch-site", "cross-site").send(&site).await.expect(403);
        }
        site.me(&ann).await.expect(200);
    }
}

#[tokio::test]
async fn api_tokens_are_made_shown_once_and_revoked() {
    for db in databases().await {
        let site = Site::with(config(), |builder| {
            builder.database(db.db.clone()).plugin(TokensPlugin::new()).plugin(TwoFactorPlugin::new("Test"))
        });
        let site = site.await.and_screens();
        site.register_ann().await;
        let (ann, old) = (site.login_ann().await.expect(200), site.login_ann().await.expect(200));
        for (name, scopes, message) in [("", "", "the name"), ("ci", "Posts:Read", "Posts:Read"), ("ci", "a b", "a")] {
            let wrong =
                form("/account/tokens", &[("name", name), ("scopes", scopes)], &ann).send(&site).await.expect(422);
            let alert = wrong.body.split("role=\"alert\">").nth(1).unwrap().split("</p>").next().unwrap();
            assert!(alert.contains(message), "{alert}");
        }
        let fields = [("name", "<b>ci"), ("scopes", "posts:read, posts:write"), ("ttl_seconds", "2592000")];
        let made = form("/account/tokens", &fields, &ann).send(&site).await.expect(200);
        assert_eq!(made.headers["cache-control"], "no-store");
        assert!(made.body.contains("&lt;b&gt;ci") && !made.body.contains("<b>"));
        let plaintext =
            made.body.split("<code id=\"plaintext\">").nth(1).unwrap().split("</code>").next().unwrap().to_owned();
        Call::get("/whoami").bearer(&plaintext).send(&site).await.expect(200);
        let shown = page(&site, &ann).await;
        assert!(
            shown.contains(&plaintext[..12]) && !shown.contains(&plaintext) && shown.contains("posts:read posts:write")
        );
        let revoke = shown.split("action=\"/account/tokens/").nth(1).unwrap().split('"').next().unwrap();
        let revoke = format!("/account/tokens/{revoke}");
        Call::post(&revoke).form(&[]).bearer(&plaintext).send(&site).await.expect(303);
        let bob = site.signed_in("bob@example.com").await;
        let not_his = form(&revoke, &[], &bob).send(&site).await.expect(303);
        assert_eq!(not_his.location(), Some("/account/tokens?done=token-gone#tokens"));
        let revoked = form(&revoke, &[], &ann).send(&site).await.expect(303);
        assert_eq!(revoked.location(), Some("/account/tokens?done=token-revoked#tokens"));
        assert!(!page(&site, &ann).await.contains(&plaintext[..12]));
        // A session from before the second factor creates no token.
        enroll(&site, ann.clone()).await;
        assert!(!page(&site, &old).await.contains("name=\"scopes\""));
        form("/account/tokens", &fields, &old).send(&site).await.expect(403);
    }
}
