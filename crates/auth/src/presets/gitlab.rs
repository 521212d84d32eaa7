use super::{Claims, Preset, Protocol, Registration};

/// [GitLab](https://docs.gitlab.com/integration/openid_connect_provider/), or an installation of it with its own
/// issuer.
pub(super) const PRESET: Preset = Preset {
    name: "gitlab",
    label: "GitLab",
    protocol: Protocol::OpenId { issuer: "https://gitlab.com", takes_nonce: true, posts: false },
    registration: Registration::Secret,
    scopes: &["openid", "profile", "email"],
    parameters: &[],
    takes_pkce: true,
    claims: Claims::STANDARD,
};
