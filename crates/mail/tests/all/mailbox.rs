use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use gatewright_base::Secret;
use gatewright_mail::{DevMailbox, Kind, Letter, Outgoing, QueuePolicy, Templates, dev};
use http::{HeaderMap, Method, Request};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::support::{Scripted, ambient, letter, queue, templates};

const PUBLIC: &str = "https://app.example.com";

fn mounted(templates: Templates) -> (Router, Outgoing) {
    let mailbox = DevMailbox::new();
    let outgoing = Outgoing::start(Arc::new(mailbox.clone()), templates, ambient(), QueuePolicy::default());
    (dev::routes(mailbox, outgoing.clone(), PUBLIC.parse().unwrap(), dev::Readers::ThisComputer), outgoing)
}

async fn ask(router: &Router, method: Method, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, String) {
    ask_from([127, 0, 0, 1], router, method, path, headers).await
}

async fn ask_from(
    peer: [u8; 4],
    router: &Router,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
) -> (u16, HeaderMap, String) {
    let peer = ConnectInfo(SocketAddr::from((peer, 4711)));
    let request = Request::builder().method(method).uri(path).extension(peer);
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let text = String::from_utf8(to_bytes(body, 10_000_000).await.unwrap().to_vec()).unwrap();
    (parts.status.as_u16(), parts.headers, text)
}

async fn get(router: &Router, path: &str) -> (u16, HeaderMap, String) {
    ask(router, Method::GET, path, &[("host", "127.0.0.1:8080")]).await
}

#[tokio::test]
async fn a_mail_is_there_as_soon_as_it_is_posted_newest_first() {
    let (router, outgoing) = mounted(templates());
    assert_eq!(get(&router, "/dev/mail.json").await.2, "[]");
    for to in ["ann@example.com", "ben@example.com"] {
        outgoing.post(letter(to));
        let (status, headers, body) = get(&router, "/dev/mail.json").await;
        assert_eq!((status, &headers["content-type"]), (200, &"application/json".parse().unwrap()));
        assert!(body.contains(to), "{body}");
    }
    let mails: Vec<Value> = serde_json::from_str(&get(&router, "/dev/mail.json").await.2).unwrap();
    let recipients: Vec<&Value> = mails.iter().map(|mail| &mail["to"]).collect();
    assert_eq!(recipients, ["ben@example.com", "ann@example.com"]);
    let keys: Vec<&String> = mails[0].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["to", "subject", "text", "links"]);
    let link = letter("").link.expose().to_owned();
    assert_eq!((&mails[0]["subject"], &mails[0]["links"]), (&json!("Sign in to Example"), &json!([link])));
    assert!(mails[0]["text"].as_str().unwrap().contains(&link));
}

#[tokio::test]
async fn the_page_lists_mails_with_clickable_links_and_is_closed_to_injection() {
    let hostile = Templates::load("<script>alert(1)</script>\"'", None).unwrap();
    let (router, outgoing) = mounted(hostile);
    assert!(get(&router, "/dev/mail").await.2.contains("No mail yet."));
    let link = "https://app.example.com/x?a=\"><img src=x>&b=1";
    outgoing.post(Letter::new(Kind::MagicLink, "o'brien@example.com", Secret::new(link), Duration::from_mins(1)));
    let script = "javascript:alert(1)";
    outgoing.post(Letter::new(Kind::MagicLink, "eve@example.com", Secret::new(script), Duration::from_mins(1)));
    let (status, headers, page) = get(&router, "/dev/mail").await;
    assert_eq!((status, &headers["content-type"]), (200, &"text/html; charset=utf-8".parse().unwrap()));
    let escaped = "https://app.example.com/x?a=&quot;&gt;&lt;img src=x&gt;&amp;b=1";
    assert!(page.contains(&format!("<a href=\"{escaped}\" rel=\"noreferrer\"><code>{escaped}</code></a>")), "{page}");
    assert!(
        page.contains("<strong>o&#39;brien@example.com</strong>") && page.contains("<html lang=\"en\" dir=\"ltr\">")
    );
    for absent in ["<script", "<img", "href=\"javascript"] {
        assert!(!page.contains(absent), "{absent}: {page}");
    }
    assert!(page.find("eve@example.com") < page.find("o&#39;brien"), "the newest comes first");
}

