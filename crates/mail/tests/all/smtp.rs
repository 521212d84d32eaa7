use std::fs;
use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Secret;
use gatewright_mail::testing::{SmtpOptions, SmtpServer};
use gatewright_mail::{Counts, Mailbox, Outgoing, Smtp, SmtpSettings, SmtpUrl, Templates};

use crate::support::{CANARY, ambient, impatient, letter, smtp_queue, soon};
use gatewright_base::testing::Log;

fn with_login() -> SmtpOptions {
    SmtpOptions { credentials: Some(("mailer@example.com".into(), "p@ss:w/rd".into())), ..SmtpOptions::default() }
}

#[tokio::test]
async fn a_mail_arrives_whole_over_an_authenticated_connection() {
    let Some(mut server) = SmtpServer::start(with_login()) else { return };
    let url = format!("smtp://mailer%40example.com:p%40ss%3Aw%2Frd@127.0.0.1:{}/app.example.com", server.port());
    let outgoing = smtp_queue(&url);
    outgoing.post(letter("ann@bücher.example"));
    let mail = server.mails(1).await.pop().unwrap();
    assert_eq!((&*mail.sender, &*mail.recipients[0]), ("noreply@example.com", "ann@xn--bcher-kva.example"));
    assert_eq!((mail.login.as_deref(), &*mail.hello), (Some("mailer@example.com"), "app.example.com"));
    assert_eq!(mail.header("From"), "Example <noreply@example.com>");
    assert_eq!(mail.header("To"), "ann@xn--bcher-kva.example");
    assert_eq!(mail.header("Subject"), "Sign in to Example");
    assert!(mail.header("Date").starts_with("Fri, 02 Jan 2026 03:04:"), "{}", mail.header("Date"));
    assert_eq!(mail.header("Auto-Submitted"), "auto-generated");
    assert!(mail.header("Message-ID").ends_with("@example.com>"));
    assert_eq!(mail.kind, "multipart/alternative");
    let link = format!("https://app.example.com/auth/magic-link/verify?token={CANARY}");
    assert!(mail.text.unwrap().lines().any(|line| line == link));
    assert!(mail.html.unwrap().contains(&format!("href=\"{link}\"")));
    soon(outgoing.until(|counts| counts.sent == 1)).await;
    assert_eq!(outgoing.counts(), Counts { accepted: 1, sent: 1, ..Counts::default() });
}

#[tokio::test]
async fn a_refused_login_is_not_repeated_and_shows_no_password() {
    let Some(mut server) = SmtpServer::start(with_login()) else { return };
    let log = Log::default();
    let _guard = log.record();
    let outgoing = smtp_queue(&format!("smtp://mailer%40example.com:{CANARY}@127.0.0.1:{}", server.port()));
    outgoing.post(letter("ann@example.com"));
    soon(outgoing.until(|counts| counts.failed == 1)).await;
    assert_eq!(server.logins(), [("mailer@example.com".to_owned(), false)]);
    assert_eq!(outgoing.counts().retries, 0);
    let text = log.text();
    assert!(text.contains("535") && !text.contains(CANARY) && !text.contains("mailer@"), "{text}");
}

#[tokio::test]
async fn letters_of_every_script_arrive_as_they_were_written() {
    let Some(mut server) = SmtpServer::start(SmtpOptions::default()) else { return };
    let url = SmtpUrl::parse(&Secret::new(format!("smtp://127.0.0.1:{}", server.port()))).unwrap();
    let product = "Bücher, \"Söhne\" & 書店 <b>";
    let from = Mailbox::parse("\"Bücher, Söhne\" <noreply@example.com>").unwrap();
    let smtp = Smtp::new(SmtpSettings::new(url, from)).unwrap();
    let outgoing = Outgoing::start(Arc::new(smtp), Templates::load(product, None).unwrap(), ambient(), impatient());
    outgoing.post(letter("ann@example.com"));
    let mail = server.mails(1).await.pop().unwrap();
    assert_eq!(mail.header("Subject"), format!("Sign in to {product}"));
    assert_eq!(mail.header("From"), "\"Bücher, Söhne\" <noreply@example.com>");
    assert!(mail.text.unwrap().contains(product));
    let html = mail.html.unwrap();
    assert!(html.contains("Bücher, &quot;Söhne&quot; &amp; 書店 &lt;b&gt;") && !html.contains("<b>"), "{html}");
    assert!(mail.raw.is_ascii(), "every relay can carry it");
    assert!(mail.raw.lines().all(|line| line.len() <= 998), "RFC 5322, 2.1.1");
}

