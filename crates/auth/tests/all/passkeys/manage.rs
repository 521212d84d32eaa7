use std::time::Duration;

use futures_util::future::join_all;
use gatewright_auth::MailKind;
use gatewright_auth::audit::AuditKind;
use gatewright_auth::plugins::passkeys::PasskeysPlugin;
use http::Method;
use serde_json::{Value, json};

use super::{Place, password};
use crate::support::{ANN, Call, Factor, PASSWORD, databases, set_proven};

#[tokio::test]
async fn a_passkey_is_added_named_used_and_removed() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        set_proven(&db.db, ANN, true).await;
        let options = place.options(&ann, &password()).await.expect(200);
        let json = options.json();
        // Level 3, at top level.
        assert_eq!(json["rp"], json!({ "name": "Test", "id": "app.example.com" }));
        assert_eq!(json["authenticatorSelection"]["residentKey"], "required");
        assert_eq!(json["authenticatorSelection"]["userVerification"], "required");
        assert_eq!((&json["user"]["name"], &json["attestation"]), (&json!(ANN), &json!("none")));
        assert!(options.set_cookie().unwrap().contains("HttpOnly") && options.set_cookie().unwrap().contains("Secure"));
        let id = ann.json()["user"]["id"].as_str().unwrap().to_owned();
        assert!(!options.body.contains(&id), "the handle says nothing of the account");
        let mut phone = place.added(&ann, &password(), "phone").await;
        let again = place.options(&ann, &password()).await.expect(200).json();
        assert_eq!(again["excludeCredentials"].as_array().unwrap().len(), 1);
        let listed = place.passkeys(&ann).await;
        assert_eq!((&listed[0]["name"], &listed[0]["lastUsedAt"]), (&json!("phone"), &Value::Null));
        place.site.auth.settle(Duration::from_mins(1)).await;
        let kinds: Vec<_> = place.post.mails.lock().iter().map(|mail| mail.kind).collect();
        assert_eq!(kinds, [MailKind::PasskeyAdded]);

        let asked = place.ask().await.json();
        assert_eq!((&asked["rpId"], &asked["allowCredentials"]), (&json!("app.example.com"), &json!([])));
        let signed_in = place.sign_in(&mut phone).await.expect(200);
        assert_eq!(signed_in.json()["user"]["email"], ANN);
        assert!(signed_in.json()["token"].is_string());
        place.site.me(&signed_in).await.expect(200);

        let path = format!("/auth/passkeys/{}", listed[0]["id"].as_str().unwrap());
        let rename = |name: &str| Call::new(Method::PATCH, &path).cookie_of(&ann).json(&json!({ "name": name }));
        rename(" My phone ").send(&place.site).await.expect(200);
        rename("a\nb").send(&place.site).await.expect(422);
        let renamed = place.passkeys(&ann).await;
        assert_eq!(renamed[0]["name"], "My phone");
        assert!(renamed[0]["lastUsedAt"].is_string());
        let eve = place.site.signed_in("eve@example.com").await;
        place.call(&eve, Method::DELETE, &path).await.expect(404);
        place.call(&ann, Method::DELETE, &path).await.expect(204);
        place.sign_in(&mut phone).await.expect(401);
    }
}

#[tokio::test]
async fn a_passkey_satisfies_the_second_factor_and_proves_it_for_its_own_account() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let (ann, eve) = (place.site.signed_in(ANN).await, place.site.signed_in("eve@example.com").await);
        let mut phone = place.added(&ann, &password(), "phone").await;
        let mut eves = place.added(&eve, &password(), "eves").await;
        place.factor.set(Factor::Enrolled);
        let verified = place.sign_in(&mut phone).await.expect(200);
        assert_eq!(verified.json().get("two_factor_required"), None);
        Call::get("/session").cookie_of(&verified).send(&place.site).await.expect(200);
        // After the password, as second factor.
        let pending = place.site.login(ANN, PASSWORD).await.expect(200);
        assert_eq!(pending.json()["two_factor_required"], true);
        let ask = Call::post("/auth/passkeys/login/options").cookie_of(&pending).json(&json!({}));
        let options = ask.send(&place.site).await.expect(200);
        assert_eq!(options.json()["allowCredentials"].as_array().unwrap().len(), 1);
        let cookies = format!("{}; {}", pending.cookie().unwrap(), options.cookie().unwrap());
        let answer =
            |credential: Value| Call::post("/auth/passkeys/login").cookie(&cookies).json(&credential).send(&place.site);
        answer(eves.get(&options.json())).await.expect(401);
        phone.counter += 1;
        let full = answer(phone.get(&options.json())).await.expect(200);
        Call::get("/session").cookie_of(&full).send(&place.site).await.expect(200);
        Call::get("/pending").cookie_of(&pending).send(&place.site).await.expect(401);
    }
}

