use super::{Claims, Preset, Protocol, Registration};

/// [LinkedIn](https://learn.microsoft.com/linkedin/consumer/integrations/self-serve/sign-in-with-linkedin-v2). It
/// refuses a PKCE challenge of a client with a secret, and its `id_token` has no nonce.
pub(super) const PRESET: Preset = Preset {
    name: "linkedin",
    label: "LinkedIn",
    protocol: Protocol::OpenId { issuer: "https://www.linkedin.com/oauth", takes_nonce: false, posts: false },
    registration: Registration::Secret,
    scopes: &["openid", "profile", "email"],
    parameters: &[],
    takes_pkce: false,
    claims: Claims::STANDARD,
};
