//! Names that people choose, at every door of this crate that takes one.

use gatewright_auth::plugins::authorization_server::{ClientError, ClientPurpose, RelyingParty};
use gatewright_auth::service_accounts::ServiceAccountError;
use gatewright_auth::tokens::TokenDraft;
use gatewright_base::{Roles, ServiceId};
use http::Method;
use serde_json::json;

use crate::cut::Place;
use crate::passkeys::Authenticator;
use crate::support::{ANN, Call, databases};

/// Reordered, without width, invisible, blank.
const BAD: [&str; 9] = [
    "\u{202e}knaB",
    "Bank\u{200b}",
    "Ba\u{2066}nk",
    "Bank\u{fe0f}",
    "\u{feff}",
    "\u{2800}",
    "\u{3164}",
    "\u{a0}\u{2003}",
    "Ba\u{ad}nk",
];

#[tokio::test]
async fn no_door_takes_a_name_that_a_reader_cannot_see() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let id = place.site.auth.accounts().find(ANN).await.unwrap().id;
        let passkey = format!("/auth/passkeys/{}", place.passkey(&id).await);
        let doors = [(Method::POST, "/auth/tokens"), (Method::POST, "/auth/tenants"), (Method::PATCH, &*passkey)];
        let services = place.site.auth.service_accounts().unwrap();
        let programs = place.site.auth.oauth2_clients().unwrap();
        let callback = "https://reader.example/callback";
        for name in BAD {
            for (method, path) in &doors {
                let call = Call::new(method.clone(), path).json(&json!({ "name": name })).cookie_of(&ann);
                call.send(&place.site).await.expect(422);
            }
            let form = Call::post("/account/tokens").form(&[("name", name)]).cookie_of(&ann);
            form.send(&place.site).await.expect(422);
            assert!(TokenDraft::parse(name, &[""; 0], 0).is_err(), "{name:?}");
            let made = services.create(name, Roles::default()).await;
            assert!(matches!(made, Err(ServiceAccountError::Name(_))), "{name:?}");
            let mut authenticator = Authenticator::new("one");
            place.adding(&ann, &mut authenticator, Some(name)).await.send(&place.site).await.expect(422);
            // Metadata documents are read by the same function as registrations, and a test beside it shows that.
            let body = json!({ "client_name": name, "redirect_uris": [callback] });
            let registered = Call::post("/auth/oauth2/register").json(&body).send(&place.site).await.expect(400);
            assert_eq!(registered.json()["error"], "invalid_client_metadata", "{name:?}");
            let redirect_uris = vec![callback.to_owned()];
            let users = ClientPurpose::Users {
                redirect_uris,
                scopes: None,
                confidential: false,
                relying_party: RelyingParty::default(),
            };
            let scopes = ["notes:read"].iter().map(|scope| scope.parse().unwrap()).collect();
            let account = ServiceId::parse("robot").unwrap();
            for purpose in [users, ClientPurpose::Service { account, scopes }] {
                assert!(matches!(programs.create(name, purpose).await, Err(ClientError::Name(_))), "{name:?}");
            }
        }
    }
}

#[tokio::test]
async fn the_account_page_isolates_names() {
    for db in databases().await {
        let place = Place::on(&db).await;
        let ann = place.site.signed_in(ANN).await;
        let name = "\u{5d1}\u{5e0}\u{5e7}!";
        Call::post("/auth/tokens").json(&json!({ "name": name })).cookie_of(&ann).send(&place.site).await.expect(200);
        let page = place.site.account(&ann.cookie().unwrap()).await;
        assert!(page.contains(&format!("<bdi>{name}</bdi>")), "{}", db.name);
        assert!(page.contains(&format!("\u{2068}{name}\u{2069}")), "in the label of its button, {}", db.name);
    }
}
