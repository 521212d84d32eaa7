//! Linked providers on `/account`.

use std::sync::Arc;

use gatewright_auth::plugins::profile::{InputKind, ProfileFields, ProfileInput, ProfilePlugin};
use gatewright_http::Problem;
use serde_json::{Map, Value};

use super::{Place, identity, session, with_public_url};
use crate::support::{ANN, Answer, Call, databases};

async fn page(place: &Place, cookie: &str) -> String {
    place.site.account(cookie).await
}

/// Submits the form of the page.
async fn unlink(place: &Place, cookie: &str, provider: &str) -> Answer {
    let path = format!("/account/providers/{provider}/unlink");
    Call::post(&path).cookie(cookie).form(&[]).send(&place.site).await
}

#[tokio::test]
async fn people_see_link_and_unlink_their_providers() {
    for database in databases().await {
        let mut place = Place::on(&database.db).await;
        place.site = place.site.and_screens();
        let ann = place.ann().await;
        let body = page(&place, &ann).await;
        for provider in ["alpha", "beta"] {
            assert!(body.contains(&format!("href=\"/auth/oauth/{provider}/link\"")), "{body}");
        }
        let mut hostile = identity("1", Some(ANN), true);
        hostile.name = Some("<script>alert(1)</script>".into());
        place.link(&ann, &hostile).await.expect(303);
        let body = page(&place, &ann).await;
        assert!(body.contains("action=\"/account/providers/alpha/unlink\""), "{body}");
        assert!(!body.contains("/auth/oauth/alpha/link") && body.contains("/auth/oauth/beta/link"), "{body}");
        assert!(!body.contains("<script>alert") && body.contains("&lt;script&gt;"), "{body}");
        let done = unlink(&place, &ann, "alpha").await.expect(303);
        assert_eq!(done.location(), Some("/account/sign-in?done=unlinked#providers"));
        assert!(place.accounts(&ann).await.is_empty());
        let again = unlink(&place, &ann, "alpha").await.expect(303);
        assert_eq!(again.location(), Some("/account/sign-in?done=not-linked#providers"));
    }
}

#[tokio::test]
async fn the_last_sign_in_method_stays_and_the_page_explains_it() {
    for database in databases().await {
        let mut place = Place::on(&database.db).await;
        place.site = place.site.and_screens();
        let ann = session(&place.sign_in(&identity("1", Some(ANN), true)).await).unwrap();
        let refused = unlink(&place, &ann, "alpha").await.expect(409);
        assert!(refused.body.contains("the last way to sign in"), "{}", refused.body);
        assert_eq!(place.accounts(&ann).await.len(), 1);
    }
}

#[tokio::test]
async fn strangers_and_other_sites_unlink_nothing() {
    for database in databases().await {
        let mut place = Place::on(&database.db).await;
        place.site = place.site.and_screens();
        let ann = place.ann().await;
        place.link(&ann, &identity("1", Some(ANN), true)).await.expect(303);
        let anonymous = Call::post("/account/providers/alpha/unlink").form(&[]).send(&place.site).await.expect(303);
        assert_eq!(anonymous.location(), Some("/login?next=%2Faccount%2Fsign-in"));
        let forged = Call::post("/account/providers/alpha/unlink").cookie(&ann).form(&[]);
        forged.header("origin", "https://evil.example.com").send(&place.site).await.expect(403);
        assert_eq!(place.accounts(&ann).await.len(), 1);
    }
}

/// Profiles with one required field.
struct Name;

impl ProfileFields for Name {
    fn merge(&self, _: Option<&str>, body: &[u8], _: bool) -> Result<String, Problem> {
        let body: Value = serde_json::from_slice(body).map_err(|_| Problem::bad_request("no JSON"))?;
        match body["profile"]["name"].as_str().filter(|name| !name.is_empty()) {
            Some(name) => Ok(name.to_owned()),
            None => Err(Problem::invalid_field("name", "required", "is required")),
        }
    }

    fn missing(&self, stored: Option<&str>) -> Vec<String> {
        stored.is_none().then(|| "name".to_owned()).into_iter().collect()
    }

    fn shown(&self, stored: Option<&str>) -> Map<String, Value> {
        Map::from_iter([("name".to_owned(), stored.into())])
    }

    fn inputs(&self) -> Vec<ProfileInput> {
        let (key, label) = ("name".to_owned(), "Name".to_owned());
        vec![ProfileInput { key, label, required: true, kind: InputKind::Line { max: None } }]
    }
}

#[tokio::test]
async fn an_account_that_a_provider_creates_is_asked_for_required_fields_of_its_profile() {
    for database in databases().await {
        let mut place = Place::with(with_public_url(), |builder| {
            builder.database(database.db.clone()).plugin(ProfilePlugin::new(Arc::new(Name)))
        })
        .await;
        place.site = place.site.and_screens();
        let ann = identity("1", Some(ANN), true);
        let asked = place.sign_in_to("/here", &ann).await.expect(303);
        assert_eq!(asked.location(), Some("/complete-profile?next=%2Fhere"), "{}", database.name);
        // Until it is answered, each sign-in asks. The session is a whole one, so that nothing else waits for it.
        let again = place.sign_in_to("/here", &ann).await.expect(303);
        assert_eq!(again.location(), Some("/complete-profile?next=%2Fhere"));
        let cookie = session(&again).unwrap();
        let form = Call::post("/complete-profile").cookie(&cookie).form(&[("profile_name", "Ann"), ("next", "/here")]);
        assert_eq!(form.send(&place.site).await.expect(303).location(), Some("/here"));
        assert_eq!(place.sign_in_to("/here", &ann).await.expect(303).location(), Some("/here"));
        // A link to the account asks nothing.
        assert_eq!(place.sign_in(&ann).await.expect(303).location(), Some("/"));
    }
}
