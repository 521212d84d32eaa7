use std::collections::HashSet;

use gatewright_auth::audit::AuditKind;
use http::Method;

use super::{enroll_ann, send, site, text};
use crate::support::{Answer, Call, databases};

fn codes(answer: &Answer) -> Vec<String> {
    let body = answer.json();
    assert_eq!(body.as_object().unwrap().len(), 1);
    body["backupCodes"].as_array().unwrap().iter().map(text).collect()
}

#[tokio::test]
async fn a_fresh_set_invalidates_the_old_one() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let mut old = ann.codes.clone();
        for method in [Method::GET, Method::POST] {
            let call = Call::new(method, "/auth/2fa/backup-codes");
            let fresh = codes(&call.cookie_of(&ann.session).send(&site).await.expect(200));
            assert_eq!(fresh.iter().collect::<HashSet<_>>().len(), 10);
            assert!(fresh.iter().all(|code| !old.contains(code)));
            let pending = site.login_ann().await;
            send(&site, "challenge", &pending, &old[0]).await.expect(401);
            send(&site, "challenge", &pending, &fresh[0]).await.expect(200);
            assert!(site.audited().contains(&AuditKind::TwoFactorBackupCodesRegenerated));
            old = fresh;
        }
    }
}

#[tokio::test]
async fn a_page_of_another_site_cannot_replace_backup_codes() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let cases: [&[(&str, &str)]; 5] = [
            &[("sec-fetch-site", "cross-site")],
            &[("origin", "https://evil.example")],
            &[("origin", "null")],
            &[("origin", "https://evil.example"), ("sec-fetch-site", "same-origin")],
            &[("origin", "https://app.example.com:8443")],
        ];
        let sibling: &[(&str, &str)] = &[("sec-fetch-site", "same-site")];
        let gets = cases.iter().chain([&sibling]).map(|headers| (Method::GET, *headers));
        for (method, headers) in gets.chain(cases.iter().map(|headers| (Method::POST, *headers))) {
            let mut call = Call::new(method, "/auth/2fa/backup-codes").header("host", "app.example.com");
            for (name, value) in headers {
                call = call.header(name, value);
            }
            let refused = call.cookie_of(&ann.session).send(&site).await.expect(403);
            assert_eq!(refused.detail(), "cross-site request refused", "{headers:?}");
        }
        let own = Call::post("/auth/2fa/backup-codes").header("host", "app.example.com");
        let pending = site.login_ann().await;
        send(&site, "challenge", &pending, &ann.codes[0]).await.expect(200);
        let own = own.header("origin", "https://app.example.com").header("x-forwarded-proto", "https");
        own.cookie_of(&ann.session).send(&site).await;
    }
}

/// A HEAD request must not spend the codes.
#[tokio::test]
async fn a_head_request_creates_no_backup_codes() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let head = Call::new(Method::HEAD, "/auth/2fa/backup-codes").cookie_of(&ann.session).send(&site).await;
        assert_eq!(head.expect(405).headers["allow"], "GET, POST");
        let pending = site.login_ann().await;
        send(&site, "challenge", &pending, &ann.codes[0]).await.expect(200);
    }
}

#[tokio::test]
async fn only_hashes_are_kept() {
    for db in databases().await {
        let site = site(&db).await;
        let ann = enroll_ann(&site).await;
        let rows = db.db.query("SELECT code_hash FROM two_factor_backup_codes", vec![]).await.unwrap();
        assert_eq!(rows.len(), 10);
        for row in rows {
            let hash: Vec<u8> = row.get("code_hash").unwrap();
            assert_eq!(hash.len(), 32);
            let plain = |code: &String| code.replace('-', "");
            assert!(ann.codes.iter().all(|code| !hash.starts_with(plain(code).as_bytes())));
        }
        let row = db.db.query_opt("SELECT secret FROM two_factor", vec![]).await.unwrap().unwrap();
        assert_eq!(row.get::<String>("secret").unwrap(), ann.app.secret, "plain base32, as documented");
    }
}
