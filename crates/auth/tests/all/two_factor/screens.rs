use axum::Extension;
use gatewright_auth::screens::CsrfField;

use super::{enroll_ann, site};
use crate::support::{ANN, Answer, Call, PASSWORD, Site, databases, query};

async fn form_login(site: &Site, next: &str) -> Answer {
    let fields = [("email", ANN), ("password", PASSWORD), ("next", next)];
    Call::post("/auth/login").form(&fields).send(site).await.expect(303)
}

#[tokio::test]
async fn a_person_signs_in_with_a_code_without_scripts_and_is_redirected_to_next() {
    for db in databases().await {
        let site = site(&db).await.and_screens();
        let ann = enroll_ann(&site).await;
        let pending = form_login(&site, "/posts?a=b").await;
        let at = pending.location().unwrap().to_owned();
        assert_eq!(at, "/two-factor?next=%2Fposts%3Fa%3Db");
        let page = Call::get(&at).cookie_of(&pending).send(&site).await.expect(200);
        for part in [
            "action=\"/auth/2fa/challenge\"",
            "name=\"next\" value=\"/posts?a=b\"",
            "<label for=\"code\">",
            "autocomplete=\"one-time-code\"",
            "inputmode=\"numeric\"",
            "lang=\"en\"",
            "<h1>",
            "action=\"/auth/logout\"",
        ] {
            assert!(page.body.contains(part), "{part} in {}", page.body);
        }
        assert_eq!(page.headers["cache-control"], "no-store");
        assert!(!page.markup().contains("<script") && !page.body.contains("_csrf"));
        let code = ann.app.code(&site);
        let fields = [("code", code.as_str()), ("next", "/posts?a=b")];
        let passed = Call::post("/auth/2fa/challenge").form(&fields).cookie_of(&pending).send(&site).await.expect(303);
        assert_eq!(passed.location(), Some("/posts?a=b"));
        site.me(&passed).await.expect(200);
        site.me(&pending).await.expect(401);
    }
}

#[tokio::test]
async fn a_wrong_code_shows_the_form_again() {
    for db in databases().await {
        let site = site(&db).await.and_screens();
        enroll_ann(&site).await;
        let pending = form_login(&site, "/posts").await;
        let fields = [("code", "canary"), ("next", "/posts")];
        let again = Call::post("/auth/2fa/challenge").form(&fields).cookie_of(&pending).send(&site).await.expect(401);
        assert!(again.body.contains("role=\"alert\">The code is wrong."), "{}", again.body);
        assert!(again.body.contains("value=\"/posts\"") && !again.body.contains("canary"));
        assert!(!again.headers.contains_key("www-authenticate"));
    }
}

#[tokio::test]
async fn without_the_screens_a_form_s_failure_is_a_small_page() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let pending = site.login_ann().await;
        let call = |code: &str| Call::post("/auth/2fa/challenge").form(&[("code", code)]).cookie_of(&pending);
        let page = call("000").send(&site).await.expect(401);
        assert!(page.body.contains("The code is wrong.") && !page.body.contains("<form"));
        Call::get("/two-factor").cookie_of(&pending).send(&site).await.expect(404);
        assert_eq!(call(&ann.codes[0]).send(&site).await.expect(303).location(), Some("/"));
    }
}

#[tokio::test]
async fn the_screen_redirects_a_session_without_a_pending_second_factor() {
    for db in databases().await {
        let site = site(&db).await.and_screens();
        let anonymous = Call::get("/two-factor?next=/posts").send(&site).await.expect(303);
        assert_eq!(anonymous.location(), Some("/login?next=%2Fposts"));
        let signed_in = site.login_ann().await;
        let known = Call::get("/two-factor?next=/posts").cookie_of(&signed_in).send(&site).await.expect(303);
        assert_eq!(known.location(), Some("/posts"));
    }
}

#[tokio::test]
async fn next_stays_on_this_origin() {
    for db in databases().await {
        let site = site(&db).await.and_screens();
        let ann = enroll_ann(&site).await;
        for (n, next) in
            ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)"].iter().enumerate()
        {
            let pending = form_login(&site, next).await;
            let query = query("next", next);
            let page = Call::get(&format!("/two-factor?{query}")).cookie_of(&pending).send(&site).await.expect(200);
            assert!(!page.body.contains("evil.example") && !page.body.contains("javascript:"));
            let fields = [("code", ann.codes[n].as_str()), ("next", next)];
            let passed = Call::post("/auth/2fa/challenge").form(&fields).cookie_of(&pending).send(&site).await;
            assert_eq!(passed.expect(303).location(), Some("/"));
        }
    }
}

#[tokio::test]
async fn enrolling_works_with_forms_only() {
    for db in databases().await {
        let site = site(&db).await.and_screens();
        let session = form_login(&site, "/").await;
        let form = |path: &str, fields: &[(&str, &str)]| Call::post(path).form(fields).cookie_of(&session);
        let page = form("/auth/2fa/enroll", &[("next", "/account")]).send(&site).await.expect(200);
        assert!(page.body.contains("<img src=\"data:image/svg+xml;base64,"), "{}", page.body);
        assert!(page.headers["content-security-policy"].to_str().unwrap().contains("img-src data:"));
        let key = page.body.split("<code>").nth(1).unwrap().split("</code>").next().unwrap().replace(' ', "");
        let app = super::Authenticator::new(&key);
        let again = form("/auth/2fa/verify", &[("code", "nonsense"), ("next", "/account")]).send(&site).await;
        let again = again.expect(401);
        assert!(again.body.contains("role=\"alert\">The code is wrong.") && again.body.contains("<img src=\"data:"));
        let done = form("/auth/2fa/verify", &[("code", &app.code(&site)), ("next", "/account")]).send(&site).await;
        let done = done.expect(200);
        assert_eq!(done.body.matches("<li><code>").count(), 10);
        assert!(done.body.contains("href=\"/account\""));
        let fresh = form("/auth/2fa/backup-codes", &[]).send(&site).await.expect(200);
        assert_eq!(fresh.body.matches("<li><code>").count(), 10);
        site.advance(30);
        let off = form("/auth/2fa/disable", &[("code", &app.code(&site)), ("next", "/account")]).send(&site).await;
        assert_eq!(off.expect(303).location(), Some("/account"));
    }
}

#[tokio::test]
async fn the_forms_carry_the_csrf_token_where_there_is_one() {
    for db in databases().await {
        let mut site = site(&db).await.and_screens();
        site.router = site.router.layer(Extension(CsrfField("token-of-this-page".into())));
        let session = form_login(&site, "/").await;
        let enroll = Call::post("/auth/2fa/enroll").form(&[]).cookie_of(&session).send(&site).await.expect(200);
        let field = "name=\"_csrf\" value=\"token-of-this-page\"";
        assert_eq!(enroll.body.matches(field).count(), 1, "{}", enroll.body);
        enroll_ann(&site).await;
        let pending = form_login(&site, "/").await;
        let page = Call::get("/two-factor").cookie_of(&pending).send(&site).await.expect(200);
        assert_eq!(page.body.matches(field).count(), 3, "the challenge, a backup code and the way out: {}", page.body);
    }
}
