use std::net::IpAddr;

use gatewright_base::{Secret, nearest};
use percent_encoding::percent_decode_str;
use url::{Host, Url};

/// The mail server's address, its protocol, and the login: `smtp_url` in the configuration.
///
/// | URL | connection | default port |
/// |---|---|---|
/// | `smtps://host` | TLS from the first byte | 465 |
/// | `smtp+starttls://host`, `smtp://host?tls=required` | STARTTLS, or nothing is sent | 587 |
/// | `smtp://host?tls=opportunistic` | STARTTLS where the server offers it | 25 |
/// | `smtp://host?tls=none` | plain | 25 |
/// | `smtp://user:password@host` | STARTTLS required: a password is not sent in the clear unasked | 587 |
/// | `smtp://host` | opportunistic | 25 |
/// | `smtp://localhost`, `smtp://127.0.0.1` | plain: the connection never leaves the machine | 25 |
///
/// A user name and a password are percent-encoded, so that `@ : / # ? %` can be in them. A path is the name for EHLO,
/// instead of the computer's own: `smtp://host/app.example.com`. `Debug` shows no credentials.
#[derive(Debug, Clone)]
pub struct SmtpUrl {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) security: Security,
    pub(super) credentials: Option<Credentials>,
    pub(super) hello: Option<String>,
    /// Whether the host is this machine.
    local: bool,
}

/// How the connection is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Security {
    /// No TLS.
    None,
    /// By STARTTLS if the server offers it.
    Opportunistic,
    /// By STARTTLS; without it there is no connection.
    Required,
    /// By TLS from the first byte.
    Wrapped,
}

/// A user name and a password.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    pub(super) user: Secret,
    pub(super) password: Secret,
}

/// The error in the URL. It never repeats the URL, which may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSmtpUrl {
    /// It cannot be parsed.
    #[error(
        "is not a URL ({0}); write smtps://user:password@mail.example.com, with @ : / # ? % in the user name and the \
         password percent-encoded"
    )]
    Unreadable(url::ParseError),
    /// Another scheme.
    #[error("must begin with smtp://, smtps:// or smtp+starttls://")]
    Scheme,
    /// No host, or one that cannot be one.
    #[error("must name the mail server's host, such as smtps://mail.example.com")]
    Host,
    /// Port 0.
    #[error("has port 0, which no mail server listens on")]
    Port,
    /// One without the other.
    #[error("must have both a user name and a password, or neither")]
    HalfCredentials,
    /// An invalid percent escape, or bytes that are not UTF-8.
    #[error("has a user name or password that is not percent-encoded UTF-8; write % as %25")]
    Credentials,
    /// A path that is not a host name.
    #[error("may have the name for EHLO as its path, such as /app.example.com, and nothing else")]
    Hello,
    /// `#…`.
    #[error("must not have a # in it; write %23 in a user name or password")]
    Fragment,
    /// `?something=…`.
    #[error("takes no parameter but tls{}", hint(*.0))]
    Parameter(Option<&'static str>),
    /// `?tls=something`.
    #[error("takes tls=required, tls=opportunistic or tls=none")]
    Tls,
    /// `tls=` although the scheme determines it.
    #[error("takes a tls parameter with smtp:// only: smtps:// and smtp+starttls:// are always encrypted")]
    TlsTwice,
}

fn hint(nearest: Option<&'static str>) -> String {
    nearest.map(|word| format!("; did you mean {word}?")).unwrap_or_default()
}

