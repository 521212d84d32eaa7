use super::{Claims, Preset, Protocol, Registration};

/// [Sign in with Slack](https://docs.slack.dev/authentication/sign-in-with-slack/).
pub(super) const PRESET: Preset = Preset {
    name: "slack",
    label: "Slack",
    protocol: Protocol::OpenId { issuer: "https://slack.com", takes_nonce: true, posts: false },
    registration: Registration::Secret,
    scopes: &["openid", "profile", "email"],
    parameters: &[],
    takes_pkce: true,
    claims: Claims { picture: "https://slack.com/user_image_512", ..Claims::STANDARD },
};
