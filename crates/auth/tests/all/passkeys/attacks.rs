use futures_util::future::join_all;
use gatewright_auth::audit::AuditKind;
use http::Method;
use serde_json::{Value, json};

use super::authenticator::{Authenticator, Lies};
use super::{Place, password};
use crate::support::{ANN, Call, Factor, PASSWORD, WRONG, databases};

/// Every false statement of an authenticator or a browser is refused with the same text.
#[tokio::test]
async fn an_assertion_with_any_wrong_part_is_refused() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let mut phone = place.added(&ann, &password(), "phone").await;
        let mut others = place.added(&place.site.signed_in("eve@example.com").await, &password(), "eves").await;
        let truth = Lies::default;
        let foreign = place.ask().await.json()["challenge"].as_str().unwrap().to_owned();
        let lies = [
            ("origin", Lies { origin: "https://evil.example", ..truth() }),
            ("a sibling's origin", Lies { origin: "https://www.example.com", ..truth() }),
            ("plain http", Lies { origin: "http://app.example.com", ..truth() }),
            ("a frame", Lies { cross_origin: true, ..truth() }),
            ("relying party", Lies { rp_id: "example.com", ..truth() }),
            ("no verification", Lies { flags: 0x01, ..truth() }),
            ("nobody present", Lies { flags: 0x04, ..truth() }),
            ("synced, but not to be synced", Lies { flags: 0x15, ..truth() }),
            ("a registration", Lies { kind: Some("webauthn.create"), ..truth() }),
            ("another browser's challenge", Lies { challenge: Some(foreign), ..truth() }),
            ("a challenge of its own", Lies { challenge: Some("AAAA".to_owned()), ..truth() }),
            ("another handle", Lies { handle: Some("AAAA".to_owned()), ..truth() }),
            ("a signature of zeros", Lies { signature: Some(vec![0; 70]), ..truth() }),
            ("no signature", Lies { signature: Some(Vec::new()), ..truth() }),
        ];
        let mut bodies = std::collections::BTreeSet::new();
        for (case, lies) in lies {
            phone.lies = lies;
            let answer = place.sign_in(&mut phone).await;
            assert_eq!(answer.status.as_u16(), 401, "{case}: {answer:?}");
            assert_eq!(answer.cookie(), None, "{case}");
            bodies.insert(answer.body);
        }
        phone.lies = truth();
        // A passkey that nobody has, one's id with another's key, and no cookie at all.
        let stranger = place.sign_in(&mut Authenticator::new("stranger")).await.expect(401);
        let mut forged = Authenticator::new("phone");
        forged.counter = 100;
        let forged = place.sign_in(&mut forged).await.expect(401);
        bodies.extend([stranger.body, forged.body]);
        assert_eq!(bodies.len(), 1, "{bodies:?}");
        let options = place.ask().await;
        let credential = others.get(&options.json());
        Call::post("/auth/passkeys/login").json(&credential).send(&place.site).await.expect(401);
        let other_browser = place.ask().await;
        place.answer(&other_browser, &credential).await.expect(401);
        assert!(place.site.audited().contains(&AuditKind::LoginFailed));
        place.sign_in(&mut phone).await.expect(200);
    }
}

#[tokio::test]
async fn a_challenge_works_once_and_expires_after_five_minutes() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let mut phone = place.added(&ann, &password(), "phone").await;
        // Without a counter, only the challenge prevents a replay.
        let options = place.ask().await;
        let credential = phone.get(&options.json());
        let answers = join_all((0..20).map(|_| place.answer(&options, &credential))).await;
        let won = answers.iter().filter(|answer| answer.status.as_u16() == 200).count();
        assert_eq!(won, 1, "{}", db.name);
        place.answer(&options, &credential).await;
        let options = place.ask().await;
        let credential = phone.get(&options.json());
        place.site.advance(300);
        place.answer(&options, &credential).await.expect(401);
        // So for a registration.
        let ann = place.site.login(ANN, PASSWORD).await.expect(200);
        let options = place.options(&ann, &password()).await.expect(200);
        let credential = Authenticator::new("tablet").create(&options.json());
        let answers = join_all((0..20).map(|_| place.register(&ann, &options, &credential))).await;
        assert_eq!(answers.iter().filter(|answer| answer.status.as_u16() == 201).count(), 1);
        assert_eq!(place.passkeys(&ann).await.len(), 2);
    }
}

#[tokio::test]
async fn a_signature_counter_that_does_not_rise_is_refused() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let mut key = place.added(&ann, &password(), "key").await;
        key.counter = 9;
        place.sign_in(&mut key).await.expect(200);
        key.counter = 4;
        place.sign_in(&mut key).await.expect(401);
        key.counter = 9;
        place.sign_in(&mut key).await.expect(401);
        key.counter = 10;
        place.sign_in(&mut key).await.expect(200);
    }
}

