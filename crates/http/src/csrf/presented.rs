use std::sync::OnceLock;

use http::request::Parts;

use super::keys::Signed;
use super::token::Token;
use super::{Csrf, CsrfBinding, cookie_name};
use crate::{Scheme, cookies};

/// Cookies of one name that are tried: more than a browser keeps for honest reasons, and few enough to check.
const MAX_COOKIES: usize = 64;

/// The cookies of a request, and the session that they must be valid for.
pub(super) struct Presented {
    pub(super) binding: CsrfBinding,
    pub(super) secure: bool,
    pub(super) any_sent: bool,
    tokens: Vec<Token>,
    /// Computed on demand: most requests only read, and need no token.
    valid: OnceLock<Vec<(Token, Signed)>>,
}

impl Presented {
    /// All cookies of the name count: a cookie that was planted from a sibling domain is sent together with the valid
    /// one, maybe before it, and must not hide it.
    pub(super) fn of(csrf: &Csrf, parts: &Parts) -> Self {
        let secure = csrf.always_secure || Scheme::of(parts).is_https();
        let mut any_sent = false;
        let values = cookies::read_all(&parts.headers, cookie_name(secure)).take(MAX_COOKIES);
        let tokens = values.inspect(|_| any_sent = true).filter_map(|value| Token::parse_cookie(&value)).collect();
        let binding = parts.extensions.get::<CsrfBinding>().cloned().unwrap_or_default();
        Self { binding, secure, any_sent, tokens, valid: OnceLock::new() }
    }

    /// Tokens that are valid for the session, in the order of the request.
    pub(super) fn valid(&self, csrf: &Csrf) -> &[(Token, Signed)] {
        self.valid.get_or_init(|| {
            let signed = |token: &Token| csrf.keys.verify(token, &self.binding).map(|by| (token.clone(), by));
            self.tokens.iter().filter_map(signed).collect()
        })
    }
}
