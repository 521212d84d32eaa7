use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::read::{FromNode, LISTEN_ADDRESS, Node, Report, Section, ToToml, Value, listen_address};

/// An address or a socket to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// TCP. Port 0 takes a free one.
    Tcp(SocketAddr),
    /// A Unix socket with this path: `unix:/path`.
    Unix(PathBuf),
}

/// `[server.tls]`: TLS without a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The certificate and those of its authorities, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
    /// Where plain HTTP is led to HTTPS.
    pub redirect_http: Option<SocketAddr>,
}

impl Tls {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        Self {
            certificate: section
                .required::<String>(
                    "certificate",
                    "A PEM file with the certificate and those of its authorities, the server's own first. `gatewright reload` \
                     reads it again.",
                )
                .into(),
            key: section.required::<String>("key", "A PEM file with the private key of the certificate.").into(),
            redirect_http: section.optional(
                "redirect_http",
                "An address, such as `\"0.0.0.0:80\"`, on which plain HTTP is led to `public_url`.",
            ),
        }
    }
}

/// The value of `server.listen`: one, or a list of at least one.
pub(super) struct Listens(pub(super) Vec<Listen>);

/// The beginning of the path of a socket.
const UNIX: &str = "unix:";

impl FromNode for Listens {
    fn from_node(node: &Node, report: &Report<'_>) -> Option<Self> {
        let one = |node: &Node, report: &Report<'_>| match &node.value {
            Value::Text(text) if text.starts_with(UNIX) => Some(Listen::Unix(PathBuf::from(&text[UNIX.len()..]))),
            _ => SocketAddr::from_node(node, report).map(Listen::Tcp),
        };
        let Value::List(items) = &node.value else { return one(node, report).map(|listen| Self(vec![listen])) };
        if items.is_empty() {
            report.expected(node, LISTEN_ADDRESS);
        }
        let read: Vec<_> = items.iter().enumerate().map(|(index, item)| one(item, &report.item(index))).collect();
        read.into_iter().collect::<Option<Vec<_>>>().filter(|listens| !listens.is_empty()).map(Self)
    }

    fn kind() -> String {
        "address and port, `unix:/path`, or a list of these".to_owned()
    }
}

impl ToToml for Listens {
    fn toml(&self) -> String {
        match &*self.0 {
            [one] => format!("\"{one}\""),
            several => format!("[{}]", several.iter().map(|one| format!("\"{one}\"")).collect::<Vec<_>>().join(", ")),
        }
    }
}

impl Listen {
    /// Reads the text of one.
    pub fn parse(text: &str) -> Option<Self> {
        match text.strip_prefix(UNIX) {
            Some(path) => Some(Self::Unix(PathBuf::from(path))),
            None => listen_address(text).map(Self::Tcp),
        }
    }

    /// The address, if it is one.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}