/// A thief with a stolen session has no password, no code and no recent session.
#[tokio::test]
async fn a_stolen_session_adds_no_passkey() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        place.options(&ann, &json!({})).await.expect(422);
        place.options(&ann, &json!({ "password": WRONG })).await.expect(401);
        place.options(&ann, &json!({ "pasword": PASSWORD })).await.expect(422);
        let bob = place.passwordless("bob@example.com").await;
        place.options(&bob, &json!({})).await.expect(200);
        place.site.advance(300);
        let late = place.options(&bob, &json!({ "password": PASSWORD })).await.expect(403);
        assert_eq!(late.json()["code"], "session_too_old");
        // With a second factor a code is required too, and this session has not proven it.
        place.factor.set(Factor::Enrolled);
        place.options(&ann, &password()).await.expect(403);
        place.factor.set(Factor::Absent);
        // JWTs are refused.
        let token = ann.token();
        let jwt = Call::post("/auth/passkeys/register/options").bearer(&token).json(&password());
        jwt.send(&place.site).await.expect(401);
    }
}

#[tokio::test]
async fn a_stolen_session_removes_no_passkey() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        place.added(&ann, &password(), "key").await;
        let path = format!("/auth/passkeys/{}", place.passkeys(&ann).await[0]["id"].as_str().unwrap());
        place.site.advance(300);
        let old = place.call(&ann, Method::DELETE, &path).await.expect(403);
        assert_eq!(old.json()["code"], "session_too_old");
        assert_eq!(place.passkeys(&ann).await.len(), 1);
        let fresh = place.site.login(ANN, PASSWORD).await;
        // With a second factor, the session must have proven it.
        place.factor.set(Factor::Enrolled);
        place.call(&fresh, Method::DELETE, &path).await.expect(403);
        place.factor.set(Factor::Absent);
        place.call(&fresh, Method::DELETE, &path).await.expect(204);
    }
}

/// A registration that one session begins cannot be finished by another, even of the same account.
#[tokio::test]
async fn a_registration_belongs_to_its_session() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let eve = place.site.signed_in("eve@example.com").await;
        let options = place.options(&eve, &password()).await.expect(200);
        let credential = Authenticator::new("eves").create(&options.json());
        place.register(&ann, &options, &credential).await.expect(422);
        assert!(place.passkeys(&ann).await.is_empty());
        place.register(&eve, &options, &credential).await.expect(201);
        // The same credential for somebody else.
        let options = place.options(&ann, &password()).await.expect(200);
        let credential = Authenticator::new("eves").create(&options.json());
        let taken = place.register(&ann, &options, &credential).await.expect(409);
        assert_eq!(taken.json()["code"], "passkey_registered");
        for lies in [
            Lies { origin: "https://evil.example", ..Lies::default() },
            Lies { rp_id: "evil.example", ..Lies::default() },
            Lies { flags: 0x01, ..Lies::default() },
            Lies { kind: Some("webauthn.get"), ..Lies::default() },
        ] {
            let options = place.options(&ann, &password()).await.expect(200);
            let mut authenticator = Authenticator::new("anns");
            authenticator.lies = lies;
            let credential = authenticator.create(&options.json());
            place.register(&ann, &options, &credential).await.expect(422);
        }
        assert!(place.passkeys(&ann).await.is_empty());
    }
}

/// Invalid bodies are a 400 or a 422, never a 500.
#[tokio::test]
async fn hostile_bodies_are_refused() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let deep = format!("{}{}", "[".repeat(5000), "]".repeat(5000));
        let huge_map = format!("{{\"rawId\":\"{}\"}}", "A".repeat(9000));
        for body in ["", "{}", "[]", "null", "\"x\"", "{\"rawId\":1}", &deep, &huge_map] {
            for path in ["/auth/passkeys/login", "/auth/passkeys/register"] {
                let call = Call::post(path).cookie_of(&ann).body("application/json", body);
                let status = call.send(&place.site).await.status.as_u16();
                assert!([400, 422].contains(&status), "{path} {status} {}", &body[..body.len().min(40)]);
            }
        }
        // An attestation of nested CBOR, and one that claims more bytes than there are.
        let options = place.options(&ann, &password()).await.expect(200);
        let good = Authenticator::new("x").create(&options.json());
        for object in [vec![0x81; 6000], vec![0xbb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], vec![0xa0], vec![]]
        {
            let mut credential = good.clone();
            let text = base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, &object);
            credential["response"]["attestationObject"] = Value::from(text);
            place.register(&ann, &options, &credential).await.expect(422);
        }
        place.call(&ann, Method::GET, "/auth/passkeys/login").await.expect(405);
    }
}
