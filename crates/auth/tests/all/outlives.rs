//! What outlives the session that created it: it needs a session younger than five minutes or a fresh proof, its owner gets a mail,
//! and a reset of the password ends it.

use gatewright_auth::MailKind;
use http::Method;
use serde_json::{Value, json};

use crate::cut::Place;
use crate::support::{Answer, Call, PASSWORD, WRONG, databases, set_proven};

const ANN: &str = "ann@example.com";

/// A request that creates or removes something which outlives the session.
struct Door {
    name: &'static str,
    method: Method,
    path: &'static str,
    body: fn() -> Value,
    notice: Option<MailKind>,
}

/// In a path, `TENANT` is a tenant of the caller's and `MEMBER` another member of it.
fn doors() -> [Door; 6] {
    let door = |name, method, path, body, notice| Door { name, method, path, body, notice };
    [
        door(
            "an administrator's invitation",
            Method::POST,
            "/auth/tenants/TENANT/members",
            || json!({ "email": "eve@example.com", "roles": ["admin"] }),
            Some(MailKind::MembersChanged),
        ),
        door(
            "an administrator's role",
            Method::PATCH,
            "/auth/tenants/TENANT/members/MEMBER",
            || json!({ "roles": ["member", "owner"] }),
            Some(MailKind::MembersChanged),
        ),
        door(
            "an API token",
            Method::POST,
            "/auth/tokens",
            || json!({ "name": "CI", "scopes": ["*:*"] }),
            Some(MailKind::TokenCreated),
        ),
        door("a link to a provider", Method::POST, "/auth/oauth/alpha/link", || json!({}), None),
        door("an enrollment", Method::POST, "/auth/2fa/enroll", || json!({}), None),
        door("the removal of a link", Method::DELETE, "/auth/unlink/alpha", || json!({}), None),
    ]
}

async fn act(place: &Place, door: &Door, path: &str, session: &Answer, proof: Value) -> Answer {
    let mut body = (door.body)();
    if let (Value::Object(body), Value::Object(proof)) = (&mut body, proof) {
        body.extend(proof);
    }
    Call::new(door.method.clone(), path).json(&body).cookie_of(session).send(&place.site).await
}

#[tokio::test]
async fn what_outlives_the_session_needs_a_young_one_or_a_proof() {
    for db in databases().await {
        for door in doors() {
            let place = Place::on(&db).await;
            let name = door.name.replace([' ', '\''], "-").to_lowercase();
            let email = format!("{name}@example.com");
            let old = place.site.signed_in(&email).await;
            let id = place.site.auth.accounts().find(&email).await.unwrap().id;
            set_proven(&db.db, &email, true).await;
            place.link(&id).await;
            let tenant = place.tenant(&old).await;
            let member = place.member_of(&tenant, &format!("member-of-{email}")).await;
            let path = &door.path.replace("TENANT", tenant.as_str()).replace("MEMBER", member.as_str());
            place.site.advance(5 * 60);
            let refused = act(&place, &door, path, &old, json!({})).await;
            assert_eq!(
                (refused.status.as_u16(), &refused.json()["code"]),
                (403, &json!("session_too_old")),
                "{}",
                door.name
            );
            act(&place, &door, path, &old, json!({ "password": WRONG })).await.expect(401);
            assert!(
                act(&place, &door, path, &old, json!({ "password": PASSWORD })).await.status.is_success(),
                "{}",
                door.name
            );
            place.link(&id).await;
            let young = place.site.login(&email, PASSWORD).await.expect(200);
            assert!(act(&place, &door, path, &young, json!({})).await.status.is_success(), "{}", door.name);
            let expected: Vec<_> = door.notice.into_iter().flat_map(|kind| [kind; 2]).collect();
            let mut kinds = place.kinds().await;
            kinds.retain(|kind| kind.is_notice());
            assert_eq!(kinds, expected, "{}, {}", door.name, db.name);
            place.site.auth.accounts().delete(&id).await.unwrap();
        }
    }
}

/// What members do all day needs no proof, but the owner of the session gets a mail.
#[tokio::test]
async fn an_old_session_invites_members_and_is_told_by_mail_what_was_done() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        set_proven(&db.db, ANN, true).await;
        let tenant = place.tenant(&ann).await;
        let member = place.member_of(&tenant, "bob@example.com").await;
        place.site.advance(5 * 60);
        let members = format!("/auth/tenants/{tenant}/members");
        let bob = format!("{members}/{member}");
        let ordinary = [
            (Method::POST, &members, json!({ "email": "eve@example.com" }), "Invited: eve@example.com (member)"),
            (Method::PATCH, &bob, json!({ "roles": ["member"] }), "New roles of bob@example.com: member"),
            (Method::DELETE, &bob, json!({}), "Removed: bob@example.com"),
        ];
        let mut expected = Vec::new();
        for (method, path, body, line) in ordinary {
            let call = Call::new(method, path).json(&body).cookie_of(&ann);
            assert!(call.send(&place.site).await.status.is_success(), "{line}, {}", db.name);
            expected.push((Some("Acme".to_owned()), Some(line.to_owned())));
        }
        place.kinds().await;
        let mails = place.post.mails.lock();
        let notices = mails.iter().filter(|mail| mail.kind == MailKind::MembersChanged);
        let told = notices.map(|mail| {
            assert!(mail.to.as_str() == ANN && mail.link.expose().ends_with("/account/devices#sessions"), "{mail:?}");
            (mail.invitation.tenant.clone(), mail.change.clone())
        });
        assert_eq!(told.collect::<Vec<_>>(), expected, "{}", db.name);
    }
}

