use super::{Claims, Preset, Protocol, Registration, TokenAuth, Vouched};

/// [Spotify](https://developer.spotify.com/documentation/web-api/reference/get-current-users-profile), which documents
/// its addresses as unverified.
pub(super) const PRESET: Preset = Preset {
    name: "spotify",
    label: "Spotify",
    protocol: Protocol::OAuth2 {
        authorize_url: "https://accounts.spotify.com/authorize",
        token_url: "https://accounts.spotify.com/api/token",
        userinfo_url: "https://api.spotify.com/v1/me",
        token_auth: TokenAuth::Basic,
    },
    registration: Registration::Secret,
    scopes: &["user-read-email", "user-read-private"],
    parameters: &[],
    takes_pkce: true,
    claims: Claims {
        subject: "id",
        email: "email",
        email_verified: Vouched::Never,
        name: &["display_name"],
        picture: "images.0.url",
    },
};
