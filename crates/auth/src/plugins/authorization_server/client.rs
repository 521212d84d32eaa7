use gatewright_base::{Scopes, ServiceId};
use gatewright_http::Origin;
use jiff::Timestamp;
use url::{Host, Url};

use super::openid::relying::Relying;
use super::redirect::RedirectUri;
use super::secret::Hash;

/// A program that may ask for tokens (RFC 6749, section 2).
#[derive(Debug, Clone)]
pub(super) struct Client {
    /// A UUID, or the `https://` URL of its metadata document.
    pub(super) id: String,
    /// Its name for itself. Any client can use any name.
    pub(super) name: String,
    pub(super) kind: ClientKind,
    pub(super) source: Source,
    /// Where its answers may go.
    pub(super) redirects: Vec<RedirectUri>,
    /// The scopes that it may request; `None` if they are not limited.
    pub(super) scopes: Option<Scopes>,
    /// How it signs users in.
    pub(super) identity: Relying,
    pub(super) created_at: Timestamp,
}

/// How a client proves that it is itself.
#[derive(Debug, Clone)]
pub(super) enum ClientKind {
    /// It has no secret: an application on a user's computer or in a browser.
    Public,
    /// It has a secret, of which this is the hash.
    Confidential { secret: Vec<u8> },
    /// It has a secret and acts as a service account, by `client_credentials`.
    Service { secret: Vec<u8>, account: ServiceId },
}

/// Who registered a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The operator, by the command line.
    Operator,
    /// The client itself, by dynamic registration (RFC 7591).
    Registration,
    /// The client itself, by a metadata document at the URL that is its identifier.
    Document,
}

impl Client {
    /// The redirect URI of a request, which must be one of the client's. It may be left out if the client has only one.
    pub(super) fn redirect(&self, asked: Option<&str>) -> Option<RedirectUri> {
        match (asked, &*self.redirects) {
            (Some(asked), registered) => {
                let asked = RedirectUri::parse(asked).ok()?;
                registered.iter().any(|one| one.admits(&asked)).then_some(asked)
            }
            (None, [only]) => Some(only.clone()),
            (None, _) => None,
        }
    }

    /// The host that vouches for it: that of its metadata document.
    pub(super) fn host(&self) -> Option<String> {
        match self.source {
            Source::Document => Url::parse(&self.id).ok().and_then(|url| url.host_str().map(str::to_owned)),
            Source::Operator | Source::Registration => None,
        }
    }

    /// Whether `secret` is its secret. Always false for a client without a secret.
    pub(super) fn has_secret(&self, secret: &str) -> bool {
        match &self.kind {
            ClientKind::Public => false,
            ClientKind::Confidential { secret: kept } | ClientKind::Service { secret: kept, .. } => {
                Hash::of(secret).is(kept)
            }
        }
    }

    pub(super) fn is_public(&self) -> bool {
        matches!(self.kind, ClientKind::Public)
    }
}

impl Source {
    /// The word that the table keeps. It never changes.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Registration => "registration",
            Self::Document => "document",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        [Self::Operator, Self::Registration, Self::Document].into_iter().find(|source| source.name() == name)
    }
}

/// The URL of a client's metadata document, if `id` is one: `https`, with a path, without dot segments, user information
/// and fragment, in its normal form.
pub(super) fn document_url(id: &str) -> Option<Url> {
    let url = Url::parse(id).ok().filter(|url| id.len() <= 512 && url.as_str() == id)?;
    let named = matches!(url.host(), Some(Host::Domain(name)) if name.contains('.') || name == "localhost");
    // An origin has no host that the URL parser accepts although it is none.
    let has_host = Origin::of(&url).is_some() && (named || !matches!(url.host(), Some(Host::Domain(_))));
    let bare = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    (url.scheme() == "https" && has_host && bare && url.path() != "/").then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_url_is_https_with_a_path_in_its_normal_form() {
        for good in ["https://app.example.com/client.json", "https://app.example.com/a/b?x=1"] {
            assert!(document_url(good).is_some(), "{good}");
        }
        for bad in [
            "http://app.example.com/client.json",
            "https://app.example.com",
            "https://app.example.com/",
            "https://app.example.com/a/../client.json",
            "https://app.example.com/client.json#x",
            "https://user@app.example.com/client.json",
            "HTTPS://app.example.com/client.json",
            "https://App.example.com/client.json",
            "https://app.example.com:443/client.json",
            "https://*.example.com/client.json",
            "https://app.example.com;x/client.json",
            "0190-uuid",
            "",
        ] {
            assert!(document_url(bad).is_none(), "{bad}");
        }
    }
}
