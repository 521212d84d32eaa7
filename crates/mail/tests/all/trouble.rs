use std::sync::Arc;
use std::time::Duration;

use gatewright_base::Secret;
use gatewright_mail::testing::{SmtpOptions, SmtpServer};
use gatewright_mail::{Both, DevMailbox, Mailbox, Outgoing, QueuePolicy, Smtp, SmtpSettings, SmtpUrl};
use tokio::net::TcpSocket;

use crate::support::{CANARY, ambient, impatient, letter, queue, smtp_queue, soon, templates};
use gatewright_base::testing::Log;

#[tokio::test]
async fn a_server_that_was_down_gets_the_mail_when_it_is_back() {
    // Bound but not listening: connections fail, and no other test gets the port.
    let reserved = TcpSocket::new_v4().unwrap();
    reserved.set_reuseaddr(true).unwrap();
    reserved.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = reserved.local_addr().unwrap().port();
    let outgoing = smtp_queue(&format!("smtp://127.0.0.1:{port}"));
    outgoing.post(letter("ann@example.com"));
    soon(outgoing.until(|counts| counts.retries >= 3)).await;
    let options = SmtpOptions { port: Some(port), ..SmtpOptions::default() };
    let Some(mut server) = SmtpServer::start(options) else { return };
    assert_eq!(server.mails(1).await[0].recipients, ["ann@example.com"]);
    soon(outgoing.until(|counts| counts.sent == 1)).await;
    assert_eq!(outgoing.counts().failed, 0);
}

#[tokio::test]
async fn a_refusal_is_final() {
    let Some(mut server) = SmtpServer::start(SmtpOptions::default()) else { return };
    let outgoing = smtp_queue(&format!("smtp://127.0.0.1:{}", server.port()));
    for (command, answer) in [
        ("MAIL", "553 5.1.8 sender rejected"),
        ("RCPT", "550 5.1.1 user unknown"),
        ("DATA", "554 5.7.1 message refused"),
    ] {
        let before = outgoing.counts().failed;
        server.answer(command, answer);
        outgoing.post(letter("ann@example.com"));
        soon(outgoing.until(|counts| counts.failed > before)).await;
    }
    outgoing.post(letter("ben@example.com"));
    soon(outgoing.until(|counts| counts.sent == 1)).await;
    assert_eq!((outgoing.counts().failed, outgoing.counts().retries), (3, 0));
    let arrived: Vec<_> = server.mails(2).await.into_iter().map(|mail| (mail.recipients, mail.answer)).collect();
    let refused = (vec!["ann@example.com".to_owned()], "554 5.7.1 message refused".to_owned());
    assert_eq!(arrived, [refused, (vec!["ben@example.com".to_owned()], "250 OK".to_owned())]);
}

#[tokio::test]
async fn a_temporary_refusal_is_retried_with_the_same_message_id() {
    let Some(mut server) = SmtpServer::start(SmtpOptions::default()) else { return };
    server.answer("RCPT", "450 4.2.0 greylisted, come back later");
    server.answer("DATA", "451 4.3.0 try again");
    server.answer("DATA", "452 4.3.1 out of space");
    let outgoing = smtp_queue(&format!("smtp://127.0.0.1:{}", server.port()));
    outgoing.post(letter("ann@example.com"));
    soon(outgoing.until(|counts| counts.sent == 1)).await;
    assert_eq!(outgoing.counts().retries, 3);
    let mails = server.mails(3).await;
    assert_eq!(mails.len(), 3);
    assert!(mails.iter().all(|mail| mail.raw == mails[0].raw), "the same bytes, so that duplicates can be told");
}

#[tokio::test]
async fn a_slow_server_delays_no_caller() {
    let Some(mut server) = SmtpServer::start(SmtpOptions::default()) else { return };
    server.hold();
    let outgoing = smtp_queue(&format!("smtp://127.0.0.1:{}", server.port()));
    for _ in 0..20 {
        outgoing.post(letter("ann@example.com"));
    }
    server.mails(QueuePolicy::default().concurrency).await;
    // The server is busy with four mails, and callers are not delayed.
    outgoing.post(letter("ann@example.com"));
    let counts = outgoing.counts();
    assert_eq!((counts.waiting, counts.sent), (21, 0));
    server.release();
    soon(outgoing.until(|counts| counts.sent == 21)).await;
    assert_eq!(outgoing.counts().retries, 0);
}

#[tokio::test]
async fn a_server_that_never_answers_times_out_and_is_retried() {
    let Some(mut server) = SmtpServer::start(SmtpOptions::default()) else { return };
    server.hold();
    let url = SmtpUrl::parse(&Secret::new(format!("smtp://127.0.0.1:{}", server.port()))).unwrap();
    let settings = SmtpSettings::new(url, Mailbox::parse("noreply@example.com").unwrap());
    let smtp = Smtp::new(SmtpSettings { timeout: Duration::from_millis(300), ..settings }).unwrap();
    let outgoing = queue(smtp, impatient());
    outgoing.post(letter("ann@example.com"));
    soon(outgoing.until(|counts| counts.retries == 1)).await;
    server.release();
    soon(outgoing.until(|counts| counts.sent == 1)).await;
}

#[tokio::test]
async fn a_server_that_repeats_the_mail_in_its_answers_puts_nothing_into_the_log() {
    let Some(mut server) = SmtpServer::start(SmtpOptions::default()) else { return };
    let log = Log::default();
    let _guard = log.record();
    let outgoing = smtp_queue(&format!("smtp://127.0.0.1:{}", server.port()));
    for code in ["451 4.7.1", "554 5.7.1"] {
        let link = format!("https://app.example.com/auth/magic-link/verify?token={CANARY}");
        server.answer("DATA", &format!("{code} <ann-{CANARY}@example.com> must not get {link} or token={CANARY}"));
    }
    outgoing.post(letter(&format!("ann-{CANARY}@example.com")));
    soon(outgoing.until(|counts| counts.failed == 1)).await;
    let text = log.text();
    for expected in ["451 4.7.1", "554 5.7.1", "must not get", "domain=\"example.com\"", "kind=\"magic_link\""] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(!text.contains("canary") && !text.contains("verify") && !text.contains("ann-"), "{text}");
}

#[tokio::test]
async fn in_development_mails_are_sent_and_shown_once_even_when_sending_takes_several_attempts() {
    let Some(mut server) = SmtpServer::start(SmtpOptions::default()) else { return };
    server.answer("DATA", "451 4.3.0 try again");
    let url = SmtpUrl::parse(&Secret::new(format!("smtp://127.0.0.1:{}", server.port()))).unwrap();
    let smtp = Smtp::new(SmtpSettings::new(url, Mailbox::parse("noreply@example.com").unwrap())).unwrap();
    let mailbox = DevMailbox::new();
    let both = Both::new(mailbox.clone(), Arc::new(smtp));
    let outgoing = Outgoing::start(Arc::new(both), templates(), ambient(), impatient());
    outgoing.post(letter("ann@example.com"));
    soon(outgoing.until(|counts| counts.sent == 1)).await;
    let (shown, sent) = (mailbox.mails(), server.mails(2).await);
    assert_eq!((shown.len(), sent.len()), (1, 2));
    let text = sent[1].text.as_deref().unwrap().replace("\r\n", "\n");
    assert_eq!(shown[0].text.expose().trim(), text.trim());
}
