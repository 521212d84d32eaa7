use std::time::Duration;

use gatewright_auth::MailKind;
use gatewright_auth::audit::AuditKind;
use gatewright_http::locale::{Branding, Languages, Presentation};
use serde_json::json;

use super::{Browser, FIREFOX, Place};
use crate::support::{ANN, Call, PASSWORD, databases, set_proven};
use crate::two_factor::{Enrolled, enroll};

const DAY: i64 = 24 * 3600;

#[tokio::test]
async fn a_new_device_is_notified_but_not_the_first_or_a_known_one() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let (mut home, mut phone) = (Browser::default(), Browser::default());
        home.login(&place.site).await;
        home.login(&place.site).await;
        assert!(place.notices().await.is_empty(), "the first sign-in, and one from a known device");
        let session = phone.login(&place.site).await;
        let notices = place.notices().await;
        let [notice] = &notices[..] else { panic!("{notices:?}") };
        assert_eq!(notice.to.as_str(), ANN);
        assert_eq!(notice.link.expose(), "https://app.example.com/account/devices#devices");
        let device = notice.new_device.as_ref().unwrap();
        assert_eq!(
            (&*device.name, device.address.unwrap().to_string().as_str()),
            ("Firefox on Windows", "203.0.113.7")
        );
        assert_eq!(device.at.to_string(), "2026-01-02T03:04:08.678901Z");
        phone.login(&place.site).await;
        home.login(&place.site).await;
        assert_eq!(place.notices().await.len(), 1);

        let listed = place.devices(&session, &phone).await;
        let current: Vec<_> = listed.iter().map(|device| device["current"].as_bool().unwrap()).collect();
        assert_eq!(current, [false, true], "the latest used first");
        assert_eq!(listed[1]["userAgent"], FIREFOX);
        assert_eq!(listed[1]["address"], "203.0.113.7");
    }
}

/// A mail does not contain text that a stranger wrote.
#[tokio::test]
async fn a_notice_does_not_repeat_an_unknown_user_agent() {
    for db in databases().await {
        let place = Place::on(&db).await;
        Browser::default().login(&place.site).await;
        let body = json!({ "email": ANN, "password": PASSWORD });
        Call::post("/auth/login")
            .header("user-agent", "call +1 555 0100")
            .json(&body)
            .send(&place.site)
            .await
            .expect(200);
        assert_eq!(place.notices().await[0].new_device.as_ref().unwrap().name, "Unknown device");
    }
}

#[tokio::test]
async fn notices_can_be_switched_off() {
    for db in databases().await {
        let place = Place::with(&db, |config| gatewright_auth::AuthConfig { new_device_notice: false, ..config }).await;
        for _ in 0..3 {
            Browser::default().login(&place.site).await;
        }
        assert!(place.notices().await.is_empty());
        assert_eq!(place.added(), 2, "the audit log has them all the same");
    }
}

#[tokio::test]
async fn a_magic_link_and_a_second_factor_make_a_device_known() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let mut home = Browser::default();
        let Enrolled { app, .. } = enroll(site, home.login(site).await).await;

        // The password alone makes no device known, and sends no notice.
        let mut phone = Browser::default();
        let pending = phone.login(site).await;
        assert!(phone.device.is_none() && place.notices().await.is_empty());
        let code = json!({ "code": app.code(site) });
        let call = phone.on(Call::post("/auth/2fa/challenge").json(&code), Some(&pending));
        phone.keep(call.send(site).await.expect(200));
        assert!(phone.device.is_some());
        assert_eq!(place.notices().await.len(), 1);

        site.auth.accounts().disable_two_factor(&site.auth.accounts().find(ANN).await.unwrap().id).await.unwrap();
        // The first link claims an account whose mailbox was not proven before: known devices start again.
        set_proven(&db.db, ANN, false).await;
        let (mut tablet, mut other) = (Browser::default(), Browser::default());
        for (is_tablet, notices) in [(true, 1), (true, 1), (false, 2), (false, 2)] {
            let browser = if is_tablet { &mut tablet } else { &mut other };
            Call::post("/auth/magic-link/send").json(&json!({ "email": ANN })).send(site).await.expect(200);
            let token = place.token(MailKind::MagicLink).await;
            let call = Call::post("/auth/magic-link/verify").json(&json!({ "token": token }));
            browser.keep(browser.on(call, None).send(site).await.expect(200));
            assert_eq!(place.notices().await.len(), notices, "once for each device");
        }
        assert_eq!(place.added(), 2);
    }
}

