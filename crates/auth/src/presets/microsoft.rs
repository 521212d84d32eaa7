use super::{Claims, Preset, Protocol, Registration, Vouched};

/// [Microsoft](https://learn.microsoft.com/entra/identity-platform/v2-protocols-oidc): work, school and personal
/// accounts. Each tenant is an issuer. `email` is what the administrator of a tenant has written, so only `xms_edov` says that the
/// domain is the tenant's own. The picture needs a token.
pub(super) const PRESET: Preset = Preset {
    name: "microsoft",
    label: "Microsoft",
    protocol: Protocol::OpenId {
        issuer: "https://login.microsoftonline.com/{tenantid}/v2.0",
        takes_nonce: true,
        posts: false,
    },
    registration: Registration::Microsoft,
    scopes: &["openid", "profile", "email"],
    parameters: &[],
    takes_pkce: true,
    claims: Claims { email_verified: Vouched::By("xms_edov"), picture: "", ..Claims::STANDARD },
};