/// The attack: a thief of an old session of a plain member, or of a stranger, tries roles and learns nothing else.
#[tokio::test]
async fn a_caller_who_may_not_give_a_role_is_asked_for_no_proof() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let tenant = place.tenant(&ann).await;
        let bob = place.member_of(&tenant, "bob@example.com").await;
        let (bobs, eves) =
            (place.site.login("bob@example.com", PASSWORD).await, place.site.signed_in("eve@example.com").await);
        place.site.advance(5 * 60);
        let members = format!("/auth/tenants/{tenant}/members");
        for (session, status) in [(&bobs, 403), (&eves, 404)] {
            let invite = Call::post(&members).json(&json!({ "email": "x@example.com", "roles": ["owner"] }));
            let raise = Call::new(Method::PATCH, &format!("{members}/{bob}")).json(&json!({ "roles": ["owner"] }));
            for call in [invite, raise] {
                let refused = call.cookie_of(session).send(&place.site).await.expect(status);
                assert_ne!(refused.json()["code"], "session_too_old", "{}", db.name);
            }
        }
    }
}

#[tokio::test]
async fn an_account_without_a_password_signs_in_again_for_an_api_token() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let (old, _) = place.passwordless(ANN).await;
        place.site.advance(5 * 60);
        let call =
            |by: &Answer| Call::post("/auth/tokens").json(&json!({ "name": "CI", "password": "x" })).cookie_of(by);
        assert_eq!(call(&old).send(&place.site).await.expect(403).json()["code"], "session_too_old");
        let (young, _) = place.passwordless(ANN).await;
        call(&young).send(&place.site).await.expect(200);
    }
}

#[tokio::test]
async fn the_account_page_asks_an_old_session_for_the_password() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let old = place.site.signed_in(ANN).await;
        let id = place.site.auth.accounts().find(ANN).await.unwrap().id;
        let passkey = place.passkey(&id).await;
        place.link(&id).await;
        let page = async || place.site.account(&old.cookie().unwrap()).await;
        assert!(!page().await.contains("token-password"));
        place.site.advance(5 * 60);
        let shown = page().await;
        for field in ["token-password", "unlink-alpha-password", &format!("passkey-{passkey}-password")] {
            assert!(shown.contains(field), "{field}, {}", db.name);
        }
        let token = |password: &'static str| {
            let fields = [("name", "CI"), ("scopes", "*:*"), ("ttl_seconds", "0"), ("password", password)];
            Call::post("/account/tokens").form(&fields).cookie_of(&old).send(&place.site)
        };
        assert!(token("").await.expect(403).body.contains("role=\"alert\""));
        token(WRONG).await.expect(401);
        assert!(token(PASSWORD).await.expect(200).body.contains("svc_"));
        for path in [format!("/account/passkeys/{passkey}/remove"), "/account/providers/alpha/unlink".to_owned()] {
            let remove = |fields: &'static [(&'static str, &'static str)]| {
                Call::post(&path).form(fields).cookie_of(&old).send(&place.site)
            };
            remove(&[]).await.expect(403);
            remove(&[("password", PASSWORD)]).await.expect(303);
        }
    }
}

/// An account with a token, a passkey, a link and a sent invitation, and the token of a mail for a new password.
async fn with_others(place: &Place, email: &str) -> (String, String) {
    let (ann, id) = place.passwordless(email).await;
    place.passkey(&id).await;
    place.link(&id).await;
    place.invited(&ann, "eve@example.com").await;
    place.kinds().await;
    let token = Call::post("/auth/tokens").json(&json!({ "name": "CI" })).cookie_of(&ann);
    let token = token.send(&place.site).await.expect(200).token();
    (token, place.asked("/auth/forgot-password", email).await)
}