#[tokio::test]
async fn devices_are_listed_and_forgotten_only_by_their_owner() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let (mut home, mut phone) = (Browser::default(), Browser::default());
        let jwt = home.login(site).await.token();
        let session = phone.login(site).await;
        let listed = place.devices(&session, &phone).await;
        let (of_phone, of_home) = (listed[0]["id"].as_str().unwrap(), listed[1]["id"].as_str().unwrap());

        let bob = site.signed_in("bob@example.com").await;
        let path = format!("/auth/devices/{of_home}");
        for path in [&*path, "/auth/devices/0", "/auth/devices/%00"] {
            Call::new(http::Method::DELETE, path).cookie_of(&bob).send(site).await.expect(404);
        }
        Call::get("/auth/devices").bearer(&jwt).send(site).await.expect(401);
        Call::get("/auth/devices").send(site).await.expect(401);

        let page = phone.on(Call::get("/account/devices"), Some(&session)).send(site).await.expect(200).body;
        assert!(
            page.contains("Known devices") && page.contains(&format!("/account/devices/{of_home}/forget")),
            "{page}"
        );
        assert!(!page.contains(&format!("/account/devices/{of_phone}/forget")), "not the one that asks: {page}");
        Call::new(http::Method::DELETE, &path).cookie_of(&session).send(site).await.expect(204);
        Call::new(http::Method::DELETE, &path).cookie_of(&session).send(site).await.expect(404);
        assert_eq!(place.devices(&session, &phone).await.len(), 1);

        // It is a new one again.
        let before = place.notices().await.len();
        home.login(site).await;
        assert_eq!(place.notices().await.len(), before + 1);
        let others = phone.on(Call::new(http::Method::DELETE, "/auth/devices"), Some(&session));
        others.send(site).await.expect(204);
        let left = place.devices(&session, &phone).await;
        assert_eq!((left.len(), left[0]["id"].as_str().unwrap()), (1, of_phone));
        // Repeated requests do not fill the audit log.
        let recorded = || site.audited().into_iter().filter(|kind| *kind == AuditKind::DeviceForgotten).count();
        let before = recorded();
        for _ in 0..5 {
            let again = phone.on(Call::new(http::Method::DELETE, "/auth/devices"), Some(&session));
            again.send(site).await.expect(204);
        }
        assert_eq!(recorded(), before);

        home.login(site).await;
        let form = phone.on(Call::post("/account/devices/forget-others").form(&[]), Some(&session));
        let done = form.send(site).await.expect(303);
        assert_eq!(done.location(), Some("/account/devices?done=devices-forgotten#devices"));
        assert_eq!(place.devices(&session, &phone).await.len(), 1);
    }
}

#[tokio::test]
async fn at_most_twenty_devices_are_kept_and_unused_ones_expire() {
    for db in databases().await {
        let place = Place::without_lockout(&db).await;
        let site = &place.site;
        let mut first = Browser::default();
        first.login(site).await;
        let mut last = Browser::default();
        let session = last.login(site).await;
        for _ in 0..19 {
            Browser::default().login(site).await;
        }
        assert_eq!(place.devices(&session, &last).await.len(), 20);
        let added = place.added();
        last.login(site).await;
        assert_eq!(place.added(), added, "one of the twenty");
        first.login(site).await;
        assert_eq!(place.added(), added + 1, "the oldest had left");
        assert_eq!(place.notices().await.len(), 10, "mails are limited");

        site.advance(180 * DAY);
        let session = first.login(site).await;
        assert_eq!(place.added(), added + 2, "not used for too long");
        assert_eq!(place.devices(&session, &first).await.len(), 1);
        let count = async || {
            let row = db.db.query_opt("SELECT COUNT(*) AS n FROM known_devices", vec![]).await.unwrap().unwrap();
            row.get::<i64>("n").unwrap()
        };
        assert_eq!(count().await, 20);
        site.auth.sweep().await;
        assert_eq!(count().await, 1);
    }
}

#[tokio::test]
async fn a_reset_an_undone_change_and_a_deletion_forget_devices() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let mut home = Browser::default();
        let session = home.login(site).await;
        Call::post("/auth/change-email")
            .json(&json!({ "email": "ann@new.example.com", "password": PASSWORD }))
            .cookie_of(&session)
            .send(site)
            .await
            .expect(200);
        let token = place.token(MailKind::EmailChange).await;
        let confirm = Call::post("/auth/change-email/confirm").json(&json!({ "token": token }));
        confirm.cookie_of(&session).send(site).await.expect(200);
        let undo = place.token(MailKind::EmailChanged).await;
        Call::post("/auth/change-email/undo").json(&json!({ "token": undo })).send(site).await.expect(200);
        let rows = async |table: &str| {
            let sql = format!("SELECT COUNT(*) AS n FROM {table}");
            db.db.query_opt(sql, vec![]).await.unwrap().unwrap().get::<i64>("n").unwrap()
        };
        assert_eq!(rows("known_devices").await, 0, "undone");

        site.advance(1);
        let reset = async |password: &str| {
            Call::post("/auth/forgot-password").json(&json!({ "email": ANN })).send(site).await.expect(200);
            let body = json!({ "token": place.token(MailKind::PasswordReset).await, "password": password });
            Call::post("/auth/reset-password").json(&body).send(site).await.expect(200);
        };
        reset(PASSWORD).await;
        site.advance(1);
        home.login(site).await;
        assert_eq!(rows("known_devices").await, 1);
        reset(PASSWORD).await;
        assert_eq!((rows("known_devices").await, rows("device_owners").await), (0, 1), "reset");
        site.advance(1);
        let before = place.notices().await.len();
        home.login(site).await;
        assert_eq!(place.notices().await.len(), before + 1, "the mailbox hears of the sign-in after a reset");

        site.auth.accounts().delete(&site.auth.accounts().find(ANN).await.unwrap().id).await.unwrap();
        assert_eq!((rows("known_devices").await, rows("device_owners").await), (0, 0), "deleted");
        site.auth.settle(Duration::from_secs(10)).await;
    }
}

