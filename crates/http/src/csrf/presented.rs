use std::sync::OnceLock;

use http::request::Parts;

use super::keys::Signed;
use super::token::Token;
use super::{Csrf, CsrfBinding, cookie_name};
use crate::{Scheme, cookies};

/// Cookies of one name that are tried: more than a browser keeps for honest reasons, and few enough to check.
const MOST_COOKIES: usize = 64;

/// What a browser brought in its cookies, and the session that it must hold for.
pub(super) struct Presented {
    pub(super) binding: CsrfBinding,
    pub(super) secure: bool,
    pub(super) any_sent: bool,
    tokens: Vec<Token>,
    /// Found out when somebody asks: most requests only read, and ask for no token.
    valid: OnceLock<Vec<(Token, Signed)>>,
}

impl Presented {
    /// All cookies of the name count: one that somebody planted from a neighbouring domain is sent beside the good one,
    /// maybe before it, and must not hide it.
    pub(super) fn of(csrf: &Csrf, parts: &Parts) -> Self {
        let secure = csrf.always_secure || Scheme::of(parts).is_https();
        let mut any_sent = false;
        let values = cookies::read_all(&parts.headers, cookie_name(secure)).take(MOST_COOKIES);
        let tokens = values.inspect(|_| any_sent = true).filter_map(|value| Token::parse_cookie(&value)).collect();
        let binding = parts.extensions.get::<CsrfBinding>().cloned().unwrap_or_default();
        Self { binding, secure, any_sent, tokens, valid: OnceLock::new() }
    }

    /// Those that hold for the session, in the order they came.
    pub(super) fn valid(&self, csrf: &Csrf) -> &[(Token, Signed)] {
        self.valid.get_or_init(|| {
            let signed = |token: &Token| csrf.keys.verify(token, &self.binding).map(|by| (token.clone(), by));
            self.tokens.iter().filter_map(signed).collect()
        })
    }
}
