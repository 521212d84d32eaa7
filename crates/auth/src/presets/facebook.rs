use super::{Claims, Preset, Protocol, Registration, TokenAuth, Vouched};

/// [Facebook](https://developers.facebook.com/docs/facebook-login/guides/advanced/manual-flow). Its identifiers are
/// those of the app. It says nothing about its addresses, so they count as unverified.
pub(super) const PRESET: Preset = Preset {
    name: "facebook",
    label: "Facebook",
    protocol: Protocol::OAuth2 {
        authorize_url: "https://www.facebook.com/v23.0/dialog/oauth",
        token_url: "https://graph.facebook.com/v23.0/oauth/access_token",
        userinfo_url: "https://graph.facebook.com/v23.0/me?fields=id,name,email,picture.width(256)",
        token_auth: TokenAuth::Post,
    },
    registration: Registration::Secret,
    scopes: &["public_profile", "email"],
    parameters: &[],
    takes_pkce: true,
    claims: Claims {
        subject: "id",
        email: "email",
        email_verified: Vouched::Never,
        name: &["name"],
        picture: "picture.data.url",
    },
};
