//! Codes and states that somebody else has seen: in a history, a log, a `Referer` or by a redirect.

use gatewright_auth::AuthConfig;
use gatewright_db::Db;

use super::{Begun, NOT_HERE, Place, identity, session, with_public_url};
use crate::support::{ANN, Answer, Call, PASSWORD, databases};

/// A site by HTTPS, and one in dev mode.
async fn places(db: &Db) -> [Place; 2] {
    let dev = AuthConfig { dev_mode: true, ..with_public_url() };
    let dev = Place::with(dev, |builder| builder.database(db.clone())).await;
    [Place::on(db).await, dev]
}

async fn callback(place: &Place, code: &str, state: &str, cookies: &str) -> Answer {
    let path = format!("/auth/oauth/alpha/callback?code={code}&state={state}");
    Call::get(&path).cookie(cookies).send(&place.site).await
}

/// The two cookies of a flow: the state and the binding.
fn halves(begun: &Begun) -> (&str, &str) {
    begun.cookie.split_once("; ").unwrap()
}

/// The attack of RFC 9700, section 4.5: Eve puts Ann's code into a flow of her own.
#[tokio::test]
async fn a_stolen_code_works_in_no_other_browsers_flow() {
    for database in databases().await {
        for place in places(&database.db).await {
            let ann = identity("1", Some("ann.by.provider@example.com"), true);
            let anns = place.begin("/auth/oauth/alpha", "").await;
            let eves = place.begin("/auth/oauth/alpha", "").await;
            assert_ne!(anns.parameter("code_challenge"), eves.parameter("code_challenge"));

            // With her own state, which is valid in her browser.
            let code = place.alpha.code_of(&anns, &ann);
            let refused = callback(&place, &code, &eves.state, &eves.cookie).await.expect(400);
            assert_eq!((refused.json()["code"].as_str(), session(&refused)), (Some("provider_error"), None));

            // With Ann's state, which was beside the code in the address, and every cookie that Eve can make of it.
            let (anns_state, _) = halves(&anns);
            let (_, eves_binding) = halves(&eves);
            let name = eves_binding.split('=').next().unwrap();
            for cookies in [
                anns_state.to_owned(),
                format!("{anns_state}; {eves_binding}"),
                format!("{anns_state}; {name}={}", anns.state),
                format!("{anns_state}; {name}={}", anns.parameter("code_challenge")),
            ] {
                let code = place.alpha.code_of(&anns, &ann);
                let refused = callback(&place, &code, &anns.state, &cookies).await.expect(400);
                assert_eq!((&*refused.detail(), session(&refused)), (NOT_HERE, None), "{cookies}");
                assert!(place.alpha.codes.lock().contains_key(&code), "the code was not even sent");
            }
            // Ann's own browser finishes.
            let code = place.alpha.code_of(&anns, &ann);
            callback(&place, &code, &anns.state, &anns.cookie).await.expect(303);
        }
    }
}

#[tokio::test]
async fn a_stolen_code_links_nothing_to_another_account() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let ann = place.ann().await;
        place.site.register("eve@example.com").await;
        let eve = place.site.login("eve@example.com", PASSWORD).await.cookie().unwrap();
        let anns = place.begin("/auth/oauth/alpha/link", &ann).await;
        let eves = place.begin("/auth/oauth/alpha/link", &eve).await;
        let code = place.alpha.code_of(&anns, &identity("1", Some(ANN), true));
        callback(&place, &code, &eves.state, &format!("{}; {eve}", eves.cookie)).await.expect(400);
        assert!(place.accounts(&eve).await.is_empty());
        let code = place.alpha.code_of(&anns, &identity("1", Some(ANN), true));
        callback(&place, &code, &anns.state, &format!("{}; {ann}", anns.cookie)).await.expect(303);
        assert_eq!(place.accounts(&ann).await.len(), 1);
    }
}

/// A finished flow has no cookies. A browser that kept them can only exchange codes of that very flow.
#[tokio::test]
async fn a_state_that_is_used_again_exchanges_no_other_code() {
    for database in databases().await {
        for place in places(&database.db).await {
            let ann = identity("1", Some("ann.by.provider@example.com"), true);
            let begun = place.begin("/auth/oauth/alpha", "").await;
            let first = place.alpha.code_of(&begun, &ann);
            callback(&place, &first, &begun.state, &begun.cookie).await.expect(303);
            let again = callback(&place, &first, &begun.state, "").await.expect(400);
            assert_eq!(again.detail(), NOT_HERE);
            let other = place.begin("/auth/oauth/alpha", "").await;
            for code in [first, place.alpha.code_of(&other, &ann)] {
                let refused = callback(&place, &code, &begun.state, &begun.cookie).await.expect(400);
                assert_eq!((refused.json()["code"].as_str(), session(&refused)), (Some("provider_error"), None));
            }
        }
    }
}

/// A program's own provider cannot forget the challenge.
#[tokio::test]
async fn a_redirect_without_the_challenge_is_refused() {
    for database in databases().await {
        for forgotten in ["code_challenge", "code_challenge_method"] {
            let place = Place::on(&database.db).await;
            let ann = place.site.signed_in(&format!("{forgotten}@example.com")).await.cookie().unwrap();
            place.begin("/auth/oauth/alpha/link", &ann).await;
            *place.alpha.forgets.lock() = forgotten;
            for path in ["/auth/oauth/alpha", "/auth/oauth/alpha/link"] {
                let refused = Call::get(path).cookie(&ann).send(&place.site).await.expect(500);
                assert!(refused.location().is_none(), "{path} without {forgotten}");
            }
        }
    }
}
