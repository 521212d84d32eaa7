//! Pages in the name, the color and the language that the configuration and the visitor ask for.

use std::fs;
use std::path::PathBuf;

use axum::Router;
use gatewright::Config;

use super::Server;

impl Server {
    async fn page(&self, path: &str, headers: &[&str]) -> String {
        let headers: String = headers.iter().flat_map(|header| [*header, "\r\n"]).collect();
        let head = "Host: test\r\nAccept: text/html\r\nConnection: close";
        self.exchange(&format!("GET {path} HTTP/1.1\r\n{head}\r\n{headers}\r\n")).await
    }
}

fn has(answer: &str, words: &[&str]) {
    for word in words {
        assert!(answer.contains(word), "{word} is not in {answer}");
    }
}

#[tokio::test]
async fn a_visitor_gets_the_language_of_the_browser_or_of_a_choice() {
    let server = Server::plain().await;
    let german = "Accept-Language: fr, de-AT;q=0.9, en;q=0.1";
    for path in ["/login", "/register", "/forgot-password", "/reset-password?token=x", "/", "/nowhere"] {
        let page = server.page(path, &[german]).await;
        has(&page, &["<html lang=\"de\" dir=\"ltr\">", "content-language: de", "vary: Accept-Language, Cookie"]);
        let english = server.page(path, &["Accept-Language: fr"]).await;
        has(&english, &["<html lang=\"en\" dir=\"ltr\">"]);
        // Every page offers the other language in that language.
        has(&page, &["lang=\"en\" hreflang=\"en\" rel=\"nofollow\">English</a>"]);
        has(&english, &["hreflang=\"de\" rel=\"nofollow\">Deutsch</a>"]);
    }
    has(&server.page("/login", &[german]).await, &["<h1>Anmelden bei Gatewright</h1>", ">E-Mail-Adresse</label>"]);
    has(
        &server.page("/nowhere", &[german]).await,
        &["404", "<h1>Seite nicht gefunden</h1>", "<a href=\"/\">Zur Startseite</a>"],
    );
    has(&server.page("/reset-password?token=x", &[german]).await, &["401", "Einen neuen Link anfordern"]);
    has(&server.page("/login", &[german, "Cookie: language=en"]).await, &["<h1>Sign in to Gatewright</h1>"]);
}

#[tokio::test]
async fn a_choice_is_kept_in_a_cookie_and_redirects_only_within_this_origin() {
    let server = Server::plain().await;
    let chosen = server.page("/auth/language?to=de&next=%2Flogin%3Fnext%3D%252Fx", &[]).await;
    has(&chosen, &["303", "set-cookie: language=de;", "location: /login?next=%2Fx\r\n"]);
    for next in ["https%3A%2F%2Fevil.example", "%2F%2Fevil.example", "%2F%5Cevil.example", "%2F%252fevil.example"] {
        let answer = server.page(&format!("/auth/language?to=de&next={next}"), &[]).await;
        has(&answer, &["location: /\r\n"]);
    }
    for tag in ["xx", "", "de%0d%0aSet-Cookie:%20a=b", "DE"] {
        let answer = server.page(&format!("/auth/language?to={tag}"), &[]).await;
        has(&answer, &["303"]);
        assert!(!answer.contains("set-cookie: language"), "{answer}");
    }
    // A page of another site cannot choose for a user.
    for site in ["cross-site", "same-site"] {
        let answer = server.page("/auth/language?to=de", &[&format!("Sec-Fetch-Site: {site}")]).await;
        has(&answer, &["403"]);
        assert!(!answer.contains("set-cookie: language"), "{answer}");
    }
}

#[tokio::test]
async fn a_translated_page_escapes_visitor_input() {
    let server = Server::plain().await;
    let page = server.page("/login?next=%2F%22%3E%3Cscript%3E&x=%3Cscript%3E", &["Accept-Language: de"]).await;
    assert!(!page.contains("<script>&") && !page.contains("\"><script"), "{page}");
    has(&page, &["/auth/language?to=en&amp;next=%2Flogin"]);
}

#[tokio::test]
async fn json_stays_english() {
    let server = Server::plain().await;
    let request = "GET /nowhere HTTP/1.1\r\nHost: test\r\nAccept-Language: de\r\nConnection: close\r\n\r\n";
    has(&server.exchange(request).await, &["\"detail\":\"there is nothing at this path\"", "\"code\":\"not_found\""]);
}