#[tokio::test]
async fn after_a_password_change_only_that_browser_is_known() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let (mut thief, mut home) = (Browser::default(), Browser::default());
        thief.login(site).await;
        let session = home.login(site).await;
        let before = place.notices().await.len();
        let next = "another horse battery";
        let body = json!({ "current_password": PASSWORD, "password": next });
        let call = home.on(Call::post("/auth/change-password").json(&body), Some(&session));
        call.send(site).await.expect(200);
        site.advance(1);
        let answer = home.try_login(site, ANN, next).await.expect(200);
        home.keep(answer);
        assert_eq!(place.notices().await.len(), before, "{}", db.name);
        thief.try_login(site, ANN, next).await.expect(200);
        assert_eq!(place.notices().await.len(), before + 1, "{}", db.name);
    }
}

#[tokio::test]
async fn an_operator_unlocks_the_known_devices_too() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let site = &place.site;
        let mut home = Browser::default();
        let session = home.login(site).await;
        for _ in 0..10 {
            home.try_login(site, ANN, "wrong").await.expect(401);
            let body = json!({ "email": "new@example.com", "password": "wrong" });
            Call::post("/auth/change-email").json(&body).cookie_of(&session).send(site).await.expect(401);
        }
        home.try_login(site, ANN, PASSWORD).await.expect(429);
        let proof = || json!({ "email": "new@example.com", "password": PASSWORD });
        Call::post("/auth/change-email").json(&proof()).cookie_of(&session).send(site).await.expect(429);
        let accounts = site.auth.accounts();
        accounts.unlock(&accounts.find(ANN).await.unwrap().id).await.unwrap();
        home.login(site).await;
        Call::post("/auth/change-email").json(&proof()).cookie_of(&session).send(site).await.expect(200);
    }
}

#[tokio::test]
async fn devices_stay_known_after_a_rotation_while_the_previous_secret_is_configured() {
    for db in databases().await {
        let mut home = Browser::default();
        home.login(&Place::on(&db).await.site).await;
        let rotated = |mut config: gatewright_auth::AuthConfig| {
            config.jwt.previous_secrets = vec![config.jwt.secret.clone()];
            config.jwt.secret = gatewright_base::Secret::new("another-secret-of-thirty-two-bytes!!!");
            config
        };
        let place = Place::again(&db, rotated).await;
        home.login(&place.site).await;
        home.login(&place.site).await;
        assert_eq!(place.notices().await.len(), 0, "{}", db.name);
        Browser::default().login(&place.site).await;
        assert_eq!(place.notices().await.len(), 1, "{}", db.name);
    }
}

#[tokio::test]
async fn a_sign_in_whose_device_cannot_be_stored_is_notified() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let mut home = Browser::default();
        home.login(&place.site).await;
        db.db.execute("DROP TABLE known_devices", vec![]).await.unwrap();
        let answer = home.try_login(&place.site, ANN, PASSWORD).await.expect(200);
        assert!(super::device_of(&answer).is_none());
        assert_eq!((place.notices().await.len(), place.added()), (1, 1), "{}", db.name);
    }
}

/// An account from before this version has signed in before, so another person's sign-in does not count as its first.
#[tokio::test]
async fn the_first_sign_in_after_an_upgrade_is_notified() {
    for db in databases().await {
        drop(Place::on(&db).await);
        for sql in ["DELETE FROM gatewright_migrations WHERE component = 'device_owners'", "DELETE FROM device_owners"]
        {
            db.db.execute(sql, vec![]).await.unwrap();
        }
        let place = Place::again(&db, |config| config).await;
        Browser::default().login(&place.site).await;
        assert_eq!(place.notices().await.len(), 1, "{}", db.name);
    }
}

#[tokio::test]
async fn a_notice_is_in_the_default_language_not_in_that_of_the_request() {
    let presentation = Presentation::new(Branding::default(), Languages::shipped());
    for db in databases().await {
        let place = Place::on(&db).await;
        Browser::default().login(&place.site).await;
        let thief = presentation.locale(Some("de")).scope(async {
            Call::post("/auth/magic-link/send").json(&json!({ "email": ANN })).send(&place.site).await.expect(200);
            Browser::default().login(&place.site).await;
        });
        thief.await;
        let mails = place.mails().await;
        let language = |kind| &*mails.iter().find(|mail| mail.kind == kind).unwrap().language;
        assert_eq!(language(MailKind::MagicLink), "de");
        assert_eq!(language(MailKind::NewDevice), "en");
        let notice = place.notices().await.pop().unwrap();
        assert_eq!(notice.new_device.unwrap().name, "Firefox on Windows");
    }
}
