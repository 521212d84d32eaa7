use axum::Extension;
use axum::response::IntoResponse;
use gatewright_auth::plugins::magic_link::MagicLinkPlugin;
use gatewright_auth::screens::CsrfField;

use super::{FORGOT, NEW_PASSWORD, Place, RESET, SEND, VERIFY, with_public_url};
use crate::support::{ANN, Call, databases};

#[tokio::test]
async fn the_screens_lead_from_a_forgotten_password_to_a_new_one() {
    for database in databases().await {
        let mut place = Place::on(&database.db).await;
        place.site = place.site.and_screens();
        place.site.register_ann().await;
        let login = Call::get("/login?next=/deep").send(&place.site).await.expect(200).body;
        assert!(login.contains("href=\"/forgot-password?next=%2Fdeep\""));
        assert!(login.contains("action=\"/auth/magic-link/send\""));
        let forgot = Call::get("/forgot-password").send(&place.site).await.expect(200).body;
        assert!(forgot.contains("action=\"/auth/forgot-password\""));
        let known = Call::post(FORGOT).form(&[("email", ANN)]).send(&place.site).await.expect(200).body;
        let unknown = Call::post(FORGOT).form(&[("email", "b@example.com")]).send(&place.site).await.expect(200).body;
        // The page repeats what was typed, and nothing else differs.
        assert_eq!(known.replace(ANN, "x"), unknown.replace("b@example.com", "x"));
        let token = place.token(gatewright_auth::MailKind::PasswordReset, ANN).await;
        let path = format!("/reset-password?token={token}");
        let form = Call::get(&path).send(&place.site).await.expect(200);
        assert!(form.body.contains(&token) && form.headers["cache-control"] == "no-store");
        let weak = Call::post(RESET).form(&[("token", &token), ("password", "short")]).send(&place.site).await;
        let weak = weak.expect(422).body;
        assert!(weak.contains("at least 8 characters") && weak.contains(&token));
        let done = Call::post(RESET).form(&[("token", &token), ("password", NEW_PASSWORD)]).send(&place.site).await;
        assert!(done.expect(200).body.contains("href=\"/login\""));
        place.site.login(ANN, NEW_PASSWORD).await.expect(200);
    }
}

#[tokio::test]
async fn the_page_of_an_invalid_link_offers_a_new_one() {
    for database in databases().await {
        let mut place = Place::on(&database.db).await;
        place.site = place.site.and_screens();
        place.site.register_ann().await;
        let token = place.reset_token(ANN).await;
        let path = format!("/reset-password?token={token}");
        Call::get(&path).send(&place.site).await.expect(200);
        place.reset(&token, NEW_PASSWORD).await.expect(200);
        for path in [path.as_str(), "/reset-password?token=nonsense", "/reset-password"] {
            let spent = Call::get(path).send(&place.site).await.expect(401).body;
            assert!(spent.contains("href=\"/forgot-password\"") && !spent.contains("name=\"password\""), "{spent}");
        }
        let again = Call::post(RESET).form(&[("token", &token), ("password", NEW_PASSWORD)]).send(&place.site).await;
        assert!(again.expect(401).body.contains("href=\"/forgot-password\""));
        let token = place.reset_token(ANN).await;
        place.site.advance(3601);
        let expired = Call::get(&format!("/reset-password?token={token}")).send(&place.site).await.expect(401).body;
        assert!(expired.contains("href=\"/forgot-password\""), "{expired}");
        let expired = Call::get(&format!("{VERIFY}?token={token}")).send(&place.site).await.expect(401).body;
        assert!(expired.contains("href=\"/login\""), "{expired}");
        let expired = Call::post(VERIFY).form(&[("token", &token)]).send(&place.site).await.expect(401).body;
        assert!(expired.contains("href=\"/login\""), "{expired}");
    }
}

#[tokio::test]
async fn user_input_is_escaped_and_forms_have_the_csrf_field() {
    for database in databases().await {
        let mut place = Place::on(&database.db).await;
        let email = "a&b'c@example.com";
        let token = place.magic_token(email).await;
        let path = format!("{VERIFY}?token={token}");
        let plain = Call::get(&path).send(&place.site).await.expect(200).body;
        assert!(plain.contains("a&amp;b&#39;c@example.com") && !plain.contains("_csrf"));
        place.site.router = place.site.router.layer(Extension(CsrfField("csrf-\"-canary".into())));
        let guarded = Call::get(&path).send(&place.site).await.expect(200).body;
        assert!(guarded.contains("name=\"_csrf\" value=\"csrf-&quot;-canary\""));
        let evil = Call::get("/auth/magic-link/verify?token=%22%3E%3Cscript%3E").send(&place.site).await;
        assert!(!evil.expect(401).body.contains("<script"));
    }
}

#[tokio::test]
async fn an_application_replaces_the_confirmation_page() {
    let template = "<p class=mine>{{ email }}</p><form method=post action=\"{{ action }}\">\
                    {% if csrf %}<input name=_csrf value=\"{{ csrf }}\">{% endif %}<input name=token value=\"{{ token }}\"></form>";
    for database in databases().await {
        for plugin in [
            MagicLinkPlugin::new().template(template),
            MagicLinkPlugin::new().page(|confirmation| {
                format!("class=mine {} {}", confirmation.action, confirmation.token.expose()).into_response()
            }),
        ] {
            let place =
                Place::with(with_public_url(), |builder| builder.database(database.db.clone()).plugin(plugin)).await;
            let token = place.magic_token(ANN).await;
            let page = Call::get(&format!("{VERIFY}?token={token}")).send(&place.site).await.expect(200).body;
            assert!(page.contains("class=mine") && page.contains(&token) && page.contains(VERIFY), "{page}");
        }
    }
}

#[tokio::test]
async fn a_form_that_requests_a_link_answers_with_a_page() {
    for database in databases().await {
        let place = Place::on(&database.db).await;
        let page = Call::post(SEND).form(&[("email", ANN)]).send(&place.site).await.expect(200);
        assert!(page.body.contains("Check your mail"));
        let wrong = Call::post(SEND).form(&[("email", "nothing")]).send(&place.site).await.expect(422);
        assert!(wrong.body.contains("not a valid email address"));
    }
}