fn branded(config: &mut Config, logo: &str) {
    config.branding.name = Some("Acme & Sons".to_owned());
    config.branding.color = Some("#ffee00".to_owned());
    config.branding.logo = Some(logo.to_owned());
    config.branding.support_url = Some("mailto:help@example.com".parse().unwrap());
}

#[tokio::test]
async fn pages_have_the_branding_and_allow_only_its_logo() {
    let folder = tempfile::tempdir().unwrap();
    let logo = folder.path().join("logo.svg");
    fs::write(&logo, "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>").unwrap();
    let server = Server::start(|config| branded(config, logo.to_str().unwrap()), Router::new()).await;
    let page = server.page("/login", &[]).await;
    has(
        &page,
        &[
            "<title>Sign in \u{b7} Acme &amp; Sons</title>",
            "<img src=\"/branding/logo\" alt=\"\">Acme &amp; Sons</header>",
            "--act:#ffee00;--on:#000000;",
            "; img-src data: 'self'; ",
            "<a href=\"mailto:help@example.com\">Help</a>",
        ],
    );
    // The ring around what has the focus is in the product's color, as links are.
    has(&page, &[":focus-visible{outline:3px solid var(--link)"]);
    has(
        &server.page("/api/docs", &[]).await,
        &["<title>Acme &amp; Sons API</title>", "<strong>Acme &amp; Sons</strong>"],
    );
    has(&server.page("/api/docs/page.css", &[]).await, &["--act: #ffee00; --on: #000000;"]);
    has(&server.page("/openapi.json", &[]).await, &["\"title\":\"Acme & Sons\""]);
    let picture = server.page("/branding/logo", &[]).await;
    has(&picture, &["content-type: image/svg+xml", "x-content-type-options: nosniff", "default-src 'none'", "sandbox"]);
    let elsewhere = Server::start(|config| branded(config, "https://cdn.example.com/logo.png"), Router::new()).await;
    has(&elsewhere.page("/login", &[]).await, &["; img-src data: https://cdn.example.com/logo.png; "]);
    has(&elsewhere.page("/branding/logo", &[]).await, &["404"]);
}

#[test]
fn an_invalid_branding_is_refused() {
    let faults = |change: fn(&mut Config)| {
        let mut config = Config::default();
        config.server.dev_mode = true;
        change(&mut config);
        config.check().err().map(|faults| faults.to_string()).unwrap_or_default()
    };
    for (key, change) in [
        ("branding.name", (|config| config.branding.name = Some("A\nB".to_owned())) as fn(&mut Config)),
        ("branding.color", |config| config.branding.color = Some("red;}body{display:none".to_owned())),
        ("branding.support_url", |config| config.branding.support_url = "javascript:alert(1)".parse().ok()),
        ("branding.logo", |config| config.branding.logo = Some("http://cdn.example.com/logo.png".to_owned())),
        ("branding.logo", |config| config.branding.logo = Some("https://cdn.example.com/a;script-src *".to_owned())),
        ("branding.logo", |config| config.branding.logo = Some("/etc/passwd".to_owned())),
        ("branding.logo", |config| config.branding.logo = Some("missing.svg".to_owned())),
        ("branding.languages", |config| config.branding.languages = vec!["fr".to_owned()]),
        ("branding.languages", |config| config.branding.languages = vec!["../../etc/passwd".to_owned()]),
        ("branding.languages", |config| config.branding.languages = Vec::new()),
    ] {
        assert!(faults(change).contains(key), "{key}: {}", faults(change));
    }
    assert_eq!(faults(|_| {}), "");
}

#[tokio::test]
async fn a_language_from_a_folder_is_offered_and_falls_back_to_english() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        "name = \"עברית\"\ndirection = \"rtl\"\n[sign_in]\nheading = \"<b>כניסה {product}\"\nbutton = \"{email}\"\n";
    fs::write(folder.path().join("he.toml"), text).unwrap();
    let path: PathBuf = folder.path().into();
    let server = Server::start(
        |config| {
            config.branding.languages = vec!["de".to_owned(), "he".to_owned()];
            config.branding.languages_folder = Some(path);
        },
        Router::new(),
    )
    .await;
    let page = server.page("/login", &["Accept-Language: he"]).await;
    has(&page, &["<html lang=\"he\" dir=\"rtl\">", "<h1>&lt;b&gt;כניסה Gatewright</h1>", ">Password</label>"]);
    // A text with other values than the English one is not used.
    has(&page, &["<button type=\"submit\">Sign in</button>"]);
    has(&server.page("/login", &["Accept-Language: en"]).await, &["<html lang=\"de\""]);
}
