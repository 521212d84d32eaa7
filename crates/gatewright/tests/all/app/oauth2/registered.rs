//! Clients that registered themselves: anybody can register one, with any name and any address.

use std::time::Instant;

use futures_util::future::join_all;
use gatewright::auth::plugins::authorization_server::{ClientPurpose, RelyingParty};
use gatewright_testing::{Actor, TestApp};
use serde_json::json;

use super::{CALLBACK, ENTITIES, answered, authorize, code, form, parameter, press, public_client, text};

const REGISTER: &str = "/auth/oauth2/register";

/// A client that registers itself with one redirect URI.
async fn registers(app: &TestApp, redirect: &str) -> String {
    let from = app.anonymous().from_address("192.0.2.77".parse().unwrap());
    text(&from.post(REGISTER, json!({ "redirect_uris": [redirect] })).await.is(201).json(), "client_id")
}

/// Requests with a fault that is the client's, each with its error.
const FAULTS: [(&str, &str, &str); 6] = [
    ("response_type", "token", "unsupported_response_type"),
    ("response_type", "", "invalid_request"),
    ("scope", "admin:write", "invalid_scope"),
    ("resource", "https://elsewhere.example", "invalid_target"),
    ("code_challenge", "", "invalid_request"),
    ("tenant", "a b", "invalid_request"),
];

/// A page without its frame, whose links to other languages have the request.
fn main(page: &str) -> &str {
    page.split_once("<main>").unwrap().1.split_once("</main>").unwrap().0
}

async fn errors_are_sent(user: &Actor, client: &str, are_sent: bool, when: &str) {
    for (name, value, error) in FAULTS {
        let answer = user.get(&authorize(client, &[(name, value)])).await;
        if are_sent {
            assert_eq!(parameter(&answered(&answer.is(303)), "error").as_deref(), Some(error), "{when}: {name}");
        } else {
            let answer = answer.is(400);
            assert_eq!(answer.header("location"), None, "{when}: {name}");
            assert!(!main(answer.text()).contains("app.example.com"), "{when}: {}", answer.text());
        }
    }
}

/// The attack: a link to this service with a fault in it leads to the attacker's page (RFC 9700, section 4.11.2).
#[tokio::test]
async fn errors_go_only_to_clients_of_the_operator_or_of_this_user() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let (ada, bob) = (app.signed_in("ada@example.com").await, app.signed_in("bob@example.com").await);
        let (client, trusted) = (registers(&app, CALLBACK).await, public_client(&app).await);
        errors_are_sent(&ada, &trusted, true, "the operator's client").await;
        errors_are_sent(&ada, &client, false, "a client that registered itself").await;

        // A refusal is an error, too: the user decides whether to follow the link.
        let page = ada.get(&authorize(&client, &[])).await.is(200);
        let cancelled = press(&ada, page.text(), "deny").await.is(200);
        assert_eq!(cancelled.header("location"), None);
        let link = format!("href=\"{CALLBACK}?error=access_denied&amp;error_description=the+user+refused&amp;state=");
        assert!(cancelled.text().contains(&link), "{}", cancelled.text());
        let page = ada.get(&authorize(&trusted, &[])).await.is(200);
        let pairs = answered(&press(&ada, page.text(), "deny").await.is(303));
        assert_eq!(parameter(&pairs, "error").as_deref(), Some("access_denied"));

        code(&ada, &client, &[]).await;
        errors_are_sent(&ada, &client, true, "Ada connected it").await;
        errors_are_sent(&bob, &client, false, "Bob did not").await;
        let page = ada.get("/account/programs").await.is(200);
        let end =
            page.text().split("action=\"/account/programs/").nth(1).unwrap().split('"').next().unwrap().to_owned();
        form(&ada, &format!("/account/programs/{end}"), &[]).await.is(303);
        errors_are_sent(&ada, &client, false, "Ada ended it").await;
    }
}

