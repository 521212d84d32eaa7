use super::{Claims, Preset, Protocol, Registration, TokenAuth, Vouched};

/// [X](https://docs.x.com/fundamentals/authentication/oauth-2-0/authorization-code). `confirmed_email` is there only if
/// the user has confirmed the address.
pub(super) const PRESET: Preset = Preset {
    name: "x",
    label: "X",
    protocol: Protocol::OAuth2 {
        authorize_url: "https://x.com/i/oauth2/authorize",
        token_url: "https://api.x.com/2/oauth2/token",
        userinfo_url: "https://api.x.com/2/users/me?user.fields=confirmed_email,profile_image_url",
        token_auth: TokenAuth::Basic,
    },
    registration: Registration::Secret,
    scopes: &["users.read", "tweet.read", "users.email"],
    parameters: &[],
    takes_pkce: true,
    claims: Claims {
        subject: "data.id",
        email: "data.confirmed_email",
        email_verified: Vouched::Always,
        name: &["data.name", "data.username"],
        picture: "data.profile_image_url",
    },
};
