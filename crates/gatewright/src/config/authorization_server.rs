use std::collections::BTreeMap;
use std::time::Duration;

use super::read::Section;

/// `[authorization_server]`: OAuth 2.1 for MCP clients and other programs.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the configuration")]
pub struct AuthorizationServer {
    /// Whether it is mounted.
    pub enabled: bool,
    /// Whether clients may register themselves (RFC 7591).
    pub dynamic_registration: bool,
    /// Whether the URL of a Client ID Metadata Document is a client identifier.
    pub client_documents: bool,
    /// How long an access token lasts.
    pub access_token_ttl: Duration,
    /// How long an unused refresh token lasts.
    pub refresh_token_ttl: Duration,
    /// Whether it signs users of other programs in, by OpenID Connect.
    pub openid: bool,
    /// Where further claims about users come from, by name: `profile.FIELD`, `roles` or `tenant`.
    pub claims: BTreeMap<String, String>,
}

/// `[mcp]`: the tool surface.
#[derive(Debug, Clone)]
pub struct Mcp {
    /// Whether it is mounted.
    pub enabled: bool,
    /// Whether anonymous callers may connect while the authorization server is on. They always may while it is off.
    pub anonymous: bool,
}

impl Default for AuthorizationServer {
    fn default() -> Self {
        Self {
            enabled: false,
            dynamic_registration: false,
            client_documents: true,
            access_token_ttl: Duration::from_hours(1),
            refresh_token_ttl: Duration::from_hours(30 * 24),
            openid: false,
            claims: BTreeMap::new(),
        }
    }
}

impl AuthorizationServer {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            enabled: section.value("enabled", default.enabled, "Whether the authorization server is enabled."),
            dynamic_registration: section.value(
                "dynamic_registration",
                default.dynamic_registration,
                "Clients may register themselves (RFC 7591).",
            ),
            client_documents: section.value(
                "client_metadata_documents",
                default.client_documents,
                "The `https` URL of a client's metadata document is accepted as its `client_id`.",
            ),
            access_token_ttl: section.seconds(
                "access_token_ttl_seconds",
                default.access_token_ttl,
                "How long an access token is valid: at most a day.",
            ),
            refresh_token_ttl: section.seconds(
                "refresh_token_ttl_seconds",
                default.refresh_token_ttl,
                "How long an unused refresh token is valid: at most a year.",
            ),
            openid: section.value(
                "openid",
                default.openid,
                "Other programs sign their users in here, by OpenID Connect: [OpenID Provider](openid-provider.md).",
            ),
            claims: section.entries(
                "claims",
                "Where the claim of this name comes from: `\"profile.FIELD\"` (for programs with the scope `profile`), \
                 `\"roles\"` or `\"tenant\"`.",
            ),
        }
    }
}

impl Default for Mcp {
    fn default() -> Self {
        Self { enabled: cfg!(feature = "mcp"), anonymous: false }
    }
}

impl Mcp {
    pub(super) fn read(section: &mut Section<'_>) -> Self {
        let default = Self::default();
        Self {
            enabled: section.value("enabled", default.enabled, "Whether the [tools](mcp.md) at `/mcp` are enabled."),
            anonymous: section.value(
                "anonymous",
                default.anonymous,
                "Whether callers without credentials may use `/mcp` if the authorization server is enabled. If it is \
                 disabled, they always may.",
            ),
        }
    }
}
