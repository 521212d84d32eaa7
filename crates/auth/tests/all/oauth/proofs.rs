//! Every proof of a mailbox, against every state of the account.

use std::sync::Arc;
use std::time::Duration;

use gatewright_auth::AuthConfig;
use gatewright_auth::plugins::email_verification::EmailVerificationPlugin;
use gatewright_auth::plugins::password_reset::PasswordResetPlugin;
use gatewright_auth::plugins::tokens::TokensPlugin;
use gatewright_db::testing::TestDb;
use gatewright_db::{Db, params};
use gatewright_limits::Policy;
use serde_json::json;

use super::{Place, identity, session, with_public_url};
use crate::support::{Answer, Call, Factor, FakeFactor, PASSWORD, databases, limit_by_address};

/// What an account has before the proof.
#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Registered,
    RegisteredAndProven,
    ByProvider,
    ByProviderAndProven,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Proof {
    MagicLink,
    Reset,
    OpenedInOwnSession,
    PostedInOwnSession,
    PostedWithoutSession,
    PostedInSessionOfAnother,
    Provider,
    /// None at all: a mail scanner's GET.
    Scan,
}

/// What has become of the credentials.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    /// All are gone, and the mailbox is proven.
    Claimed,
    /// All are there, and the mailbox is proven now.
    Recorded,
    /// A new password ended the old one, sessions and JWTs, and nothing else.
    NewPassword,
    /// All are there, and the mailbox is as proven as before.
    Unchanged,
}

fn expected(state: State, proof: Proof) -> Outcome {
    let has_password = matches!(state, State::Registered | State::RegisteredAndProven);
    match (state, proof) {
        // 409: only its owner may link a provider to an account with a password.
        (_, Proof::Provider) if has_password => Outcome::Unchanged,
        (State::RegisteredAndProven | State::ByProviderAndProven, Proof::Reset) => Outcome::NewPassword,
        (_, Proof::Scan) | (State::RegisteredAndProven | State::ByProviderAndProven, _) => Outcome::Unchanged,
        (_, Proof::OpenedInOwnSession | Proof::PostedInOwnSession) => Outcome::Recorded,
        (State::Registered | State::ByProvider, _) => Outcome::Claimed,
    }
}

const STATES: [State; 4] =
    [State::Registered, State::RegisteredAndProven, State::ByProvider, State::ByProviderAndProven];
const PROOFS: [Proof; 8] = [
    Proof::MagicLink,
    Proof::Reset,
    Proof::OpenedInOwnSession,
    Proof::PostedInOwnSession,
    Proof::PostedWithoutSession,
    Proof::PostedInSessionOfAnother,
    Proof::Provider,
    Proof::Scan,
];

#[tokio::test]
async fn every_proof_of_a_mailbox_against_every_state_of_the_account() {
    for database in databases().await {
        let (place, factor) = place(&database).await;
        let another = place.site.register("another@example.com").await;
        assert!(another.cookie().is_none());
        let another = place.site.login("another@example.com", PASSWORD).await.cookie().unwrap();
        for (index, (state, proof)) in STATES.into_iter().flat_map(|s| PROOFS.map(|p| (s, p))).enumerate() {
            let case =
                Case { place: &place, db: &database.db, factor: &factor, email: format!("u{index}@example.com") };
            let before = case.set_up(state).await;
            place.site.advance(1);
            case.prove(proof, &before, &another).await;
            place.site.advance(1);
            let outcome = case.outcome(state, &before).await;
            assert_eq!(outcome, expected(state, proof), "{}: {state:?}, {proof:?}", database.name);
        }
    }
}

async fn place(database: &TestDb) -> (Place, FakeFactor) {
    let factor = FakeFactor::default();
    let mut config: AuthConfig = with_public_url();
    let many = Policy::new(100_000, Duration::ZERO, Duration::ZERO);
    limit_by_address(&mut config.limits, many);
    let place = Place::with(config, |builder| {
        let builder = builder.plugin(EmailVerificationPlugin::new()).plugin(PasswordResetPlugin::new());
        let builder = builder.plugin(TokensPlugin::new()).second_factor(Arc::new(factor.clone()));
        builder.database(database.db.clone())
    });
    (place.await, factor)
}

struct Case<'a> {
    place: &'a Place,
    db: &'a Db,
    factor: &'a FakeFactor,
    email: String,
}

/// The credentials of an account.
struct Before {
    session: String,
    jwt: Option<String>,
    api_token: String,
    verification: String,
    verified: bool,
}

