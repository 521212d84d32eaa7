use super::{Claims, Preset, Protocol, Registration};

/// [Twitch](https://dev.twitch.tv/docs/authentication/getting-tokens-oidc/), which sends the claims that are requested.
pub(super) const PRESET: Preset = Preset {
    name: "twitch",
    label: "Twitch",
    protocol: Protocol::OpenId { issuer: "https://id.twitch.tv/oauth2", takes_nonce: true, posts: false },
    registration: Registration::Secret,
    scopes: &["openid", "user:read:email"],
    parameters: &[(
        "claims",
        r#"{"id_token":{"email":null,"email_verified":null,"picture":null,"preferred_username":null}}"#,
    )],
    takes_pkce: true,
    claims: Claims { name: &["preferred_username"], ..Claims::STANDARD },
};