#[tokio::test]
async fn no_line_of_a_mail_ends_it_or_begins_a_command() {
    let Some(mut server) = SmtpServer::start(SmtpOptions::default()) else { return };
    let long = "x".repeat(5000);
    let text = format!(
        "{{{{ link }}}}\n.\nMAIL FROM:<eve@example.com>\n..\n.two\nFrom here\r\n.\r\nQUIT\rDATA\n\n.\n{long}\n.end"
    );
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("magic_link.txt"), &text).unwrap();
    let templates = Templates::load("Example", Some(folder.path())).unwrap();
    let url = SmtpUrl::parse(&Secret::new(format!("smtp://127.0.0.1:{}", server.port()))).unwrap();
    let smtp = Smtp::new(SmtpSettings::new(url, Mailbox::parse("noreply@example.com").unwrap())).unwrap();
    let outgoing = Outgoing::start(Arc::new(smtp), templates, ambient(), impatient());
    outgoing.post(letter("ann@example.com"));
    soon(outgoing.until(|counts| counts.sent == 1)).await;
    let mails = server.mails(1).await;
    assert_eq!(mails.len(), 1);
    let arrived = mails[0].text.as_deref().unwrap().replace("\r\n", "\n");
    for line in [".", "MAIL FROM:<eve@example.com>", "..", ".two", "From here", ".end", &*long] {
        assert!(arrived.lines().any(|found| found == line), "{line}: {arrived:?}");
    }
    assert!(mails[0].html.is_some(), "the text did not cut the rest off");
}

#[tokio::test]
async fn a_name_beyond_ascii_needs_a_server_that_takes_it() {
    let Some(mut modern) = SmtpServer::start(SmtpOptions::default()) else { return };
    let mut old = SmtpServer::start(SmtpOptions { ascii_only: true, ..SmtpOptions::default() }).unwrap();
    let outgoing = smtp_queue(&format!("smtp://127.0.0.1:{}", modern.port()));
    outgoing.post(letter("jürgen@example.com"));
    let mail = modern.mails(1).await.pop().unwrap();
    assert_eq!(
        (mail.utf8, &*mail.recipients[0], mail.header("To")),
        (true, "jürgen@example.com", "jürgen@example.com")
    );

    let log = Log::default();
    let _guard = log.record();
    let outgoing = smtp_queue(&format!("smtp://127.0.0.1:{}", old.port()));
    outgoing.post(letter("jürgen@example.com"));
    soon(outgoing.until(|counts| counts.failed == 1)).await;
    assert!(log.text().contains("SMTPUTF8") && !log.text().contains("jürgen"), "{}", log.text());
    outgoing.post(letter("ann@example.com"));
    assert_eq!(old.mails(1).await[0].recipients, ["ann@example.com"]);
}

#[tokio::test]
async fn hostile_recipients_and_senders_reach_no_server() {
    let Some(mut server) = SmtpServer::start(SmtpOptions::default()) else { return };
    let outgoing = smtp_queue(&format!("smtp://127.0.0.1:{}", server.port()));
    for to in [
        "ann@example.com\r\nBcc: eve@example.com",
        "ann@example.com>\r\nRCPT TO:<eve@example.com",
        "ann@example.com\r\nDATA\r\nhello\r\n.\r\n",
        "\"ann\r\nSubject: x\"@example.com",
        "ann@example.com,eve@example.com",
        "ann@[127.0.0.1]",
    ] {
        outgoing.post(letter(to));
    }
    outgoing.post(letter("good!#$%&'*+-/=?^_`{|}~@example.com"));
    soon(outgoing.until(|counts| counts.waiting == 0)).await;
    assert_eq!(outgoing.counts(), Counts { accepted: 7, sent: 1, failed: 6, ..Counts::default() });
    let mails = server.mails(1).await;
    assert_eq!(mails.len(), 1);
    assert_eq!(mails[0].recipients, ["good!#$%&'*+-/=?^_`{|}~@example.com"]);
    assert!(mails[0].headers.iter().all(|(name, _)| !name.eq_ignore_ascii_case("bcc")));
}

#[test]
fn smtp_can_be_created_outside_a_runtime() {
    let url = SmtpUrl::parse(&Secret::new("smtps://canary:canary@mail.example.com")).unwrap();
    let settings = SmtpSettings::new(url, Mailbox::parse("noreply@example.com").unwrap());
    assert_eq!(settings.timeout, Duration::from_mins(2));
    let smtp = Smtp::new(settings.clone()).unwrap();
    assert!(!format!("{smtp:?}").contains("canary"), "{smtp:?}");
    for text in ["not a certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let bad = SmtpSettings { more_authorities: vec![text.into()], ..settings.clone() };
        assert!(Smtp::new(bad).is_err(), "{text}");
    }
}