impl Case<'_> {
    /// An account with a session, an API token, a provider link and a second factor.
    async fn set_up(&self, state: State) -> Before {
        let site = &self.place.site;
        self.factor.set(Factor::Absent);
        let own = identity(&format!("own {}", self.email), Some(&self.email), false);
        let (session, jwt) = match state {
            State::Registered | State::RegisteredAndProven => {
                let jwt = site.register(&self.email).await.token();
                let session = site.login(&self.email, PASSWORD).await.expect(200).cookie().unwrap();
                self.place.link(&session, &own).await.expect(303);
                (session, Some(jwt))
            }
            State::ByProvider | State::ByProviderAndProven => {
                (session(&self.place.sign_in(&own).await.expect(303)).unwrap(), None)
            }
        };
        if matches!(state, State::RegisteredAndProven | State::ByProviderAndProven) {
            let token = self.verification(&session).await;
            let open = Call::get(&format!("/auth/verify-email?token={token}")).cookie(&session);
            assert_eq!(open.send(site).await.expect(200).json(), json!({ "verified": true }));
        }
        let issue = Call::post("/auth/tokens").json(&json!({ "name": "CI" })).cookie(&session);
        let api_token = issue.send(site).await.expect(200).token();
        let verification = self.verification(&session).await;
        let verified = self.is_verified().await;
        self.factor.set(Factor::Enrolled);
        Before { session, jwt, api_token, verification, verified }
    }

    async fn prove(&self, proof: Proof, before: &Before, another: &str) {
        let site = &self.place.site;
        let body = json!({ "token": before.verification });
        let post = || Call::post("/auth/verify-email").json(&body);
        let open = || Call::get(&format!("/auth/verify-email?token={}", before.verification));
        match proof {
            Proof::MagicLink => {
                let token = self.mailed("/auth/magic-link/send").await;
                let redeem = Call::post("/auth/magic-link/verify").json(&json!({ "token": token }));
                redeem.send(site).await.expect(200);
            }
            Proof::Reset => {
                let token = self.mailed("/auth/forgot-password").await;
                let reset = json!({ "token": token, "password": "a wholly new password" });
                Call::post("/auth/reset-password").json(&reset).send(site).await.expect(200);
            }
            Proof::OpenedInOwnSession => verified(&open().cookie(&before.session).send(site).await),
            Proof::PostedInOwnSession => verified(&post().cookie(&before.session).send(site).await),
            Proof::PostedWithoutSession => verified(&post().send(site).await),
            Proof::PostedInSessionOfAnother => verified(&post().cookie(another).send(site).await),
            Proof::Provider => {
                let begun = self.place.begin("/auth/oauth/beta", "").await;
                let theirs = identity(&format!("theirs {}", self.email), Some(&self.email), true);
                let answer = self.place.back("beta", &begun, &self.place.beta.code(&theirs), "").await;
                assert!([303, 409].contains(&answer.status.as_u16()), "{answer:?}");
            }
            Proof::Scan => {
                let scanned = open().send(site).await.expect(200);
                assert_eq!(scanned.json(), json!({ "verified": false, "confirm": "POST" }));
            }
        }
    }

    async fn outcome(&self, state: State, before: &Before) -> Outcome {
        let site = &self.place.site;
        let enrolled = self.factor.is_enrolled();
        self.factor.set(Factor::Absent);
        let session = self.place.me(&before.session).await.status == 200;
        let bearer = async |token: &str| Call::get("/whoami").bearer(token).send(site).await.json() != "anonymous";
        let api_token = bearer(&before.api_token).await;
        let jwt = match &before.jwt {
            Some(jwt) => bearer(jwt).await,
            None => session,
        };
        let password = match state {
            State::Registered | State::RegisteredAndProven => site.login(&self.email, PASSWORD).await.status == 200,
            State::ByProvider | State::ByProviderAndProven => session,
        };
        let links = "SELECT COUNT(*) AS n FROM users_oauth_links WHERE provider_id = ?1";
        let rows = self.db.query(links, params![format!("own {}", self.email)]).await.unwrap();
        let link = rows[0].get::<i64>("n").unwrap() == 1;
        let verified = self.is_verified().await;
        match (password, session, jwt, api_token, link, enrolled) {
            (false, false, false, false, false, false) if verified => Outcome::Claimed,
            (false, false, false, false, false, true) if verified => Outcome::NewPassword,
            (true, true, true, true, true, true) if verified == before.verified => Outcome::Unchanged,
            (true, true, true, true, true, true) if verified => Outcome::Recorded,
            mixed => panic!("{state:?}: {mixed:?}, verified {verified}"),
        }
    }

    async fn is_verified(&self) -> bool {
        let sql = "SELECT email_verified FROM users WHERE email = ?1";
        let rows = self.db.query(sql, params![self.email.as_str()]).await.unwrap();
        rows[0].get::<bool>("email_verified").unwrap()
    }

    async fn verification(&self, session: &str) -> String {
        let send = Call::post("/auth/send-verification").json(&json!({})).cookie(session);
        send.send(&self.place.site).await.expect(200);
        self.latest().await
    }

    async fn mailed(&self, path: &str) -> String {
        Call::post(path).json(&json!({ "email": self.email })).send(&self.place.site).await.expect(200);
        self.latest().await
    }

    async fn latest(&self) -> String {
        self.place.site.auth.settle(Duration::from_secs(10)).await;
        let mail = self.place.post.mails.lock().last().cloned().expect("a mail was sent");
        assert_eq!(mail.to.as_str(), self.email);
        mail.link.expose().split_once("token=").unwrap().1.to_owned()
    }
}

fn verified(answer: &Answer) {
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({ "verified": true })));
}