/// The doors by which a redirect URI comes in, and what is taken at each of them. Metadata documents are read by the same
/// function as registrations.
#[tokio::test]
async fn redirect_uris_have_listed_shapes_and_plain_hosts_at_every_door() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let clients = app.app().auth().unwrap().oauth2_clients().unwrap();
        let doors = async |redirect: &str| {
            // Registrations are limited per address.
            let from = app.anonymous().from_address(format!("192.0.2.{}", 100 + redirect.len()).parse().unwrap());
            let registered = from.post(REGISTER, json!({ "redirect_uris": [CALLBACK, redirect] })).await;
            if registered.status() != 201 {
                assert_eq!(registered.json()["error"], "invalid_redirect_uri", "{redirect}");
            }
            let purpose = ClientPurpose::Users {
                redirect_uris: vec![redirect.to_owned()],
                scopes: None,
                confidential: false,
                relying_party: RelyingParty::default(),
            };
            [registered.status() == 201, clients.create("App", purpose).await.is_ok()]
        };
        for refused in [
            "https://*/cb",
            "https://client.example;sandbox/cb",
            "https://client.example,x/cb",
            "https://client.example'/cb",
            "https://a_b.example/cb",
            "http://client.example/cb",
            "http://127.0.0.2/cb",
            "myapp:/cb",
            "intent://x/",
            "ms-settings:",
            "cursor://a;sandbox/cb",
        ] {
            assert_eq!(doors(refused).await, [false, false], "{refused}");
        }
        let user = app.signed_in("ada@example.com").await;
        for (accepted, target) in [
            ("https://client.example:8443/cb;x", "https://client.example:8443"),
            ("https://b\u{fc}cher.example/cb", "https://xn--bcher-kva.example"),
            ("https://[2001:db8::1]/cb", "https://[2001:db8::1]"),
            ("http://[::1]:7/cb", "http://[::1]:7"),
        ] {
            let client = registers(&app, accepted).await;
            let page = user.get(&authorize(&client, &[("redirect_uri", accepted)])).await.is(200);
            let policy = page.header("content-security-policy").unwrap();
            assert!(policy.contains(&format!("; form-action 'self' {target}; ")), "{policy}");
            assert_eq!(policy.matches("form-action").count(), 1, "{policy}");
        }
        for (accepted, target) in
            [("cursor://vendor.extension/cb", "cursor:"), ("com.example.app:/cb", "com.example.app:")]
        {
            assert_eq!(doors(accepted).await, [true, true], "{accepted}");
            let purpose = ClientPurpose::Users {
                redirect_uris: vec![accepted.to_owned()],
                scopes: None,
                confidential: false,
                relying_party: RelyingParty::default(),
            };
            let client = clients.create("App", purpose).await.unwrap().0.id;
            let page = user.get(&authorize(&client, &[("redirect_uri", accepted)])).await.is(200);
            let policy = page.header("content-security-policy").unwrap();
            assert!(policy.contains(&format!("; form-action 'self' {target}; ")), "{policy}");
        }
    }
}

/// A client from before the shapes were listed: its address is not used, and other clients are still listed.
#[tokio::test]
async fn a_stored_redirect_uri_that_is_no_longer_allowed_is_ignored() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        let client = registers(&app, CALLBACK).await;
        let other = public_client(&app).await;
        let sql = "UPDATE oauth2_clients SET redirect_uris = ?1 WHERE id = ?2";
        let values = gatewright_db::params!["[\"https://*/cb\",\"myapp:/cb\"]", &client];
        app.app().db().execute(sql, values).await.unwrap();
        let user = app.signed_in("ada@example.com").await;
        for redirect in ["https://*/cb", "myapp:/cb", ""] {
            let refused = user.get(&authorize(&client, &[("redirect_uri", redirect)])).await.is(400);
            assert_eq!(refused.header("location"), None, "{redirect}");
        }
        let listed = app.app().auth().unwrap().oauth2_clients().unwrap().list().await.unwrap();
        let ids: Vec<_> = listed.iter().map(|client| &*client.id).collect();
        assert!(ids.contains(&&*client) && ids.contains(&&*other), "{ids:?}");
    }
}

/// The attack: a user names addresses of the server's network as client identifiers, and compares the answers.
#[tokio::test]
async fn failures_of_client_documents_do_not_reveal_which_ports_answer() {
    for app in TestApp::on_every_engine(ENTITIES).await {
        // Dev mode fetches from addresses of this computer. One port is closed, one is open and silent, one talks.
        let silent = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
        let talking = tokio::net::TcpListener::bind("127.0.0.3:0").await.unwrap();
        let talks = talking.local_addr().unwrap();
        let talker = tokio::spawn(async move {
            while let Ok((mut stream, _)) = talking.accept().await {
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, b"220 mail.example\r\n").await;
            }
        });
        let targets = [
            "https://127.0.0.4:1/client.json".to_owned(),
            format!("https://{}/client.json", silent.local_addr().unwrap()),
            format!("https://{talks}/client.json"),
            "https://nothing.invalid/client.json".to_owned(),
        ];
        let tries = targets.iter().enumerate().map(async |(number, url)| {
            let user = app.signed_in(&format!("user{number}@example.com")).await;
            let (began, address) = (Instant::now(), authorize(url, &[]));
            let answer = user.get(&address).await.is(400);
            (main(answer.text()).to_owned(), began.elapsed())
        });
        let answers = join_all(tries).await;
        for (text, elapsed) in &answers {
            assert_eq!(text, &answers[0].0);
            assert!(elapsed.as_secs() >= 5, "not faster than one that never answers: {elapsed:?}");
        }
        talker.abort();
    }
}