impl SmtpUrl {
    /// Reads a URL.
    pub fn parse(text: &Secret) -> Result<Self, InvalidSmtpUrl> {
        let url = Url::parse(text.expose().trim()).map_err(InvalidSmtpUrl::Unreadable)?;
        if !matches!(url.scheme(), "smtp" | "smtps" | "smtp+starttls") {
            return Err(InvalidSmtpUrl::Scheme);
        }
        if url.fragment().is_some() {
            return Err(InvalidSmtpUrl::Fragment);
        }
        let host = host(&url)?;
        let credentials = credentials(&url)?;
        let local = is_loopback(&host);
        let security = security(&url, local, credentials.is_some())?;
        let usual_port = match security {
            Security::Wrapped => 465,
            Security::Required => 587,
            Security::None | Security::Opportunistic => 25,
        };
        let port = url.port().unwrap_or(usual_port);
        if port == 0 {
            return Err(InvalidSmtpUrl::Port);
        }
        // TLS and the resolver want IPv6 addresses without brackets.
        let host = match host {
            Host::Domain(name) => name,
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        Ok(Self { host, port, security, credentials, hello: hello(&url)?, local })
    }

    /// Whether mails leave this machine only encrypted, also when somebody changes what the server answers.
    pub fn is_protected(&self) -> bool {
        self.local || matches!(self.security, Security::Required | Security::Wrapped)
    }
}

fn host(url: &Url) -> Result<Host, InvalidSmtpUrl> {
    // To the URL parser a host under these schemes is just text; read it as it would under http.
    let text = url.host_str().filter(|host| !host.is_empty()).ok_or(InvalidSmtpUrl::Host)?;
    Host::parse(text).map_err(|_| InvalidSmtpUrl::Host)
}

fn is_loopback(host: &Host) -> bool {
    match host {
        Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => IpAddr::V6(*address).to_canonical().is_loopback(),
    }
}

fn credentials(url: &Url) -> Result<Option<Credentials>, InvalidSmtpUrl> {
    match (url.username(), url.password().unwrap_or_default()) {
        ("", "") => Ok(None),
        ("", _) | (_, "") => Err(InvalidSmtpUrl::HalfCredentials),
        (user, password) => Ok(Some(Credentials { user: decoded(user)?, password: decoded(password)? })),
    }
}

fn decoded(text: &str) -> Result<Secret, InvalidSmtpUrl> {
    let is_escape = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if !text.split('%').skip(1).all(is_escape) {
        return Err(InvalidSmtpUrl::Credentials);
    }
    let decoded = percent_decode_str(text).decode_utf8().map_err(|_| InvalidSmtpUrl::Credentials)?;
    // NUL separates the fields of AUTH PLAIN (RFC 4616).
    if decoded.contains('\0') { Err(InvalidSmtpUrl::Credentials) } else { Ok(Secret::new(decoded)) }
}

fn security(url: &Url, is_loopback: bool, has_credentials: bool) -> Result<Security, InvalidSmtpUrl> {
    let mut asked = None;
    for (name, value) in url.query_pairs() {
        if name != "tls" {
            return Err(InvalidSmtpUrl::Parameter(nearest(&name, ["tls"])));
        }
        let security = match &*value {
            "required" => Security::Required,
            "opportunistic" => Security::Opportunistic,
            "none" => Security::None,
            _ => return Err(InvalidSmtpUrl::Tls),
        };
        if asked.replace(security).is_some() {
            return Err(InvalidSmtpUrl::Tls);
        }
    }
    match (url.scheme(), asked) {
        ("smtp", Some(security)) => Ok(security),
        ("smtp", None) if is_loopback => Ok(Security::None),
        ("smtp", None) if has_credentials => Ok(Security::Required),
        ("smtp", None) => Ok(Security::Opportunistic),
        (_, Some(_)) => Err(InvalidSmtpUrl::TlsTwice),
        ("smtps", None) => Ok(Security::Wrapped),
        (_, None) => Ok(Security::Required),
    }
}

/// The path, which is used unchanged in the EHLO command.
fn hello(url: &Url) -> Result<Option<String>, InvalidSmtpUrl> {
    let name = url.path().strip_prefix('/').unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
    match name {
        "" => Ok(None),
        name if name.len() <= 255 && name.chars().all(plain) => Ok(Some(name.to_owned())),
        _ => Err(InvalidSmtpUrl::Hello),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<SmtpUrl, InvalidSmtpUrl> {
        SmtpUrl::parse(&Secret::new(text))
    }

    #[test]
    fn the_scheme_the_host_and_the_credentials_decide_how_safe_a_connection_must_be() {
        let cases = [
            ("smtps://mail.example.com", "mail.example.com", 465, Security::Wrapped),
            ("smtps://127.0.0.1:4650", "127.0.0.1", 4650, Security::Wrapped),
            ("smtp+starttls://mail.example.com", "mail.example.com", 587, Security::Required),
            ("smtp+starttls://localhost:2525", "localhost", 2525, Security::Required),
            ("smtp://mail.example.com?tls=required", "mail.example.com", 587, Security::Required),
            ("smtp://mail.example.com/?tls=opportunistic", "mail.example.com", 25, Security::Opportunistic),
            ("smtp://u:p@mail.example.com?tls=opportunistic", "mail.example.com", 25, Security::Opportunistic),
            ("smtp://u:p@mail.example.com:2525?tls=none", "mail.example.com", 2525, Security::None),
            ("smtp://u:p@mail.example.com", "mail.example.com", 587, Security::Required),
            ("smtp://u:p@mail.example.com:25", "mail.example.com", 25, Security::Required),
            ("smtp://mail.example.com", "mail.example.com", 25, Security::Opportunistic),
            ("smtp://10.0.0.7:1025", "10.0.0.7", 1025, Security::Opportunistic),
            ("smtp://127.0.0.1:2525", "127.0.0.1", 2525, Security::None),
            ("smtp://u:p@127.0.0.1:2525", "127.0.0.1", 2525, Security::None),
            ("smtp://localhost", "localhost", 25, Security::None),
            ("smtp://Mail.LOCALHOST", "mail.localhost", 25, Security::None),
            ("smtp://[::1]:2525", "::1", 2525, Security::None),
            ("smtp://[::ffff:127.0.0.1]", "::ffff:127.0.0.1", 25, Security::None),
            ("smtp://[2001:db8::1]", "2001:db8::1", 25, Security::Opportunistic),
            ("smtp://bücher.example", "xn--bcher-kva.example", 25, Security::Opportunistic),
            // They are not the machine itself, although they look similar.
            ("smtp://u:p@localhost.example.com", "localhost.example.com", 587, Security::Required),
            ("smtp://u:p@127.0.0.1.example.com", "127.0.0.1.example.com", 587, Security::Required),
        ];
        for (text, host, port, security) in cases {
            let url = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!((&*url.host, url.port, url.security), (host, port, security), "{text}");
        }
    }

    #[test]
    fn credentials_are_decoded_and_never_shown() {
        let url = parse("smtps://canary%40example.com:canary%40%3A%2F%23%3F%25%C3%BC@mail.example.com/app.example.com")
            .unwrap();
        let credentials = url.credentials.as_ref().unwrap();
        assert_eq!(credentials.user.expose(), "canary@example.com");
        assert_eq!(credentials.password.expose(), "canary@:/#?%ü");
        assert_eq!(url.hello.as_deref(), Some("app.example.com"));
        let shown = format!("{url:?}");
        assert!(!shown.contains("canary"), "{shown}");
    }

    #[test]
    fn errors_are_sentences_without_the_password() {
        let cases = [
            ("", "is not a URL"),
            ("mail.example.com", "is not a URL"),
            ("mail.example.com:587", "must begin with smtp://"),
            ("http://canary:canary@mail.example.com", "must begin with smtp://"),
            ("smtp+tls://canary:canary@mail.example.com", "must begin with smtp://"),
            ("smtp:mail.example.com", "must name the mail server's host"),
            ("smtp://", "must name the mail server's host"),
            ("smtp:///app", "must name the mail server's host"),
            ("smtp://mail%20example.com", "must name the mail server's host"),
            ("smtp://999.1.1.1", "must name the mail server's host"),
            ("smtp://mail.example.com:0", "port 0"),
            ("smtp://mail.example.com:70000", "is not a URL"),
            ("smtp://user:canary/x@mail.example.com", "percent-encoded"),
            ("smtp://user:canary#x@mail.example.com", "percent-encoded"),
            ("smtp://mail.example.com#canary", "must not have a #"),
            ("smtp://canary@mail.example.com", "both a user name and a password"),
            ("smtp://canary:@mail.example.com", "both a user name and a password"),
            ("smtp://:canary@mail.example.com", "both a user name and a password"),
            ("smtp://user:canary%@mail.example.com", "%25"),
            ("smtp://user:canary%zz@mail.example.com", "%25"),
            ("smtp://user:canary%ff@mail.example.com", "%25"),
            ("smtp://user:canary%00@mail.example.com", "%25"),
            ("smtp://mail.example.com/a/b", "EHLO"),
            ("smtp://mail.example.com/a%0d%0aMAIL", "EHLO"),
            ("smtp://mail.example.com/a b", "EHLO"),
            ("smtp://mail.example.com?tsl=required", "did you mean tls?"),
            ("smtp://mail.example.com?canary=1", "takes no parameter but tls"),
            ("smtp://mail.example.com?tls=yes", "tls=required"),
            ("smtp://mail.example.com?tls=required&tls=none", "tls=required"),
            ("smtps://mail.example.com?tls=none", "with smtp:// only"),
            ("smtp+starttls://mail.example.com?tls=none", "with smtp:// only"),
        ];
        for (text, expected) in cases {
            let error = parse(text).expect_err(text);
            let sentence = error.to_string();
            assert!(sentence.contains(expected), "{text}: {sentence}");
            assert!(!sentence.contains("canary") && !format!("{error:?}").contains("canary"), "{text}: {error:?}");
        }
    }
}
