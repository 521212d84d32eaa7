use super::{Claims, Preset, Protocol, Registration};

/// [Sign in with Apple](https://developer.apple.com/documentation/signinwithapplerestapi). With the scopes `name` and
/// `email` its answer is a form, which has the user's name at the first sign-in only. `email_verified` is a text or a boolean.
pub(super) const PRESET: Preset = Preset {
    name: "apple",
    label: "Apple",
    protocol: Protocol::OpenId { issuer: "https://appleid.apple.com", takes_nonce: true, posts: true },
    registration: Registration::Apple,
    scopes: &["openid", "name", "email"],
    parameters: &[("response_mode", "form_post")],
    takes_pkce: true,
    claims: Claims { name: &[], picture: "", ..Claims::STANDARD },
};