#[tokio::test]
async fn answers_are_neither_stored_nor_readable_across_origins() {
    let (router, _outgoing) = mounted(templates());
    for path in ["/dev/mail", "/dev/mail.json"] {
        for host in ["localhost", "evil.example"] {
            let (_, headers, _) = ask(&router, Method::GET, path, &[("host", host)]).await;
            assert_eq!(headers["cache-control"], "no-store");
            assert_eq!(headers["x-content-type-options"], "nosniff");
            assert_eq!(headers["cross-origin-resource-policy"], "same-origin");
            assert!(!headers.contains_key("access-control-allow-origin"));
        }
    }
    let (_, headers, _) = get(&router, "/dev/mail").await;
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("script-src"), "{policy}");
}

#[tokio::test]
async fn a_rebound_name_and_another_sites_page_are_refused() {
    let (router, outgoing) = mounted(templates());
    outgoing.post(letter("ann@example.com"));
    let refused: &[&[(&str, &str)]] = &[
        &[("host", "evil.example:8080")],
        &[("host", "127.0.0.1.evil.example")],
        &[],
        &[("host", "localhost"), ("sec-fetch-site", "cross-site")],
        &[("host", "localhost"), ("origin", "https://evil.example")],
        &[("host", "localhost:8080"), ("origin", "http://localhost:3000")],
        &[("host", "evil.example"), ("x-forwarded-host", "localhost")],
    ];
    for path in ["/dev/mail", "/dev/mail.json"] {
        for headers in refused {
            let (status, _, body) = ask(&router, Method::GET, path, headers).await;
            assert_eq!(status, 403, "{path} {headers:?}");
            assert!(!body.contains("ann@"), "{body}");
        }
        for headers in [&[("host", "app.example.com")][..], &[("host", "[::1]:80"), ("sec-fetch-site", "none")]] {
            assert_eq!(ask(&router, Method::GET, path, headers).await.0, 200, "{path} {headers:?}");
        }
        assert_eq!(ask(&router, Method::POST, path, &[("host", "localhost")]).await.0, 405);
    }
}

#[tokio::test]
async fn another_computer_reads_the_mailbox_only_if_that_is_allowed() {
    let (router, outgoing) = mounted(templates());
    outgoing.post(letter("ann@example.com"));
    let open = {
        let mailbox = DevMailbox::new();
        dev::routes(mailbox, outgoing.clone(), PUBLIC.parse().unwrap(), dev::Readers::Anybody)
    };
    let host = &[("host", "app.example.com")][..];
    for path in ["/dev/mail", "/dev/mail.json"] {
        let (status, headers, body) = ask_from([203, 0, 113, 7], &router, Method::GET, path, host).await;
        assert_eq!(status, 403, "{path}");
        assert!(!body.contains("ann@") && body.contains("this computer"), "{body}");
        assert_eq!(headers["cache-control"], "no-store");
        let local_proxy = &[("host", "app.example.com"), ("x-forwarded-for", "203.0.113.7")][..];
        assert_eq!(ask(&router, Method::GET, path, local_proxy).await.0, 403, "{path}");
        assert_eq!(ask_from([203, 0, 113, 7], &open, Method::GET, path, host).await.0, 200, "{path}");
    }
}

#[tokio::test]
async fn only_the_newest_hundred_are_kept() {
    let (router, outgoing) = mounted(templates());
    (0..250).for_each(|number| outgoing.post(letter(&format!("user{number}@example.com"))));
    outgoing.until(|counts| counts.sent == 250).await;
    let mails: Vec<Value> = serde_json::from_str(&get(&router, "/dev/mail.json").await.2).unwrap();
    assert_eq!((mails.len(), &mails[99]["to"]), (100, &json!("user150@example.com")));
}

#[tokio::test(start_paused = true)]
async fn a_stuck_queue_delays_the_page_by_a_second_at_most() {
    let outgoing = queue(Scripted::held(), QueuePolicy::default());
    let router = dev::routes(DevMailbox::new(), outgoing.clone(), PUBLIC.parse().unwrap(), dev::Readers::ThisComputer);
    outgoing.post(letter("ann@example.com"));
    let start = tokio::time::Instant::now();
    assert_eq!(get(&router, "/dev/mail").await.0, 200);
    assert_eq!(start.elapsed().as_secs(), 1);
}
