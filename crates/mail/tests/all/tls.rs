use std::sync::Arc;

use gatewright_base::Secret;
use gatewright_mail::testing::{SmtpOptions, SmtpServer, SmtpTls};
use gatewright_mail::{Mailbox, Outgoing, Smtp, SmtpSettings, SmtpUrl};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::support::{CANARY, impatient, letter, queue, soon};
use gatewright_base::testing::Log;

/// An authority of its own, and a server certificate by it.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn tls(&self, host: &str, wrapped: bool) -> SmtpTls {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![host.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        SmtpTls { certificate: certificate.pem(), key: key.serialize_pem(), wrapped }
    }

    fn pem(&self) -> Vec<u8> {
        self.0.pem().into_bytes()
    }
}

fn server(tls: Option<SmtpTls>) -> Option<SmtpServer> {
    let credentials = Some(("mailer".to_owned(), CANARY.to_owned()));
    SmtpServer::start(SmtpOptions { credentials, tls, ..SmtpOptions::default() })
}

fn outgoing(scheme: &str, port: u16, more: &str, authority: &Authority) -> Outgoing {
    let url = format!("{scheme}://mailer:{CANARY}@localhost:{port}{more}");
    let url = SmtpUrl::parse(&Secret::new(url)).unwrap();
    let settings = SmtpSettings::new(url, Mailbox::parse("noreply@example.com").unwrap());
    queue(Smtp::new(SmtpSettings { more_authorities: vec![authority.pem()], ..settings }).unwrap(), impatient())
}

#[tokio::test]
async fn mails_travel_encrypted_by_starttls_and_from_the_first_byte() {
    let authority = Authority::new();
    for (scheme, more, wrapped) in [
        ("smtp+starttls", "", false),
        ("smtp", "?tls=required", false),
        ("smtp", "?tls=opportunistic", false),
        ("smtps", "", true),
    ] {
        let Some(mut server) = server(Some(authority.tls("localhost", wrapped))) else { return };
        let outgoing = outgoing(scheme, server.port(), more, &authority);
        outgoing.post(letter("ann@example.com"));
        let mail = server.mails(1).await.pop().unwrap();
        assert_eq!((mail.encrypted, mail.login.as_deref()), (true, Some("mailer")), "{scheme}{more}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_prove_its_name_gets_neither_password_nor_mail() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    for (scheme, wrapped) in [("smtp+starttls", false), ("smtp", false), ("smtps", true)] {
        let more = if scheme == "smtp" { "?tls=opportunistic" } else { "" };
        for tls in [stranger.tls("localhost", wrapped), authority.tls("other.example", wrapped)] {
            let Some(mut server) = server(Some(tls)) else { return };
            let log = Log::default();
            let _guard = log.record();
            let outgoing = outgoing(scheme, server.port(), more, &authority);
            outgoing.post(letter("ann@example.com"));
            soon(outgoing.until(|counts| counts.retries >= 2)).await;
            assert!(server.logins().is_empty() && server.mails(0).await.is_empty(), "{scheme}");
            assert!(log.text().contains("certificate") && !log.text().contains(CANARY), "{}", log.text());
        }
    }
}

/// Behaves like a server up to STARTTLS, and then sends more than "go ahead" unencrypted, as an attacker in between
/// could. Returns what the client sends under TLS, if it gets there.
async fn injecting_server(listener: TcpListener, tls: SmtpTls) -> Option<String> {
    let key = PrivateKeyDer::from_pem_slice(tls.key.as_bytes()).unwrap();
    let certificate = CertificateDer::from_pem_slice(tls.certificate.as_bytes()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    let mut stream = BufReader::new(listener.accept().await.unwrap().0);
    let mut line = String::new();
    let injected = "220 go ahead\r\n250-mail.test\r\n250 AUTH LOGIN\r\n235 welcome\r\n";
    for (answer, expected) in [("220 mail.test\r\n", "EHLO"), ("250-mail.test\r\n250 STARTTLS\r\n", "STARTTLS")] {
        stream.write_all(answer.as_bytes()).await.unwrap();
        line.clear();
        stream.read_line(&mut line).await.unwrap();
        assert!(line.starts_with(expected), "{line}");
    }
    stream.write_all(injected.as_bytes()).await.unwrap();
    let mut encrypted = TlsAcceptor::from(Arc::new(config)).accept(stream).await.ok()?;
    let mut said = vec![0; 1000];
    let count = encrypted.read(&mut said).await.ok()?;
    (count > 0).then(|| String::from_utf8_lossy(&said[..count]).into_owned())
}

#[tokio::test]
async fn responses_injected_before_starttls_are_ignored() {
    let authority = Authority::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = tokio::spawn(injecting_server(listener, authority.tls("localhost", false)));
    let outgoing = outgoing("smtp+starttls", port, "", &authority);
    outgoing.post(letter("ann@example.com"));
    soon(outgoing.until(|counts| counts.retries >= 1)).await;
    assert_eq!(server.await.unwrap(), None);
    assert_eq!(outgoing.counts().sent, 0);
}

#[tokio::test]
async fn without_starttls_neither_password_nor_mail_is_sent() {
    let authority = Authority::new();
    let Some(mut server) = server(None) else { return };
    let log = Log::default();
    let _guard = log.record();
    for (scheme, more) in [("smtp+starttls", ""), ("smtp", "?tls=required")] {
        let outgoing = outgoing(scheme, server.port(), more, &authority);
        outgoing.post(letter("ann@example.com"));
        soon(outgoing.until(|counts| counts.failed == 1)).await;
        assert!(server.logins().is_empty() && server.mails(0).await.is_empty());
    }
    assert!(log.text().contains("STARTTLS is not supported"), "{}", log.text());
    // The same server, without the requirement that it cannot meet.
    let outgoing = outgoing("smtp", server.port(), "?tls=none", &authority);
    outgoing.post(letter("ann@example.com"));
    assert!(!server.mails(1).await[0].encrypted);
}
