//! Invitations as a front end and its users see them: who invites to what, and where accepting leads.

use gatewright_testing::{Actor, Answer, TestApp};
use http::Method;
use serde_json::{Value, json};

const ANN: &str = "ann@example.com";
const BEN: &str = "ben@example.com";
const PASSWORD: &str = "correct horse battery";

const CONFIGURATION: &str = r#"
[server]
app_url = "https://front.example/app"
[tenancy]
self_service = true
[[entity]]
name = "rooms"
multi_tenant = true
[[entity.field]]
name = "name"
type = "string"
"#;

/// A form of a page.
async fn form(actor: &Actor, path: &str, pairs: &[(&str, &str)]) -> Answer {
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
    let request = actor.request(Method::POST, path).header("content-type", "application/x-www-form-urlencoded");
    actor.send(request.body(body.into()).unwrap()).await
}

/// The newest mail to an address, once there is one.
async fn mail_to(actor: &Actor, email: &str) -> Value {
    loop {
        let mails = actor.get("/dev/mail.json").await.is(200).json();
        if let Some(mail) = mails.as_array().unwrap().iter().find(|mail| mail["to"] == email) {
            return mail.clone();
        }
        tokio::task::yield_now().await;
    }
}

/// A link's path with its query, and the token in it.
fn link(mail: &Value) -> (String, String) {
    let link = url::Url::parse(mail["links"][0].as_str().unwrap()).unwrap();
    let token = link.query_pairs().find(|(name, _)| name == "invite").unwrap().1.into_owned();
    (link[url::Position::BeforePath..].to_owned(), token)
}

#[tokio::test]
async fn an_invitation_names_tenant_and_inviter_and_leads_to_the_front_end() {
    for app in TestApp::on_every_engine(CONFIGURATION).await {
        let ann = app.signed_in(ANN).await;
        let tenant = ann.post("/auth/tenants", json!({ "name": "Acme" })).await.is(201).json()["id"].clone();
        let members = format!("/auth/tenants/{}/members", tenant.as_str().unwrap());
        for (email, next, leads_to) in [
            (BEN, json!("https://front.example/app/welcome?x=1"), "https://front.example/app/welcome?x=1"),
            ("cleo@example.com", Value::Null, "https://front.example/app"),
            ("dora@example.com", json!("https://evil.example/"), "https://front.example/app"),
            ("emil@example.com", json!("//evil.example/"), "https://front.example/app"),
            ("finn@example.com", json!("/here"), "/here"),
        ] {
            ann.post(&members, json!({ "email": email, "next": next })).await.is(201);
            let mail = mail_to(&ann, email).await;
            let text = mail["text"].as_str().unwrap().replace('\n', " ");
            assert!(text.contains("ann@example.com invites you to become a member of Acme"), "{text}");
            let (path, token) = link(&mail);
            assert!(!path.contains("evil"), "{path}");

            let anybody = app.anonymous();
            let described = anybody.get(&format!("/auth/invitations/{token}")).await.is(200).json();
            let expires = described["expiresAt"].clone();
            assert!(expires.is_string(), "{described}");
            let expected = json!({
                "email": email, "inviter": ANN, "tenant": "Acme", "roles": ["member"], "expiresAt": expires,
            });
            assert_eq!(described, expected, "{}", app.engine());

            let page = anybody.get(&path).await.is(200);
            let hidden = page.text().split("name=\"next\" value=\"").nth(1).and_then(|rest| rest.split('"').next());
            let sent = hidden.unwrap_or_default().replace("&amp;", "&");
            let pairs = [("email", email), ("password", PASSWORD), ("invite", &*token), ("next", &*sent)];
            let done = form(&anybody, "/auth/register", &pairs).await.is(303);
            assert_eq!(done.header("location"), Some(leads_to), "{email}");
            let refused_link = anybody.get(&format!("/auth/invitations/{token}")).await.is(404);
            assert_eq!(refused_link.at("/code"), "not_found");
        }
        // Nothing is said of tokens that do not exist, and an existing account is led on in the same way.
        let _unknown = app.anonymous().get("/auth/invitations/unknown").await.is(404);
        let fay = app.signed_in("fay@example.com").await;
        ann.post(&members, json!({ "email": "fay@example.com", "next": "https://front.example/app/in" })).await.is(201);
        let (path, token) = link(&mail_to(&ann, "fay@example.com").await);
        let page = fay.get(&path).await.is(200);
        assert!(page.text().contains("value=\"https://front.example/app/in\""), "{}", page.text());
        let pairs = [("invite", &*token), ("next", "https://front.example/app/in")];
        let joined = form(&fay, "/auth/invitations/accept", &pairs).await.is(200);
        assert!(joined.text().contains("href=\"https://front.example/app/in\""), "{}", joined.text());
    }
}

#[tokio::test]
async fn flows_without_next_lead_to_the_front_end() {
    for app in TestApp::on_every_engine(CONFIGURATION).await {
        let anybody = app.anonymous();
        assert!(anybody.get("/").await.is(200).text().contains("href=\"https://front.example/app\""));
        let register = [("email", ANN), ("password", PASSWORD)];
        let done = form(&anybody, "/auth/register", &register).await.is(303);
        assert_eq!(done.header("location"), Some("https://front.example/app"), "{}", app.engine());
        for (next, leads_to) in [
            ("", "https://front.example/app"),
            ("https://evil.example/", "https://front.example/app"),
            ("https://front.example/other", "https://front.example/app"),
            ("https://front.example/app/deep", "https://front.example/app/deep"),
            ("/here", "/here"),
        ] {
            let login = [("email", ANN), ("password", PASSWORD), ("next", next)];
            let done = form(&anybody, "/auth/login", &login).await.is(303);
            assert_eq!(done.header("location"), Some(leads_to), "{next}");
        }
        // The policy of the pages allows the redirect of their forms.
        let page = anybody.get("/login").await.is(200);
        assert!(page.header("content-security-policy").unwrap().contains("https://front.example"));
    }
}