#[tokio::test]
async fn a_reset_lists_what_stays_and_ends_it_unless_the_box_is_not_ticked() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let reset = |body: Value| Call::post("/auth/reset-password").json(&body).send(&place.site);
        let works =
            async |token: &str| Call::get("/whoami").bearer(token).send(&place.site).await.body != "\"anonymous\"";
        let kinds = json!(["apiTokens", "passkeys", "providerLinks", "sentInvitations"]);

        let (api, mailed) = with_others(&place, "one@example.com").await;
        let shown = Call::get(&format!("/reset-password?token={mailed}")).send(&place.site).await.expect(200).body;
        for part in ["CI", "Phone", "alpha", "eve@example.com", "name=\"end_others\"", "checked"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let done = reset(json!({ "token": mailed, "password": PASSWORD })).await.expect(200).json();
        let mut ended = done["ended"].as_array().unwrap().clone();
        ended.sort_by_key(ToString::to_string);
        assert_eq!((Value::from(ended), done.get("kept")), (kinds, None), "{}", db.name);
        assert!(!works(&api).await);
        let session = place.site.login("one@example.com", PASSWORD).await.expect(200);
        for (path, list) in [("/auth/passkeys", "passkeys"), ("/auth/accounts", "accounts"), ("/auth/tokens", "tokens")]
        {
            let listed = Call::get(path).cookie_of(&session).send(&place.site).await.expect(200).json();
            assert_eq!(listed[list], json!([]), "{path}, {}", db.name);
        }

        let (api, mailed) = with_others(&place, "two@example.com").await;
        let done = reset(json!({ "token": mailed, "password": PASSWORD, "endOthers": false })).await.expect(200).json();
        let kept = json!({ "apiTokens": 1, "passkeys": 1, "providerLinks": 1, "sentInvitations": 1 });
        assert_eq!((done.get("ended"), &done["kept"]), (None, &kept), "{}", db.name);
        assert!(works(&api).await);

        for (ticked, expected) in [(false, true), (true, false)] {
            let (api, mailed) = with_others(&place, &format!("form-{ticked}@example.com")).await;
            let mut fields = vec![("token", &*mailed), ("password", PASSWORD), ("others", "asked")];
            fields.extend(ticked.then_some(("end_others", "true")));
            Call::post("/auth/reset-password").form(&fields).send(&place.site).await.expect(200);
            assert_eq!(works(&api).await, expected, "ticked: {ticked}, {}", db.name);
        }
    }
}

#[tokio::test]
async fn the_consent_page_asks_an_old_session_for_the_password() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let program = place.program().await;
        let old = place.site.signed_in(ANN).await;
        let id = place.site.auth.accounts().find(ANN).await.unwrap().id;
        set_proven(&db.db, ANN, true).await;
        let page =
            async || Call::get(&Place::authorize(&program)).cookie_of(&old).send(&place.site).await.expect(200).body;
        let allow =
            async |fields: &[(&str, &str)]| place.consenting(&old, &program, fields).await.send(&place.site).await;
        let clients = place.site.auth.oauth2_clients().unwrap();
        assert!(!page().await.contains("consent-password"));
        place.site.advance(5 * 60);
        assert!(page().await.contains("consent-password"), "{}", db.name);
        let refused = allow(&[]).await.expect(403);
        assert!(refused.body.contains("role=\"alert\"") && refused.location().is_none(), "{}", refused.body);
        allow(&[("password", WRONG)]).await.expect(401);
        assert!(clients.connections(&id).await.unwrap().is_empty(), "{}", db.name);
        let allowed = allow(&[("password", PASSWORD)]).await.expect(303);
        assert!(allowed.location().unwrap().starts_with("https://reader.example/callback?code="), "{allowed:?}");
        assert_eq!(clients.connections(&id).await.unwrap().len(), 1);
        assert!(page().await.contains("consent-password"), "a consent from before is asked again");
        assert_eq!(place.kinds().await, [MailKind::ProgramConnected], "{}", db.name);
    }
}

/// The attack: a thief of a session guesses the password at the consent page.
#[tokio::test]
async fn wrong_passwords_at_the_consent_page_are_counted() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let program = place.program().await;
        let stolen = place.site.signed_in(ANN).await;
        let id = place.site.auth.accounts().find(ANN).await.unwrap().id;
        place.site.advance(5 * 60);
        let allow = async |password: &str| {
            let call = place.consenting(&stolen, &program, &[("password", password)]).await;
            call.send(&place.site).await.status.as_u16()
        };
        for _ in 0..10 {
            assert_eq!(allow(WRONG).await, 401, "{}", db.name);
        }
        assert_eq!((allow(WRONG).await, allow(PASSWORD).await), (429, 429), "{}", db.name);
        let clients = place.site.auth.oauth2_clients().unwrap();
        assert!(clients.connections(&id).await.unwrap().is_empty(), "{}", db.name);
    }
}

#[tokio::test]
async fn a_linked_provider_is_told_by_mail_to_a_proven_mailbox() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let link = async |by: &Answer, identity: &str| {
            place.returning("/auth/oauth/alpha/link", Some(by), identity).await.send(&place.site).await.expect(303);
        };
        let ann = place.site.signed_in(ANN).await;
        link(&ann, "one@alpha.example").await;
        assert_eq!(place.kinds().await, [], "the mailbox may be another person's");
        set_proven(&db.db, ANN, true).await;
        link(&ann, "two@alpha.example").await;
        link(&ann, "two@alpha.example").await;
        assert_eq!(place.kinds().await, [MailKind::ProviderLinked], "{}", db.name);

        // A sign-in at a provider links an account with the same proven address.
        place.passwordless("bob@example.com").await;
        place.returning("/auth/oauth/alpha", None, "bob@example.com").await.send(&place.site).await.expect(303);
        assert_eq!(place.kinds().await[1..], [MailKind::MagicLink, MailKind::ProviderLinked], "{}", db.name);
    }
}
