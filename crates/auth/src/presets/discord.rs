use super::{Claims, Preset, Protocol, Registration, TokenAuth, Vouched};

/// [Discord](https://discord.com/developers/docs/topics/oauth2). `verified` is about the address. A picture is stored by
/// its hash.
pub(super) const PRESET: Preset = Preset {
    name: "discord",
    label: "Discord",
    protocol: Protocol::OAuth2 {
        authorize_url: "https://discord.com/oauth2/authorize",
        token_url: "https://discord.com/api/oauth2/token",
        userinfo_url: "https://discord.com/api/users/@me",
        token_auth: TokenAuth::Basic,
    },
    registration: Registration::Secret,
    scopes: &["identify", "email"],
    parameters: &[],
    takes_pkce: true,
    claims: Claims {
        subject: "id",
        email: "email",
        email_verified: Vouched::By("verified"),
        name: &["global_name", "username"],
        picture: "https://cdn.discordapp.com/avatars/{id}/{avatar}.png",
    },
};