#[tokio::test]
async fn a_passkey_can_be_the_only_sign_in_method_and_the_last_one_stays() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let bob = place.passwordless("bob@example.com").await;
        let mut phone = place.added(&bob, &json!({}), "phone").await;
        let session = place.sign_in(&mut phone).await.expect(200);
        let id = |listed: &Value| listed["id"].as_str().unwrap().to_owned();
        let only = id(&place.passkeys(&session).await[0]);
        let remove = |id: String| {
            let (place, session) = (&place, &session);
            async move { place.call(session, Method::DELETE, &format!("/auth/passkeys/{id}")).await.status.as_u16() }
        };
        let refused = place.call(&session, Method::DELETE, &format!("/auth/passkeys/{only}")).await.expect(409);
        assert_eq!(refused.json()["code"], "last_credential");
        place.sign_in(&mut phone).await.expect(200);
        // Of two parallel removals of the last two, exactly one succeeds.
        for round in 0..5 {
            while place.passkeys(&session).await.len() < 2 {
                place.added(&session, &json!({}), &format!("spare-{round}-{}", db.name)).await;
            }
            let ids: Vec<_> = place.passkeys(&session).await.iter().map(id).collect();
            let removed = join_all(ids.into_iter().map(remove)).await;
            assert_eq!(removed.iter().filter(|status| **status == 204).count(), 1, "{removed:?}, {}", db.name);
            assert_eq!(place.passkeys(&session).await.len(), 1, "{}", db.name);
        }
        // With a password, the last passkey may be removed.
        let ann = place.site.signed_in(ANN).await;
        place.added(&ann, &password(), "anns").await;
        let path = format!("/auth/passkeys/{}", id(&place.passkeys(&ann).await[0]));
        place.call(&ann, Method::DELETE, &path).await.expect(204);
    }
}

#[tokio::test]
async fn an_account_has_at_most_twenty() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let mut ann = place.site.signed_in(ANN).await;
        for index in 0..20 {
            // The budget of wrong and right passwords.
            if index % 8 == 7 {
                place.site.advance(3600);
                ann = place.site.login(ANN, PASSWORD).await.expect(200);
            }
            place.added(&ann, &password(), &format!("key {index}")).await;
        }
        place.site.advance(3600);
        assert_eq!(place.options(&ann, &password()).await.expect(409).json()["code"], "too_many_passkeys");
    }
}

/// Somebody registers another's address, adds a passkey, and waits for the owner.
#[tokio::test]
async fn a_claimed_account_loses_its_earlier_passkeys() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let squatter = place.site.signed_in(ANN).await;
        let mut planted = place.added(&squatter, &password(), "planted").await;
        place.sign_in(&mut planted).await.expect(200);
        place.passwordless(ANN).await;
        place.sign_in(&mut planted).await.expect(401);
    }
}

#[tokio::test]
async fn an_address_without_a_name_has_no_passkeys_and_its_screens_offer_none() {
    for db in databases().await {
        let plain = |builder: gatewright_auth::AuthBuilder| builder.plugin(PasskeysPlugin::new("Test"));
        let place = Place::at(&db, "https://192.0.2.1", plain).await;
        let ask = Call::post("/auth/passkeys/login/options").json(&json!({})).send(&place.site).await.expect(409);
        assert_eq!(ask.json()["code"], "passkeys_unavailable");
        let login = Call::get("/login").send(&place.site).await.expect(200);
        assert!(!login.body.contains("passkey"));
        assert!(!login.headers["content-security-policy"].to_str().unwrap().contains("connect-src"));
    }
}

#[tokio::test]
async fn the_screens_offer_passkeys_with_a_script_named_by_its_hash() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let login = Call::get("/login?next=/auth/2fa/backup-codes").send(&place.site).await.expect(200);
        assert!(login.body.contains("autocomplete=\"username webauthn\""));
        assert!(login.body.contains("data-next=\"/\""), "what acts is not gone on to");
        let policy = login.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.ends_with("; connect-src 'self'") && !policy.contains("unsafe"), "{policy}");
        assert!(!login.markup().contains("<script"), "{}", login.body);
        let ann = place.site.signed_in(ANN).await;
        place.added(&ann, &password(), "<b>phone</b>").await;
        let account = Call::get("/account/sign-in").cookie_of(&ann).send(&place.site).await.expect(200);
        assert!(account.body.contains("&lt;b&gt;phone&lt;/b&gt;") && account.body.contains("data-add"));
        let id = place.passkeys(&ann).await[0]["id"].as_str().unwrap().to_owned();
        let removed = Call::post(&format!("/account/passkeys/{id}/remove")).cookie_of(&ann).form(&[]).send(&place.site);
        assert!(removed.await.expect(303).location().unwrap().contains("done=passkey-removed"));
    }
}

#[tokio::test]
async fn a_passkey_in_an_unknown_browser_makes_it_known_and_is_notified() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let mut phone = place.added(&ann, &password(), "phone").await;
        let noticed = || place.site.audited().into_iter().filter(|kind| *kind == AuditKind::DeviceAdded).count();
        assert_eq!(noticed(), 0);
        let signed_in = place.sign_in(&mut phone).await.expect(200);
        assert!(crate::devices::device_of(&signed_in).is_some());
        assert_eq!(noticed(), 1, "{}", db.name);
    }
}
