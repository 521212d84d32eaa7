//! How a program wants its user to be signed in: `prompt`, `max_age`, `login_hint` and `nonce` (OpenID Connect Core, 3.1.2.1).

use jiff::{SignedDuration, Timestamp};
use url::form_urlencoded;

use super::super::error::{Code, OAuthError};
use super::super::parameters::Parameters;

/// What a request says about the sign-in of its user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct LoginWishes {
    /// No page may be shown.
    pub(in super::super) silent: bool,
    /// The user has to be asked for consent again.
    pub(in super::super) consent: bool,
    /// The user has to sign in again, or to choose an account.
    again: bool,
    /// The longest time since the sign-in.
    max_age: Option<SignedDuration>,
    /// When this server sent the browser to sign in again.
    sent_at: Option<Timestamp>,
    /// An `id_token` of the user that the program means.
    pub(in super::super) meant: Option<String>,
    /// The address of the user, as far as the program knows.
    pub(in super::super) hint: Option<String>,
    /// Comes back in the `id_token`.
    pub(in super::super) nonce: Option<String>,
}

/// The longest `nonce` and `login_hint`, in bytes.
pub(in super::super) const MAX_TEXT: usize = 512;
/// In the address to which the browser returns after it was sent to sign in again. Without it, it would be sent again.
const SENT_AT: &str = "signed_in_after";
/// How long that takes at most.
const SIGNING_IN: SignedDuration = SignedDuration::from_mins(30);

impl LoginWishes {
    /// Reads them. A server without OpenID Connect reads `prompt=consent` alone.
    pub(in super::super) fn read(parameters: &Parameters, openid: bool) -> Result<Self, OAuthError> {
        let words: Vec<&str> =
            parameters.get("prompt").unwrap_or_default().split(' ').filter(|word| !word.is_empty()).collect();
        let asks = |word: &str| words.contains(&word);
        if !openid {
            return Ok(Self { consent: asks("consent"), ..Self::default() });
        }
        for (name, code, description) in [
            ("request", Code::RequestNotSupported, "request objects are not supported; send parameters"),
            ("request_uri", Code::RequestUriNotSupported, "request_uri is not supported; send parameters"),
            ("registration", Code::RegistrationNotSupported, "registration is not supported here; use the endpoint"),
        ] {
            if parameters.get(name).is_some() {
                return Err(OAuthError::new(code, description));
            }
        }
        if parameters.get("response_mode").is_some_and(|mode| mode != "query") {
            return Err(OAuthError::invalid_request("response_mode is query"));
        }
        if asks("none") && words.len() > 1 {
            return Err(OAuthError::invalid_request("prompt=none stands alone"));
        }
        let max_age = parameters.get("max_age").map(|text| text.parse::<u32>().map(i64::from));
        let max_age = max_age.transpose();
        let max_age = max_age.map_err(|_| OAuthError::invalid_request("max_age is a number of seconds"))?;
        let text = |name: &str, long: &'static str| match parameters.get(name) {
            Some(text) if text.len() > MAX_TEXT => Err(OAuthError::invalid_request(long)),
            text => Ok(text.map(str::to_owned)),
        };
        let sent_at = parameters.get(SENT_AT).and_then(|text| text.parse().ok());
        Ok(Self {
            silent: asks("none"),
            consent: asks("consent"),
            again: asks("login") || asks("select_account"),
            max_age: max_age.map(SignedDuration::from_secs),
            sent_at: sent_at.and_then(|at| Timestamp::from_millisecond(at).ok()),
            meant: parameters.get("id_token_hint").map(str::to_owned),
            hint: text("login_hint", "login_hint has at most 512 bytes")?,
            nonce: text("nonce", "nonce has at most 512 bytes")?,
        })
    }

    /// Whether the user has signed in, at `signed_in`, after this server had sent the browser to do so.
    pub(in super::super) fn has_returned(&self, signed_in: Timestamp, now: Timestamp) -> bool {
        let is_recent = |at: Timestamp| at <= now && now.duration_since(at) <= SIGNING_IN;
        self.sent_at.is_some_and(|sent_at| is_recent(sent_at) && sent_at <= signed_in)
    }

    /// Whether a sign-in at `signed_in` is not enough.
    pub(in super::super) fn want_another(&self, signed_in: Timestamp, now: Timestamp) -> bool {
        if self.has_returned(signed_in, now) {
            return false;
        }
        self.again || self.max_age.is_some_and(|max_age| now.duration_since(signed_in) > max_age)
    }
}

/// A request's query, for the return from the sign-in that it wants.
pub(in super::super) fn after_sign_in(query: &str, now: Timestamp) -> String {
    let kept = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name != SENT_AT);
    let sent_at = now.as_millisecond().to_string();
    form_urlencoded::Serializer::new(String::new()).extend_pairs(kept).append_pair(SENT_AT, &sent_at).finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<LoginWishes, OAuthError> {
        LoginWishes::read(&Parameters::parse(query.as_bytes()).unwrap(), true)
    }

    #[test]
    fn a_sign_in_is_asked_for_again_until_there_was_one() {
        let at = |seconds: i64| Timestamp::from_second(1_000_000 + seconds).unwrap();
        for (query, signed_in, wants) in [
            ("", -100_000, false),
            ("prompt=login", 0, true),
            ("prompt=select_account", 0, true),
            ("prompt=consent", -100_000, false),
            ("max_age=60", -61, true),
            ("max_age=0", -1, true),
        ] {
            let wishes = read(query).unwrap();
            assert_eq!(wishes.want_another(at(signed_in), at(0)), wants, "{query}");
            let returned = read(&after_sign_in(query, at(0))).unwrap();
            assert_eq!(returned.want_another(at(-100), at(5)), wants, "{query}: the old session");
            assert!(!returned.want_another(at(1), at(5)), "{query}: the new one");
            assert_eq!(
                returned.want_another(at(1), at(3_600)),
                wants && !query.starts_with("prompt=consent"),
                "{query}"
            );
        }
        assert!(!read("max_age=60").unwrap().want_another(at(-60), at(0)), "exactly that long ago");
        let twice = after_sign_in(&after_sign_in("prompt=login&state=a%26b", at(0)), at(9));
        assert_eq!(twice, format!("prompt=login&state=a%26b&signed_in_after={}", at(9).as_millisecond()));
    }

    #[test]
    fn what_is_not_supported_is_refused_by_its_own_code() {
        for (query, code) in [
            ("request=x", "request_not_supported"),
            ("request_uri=https://x", "request_uri_not_supported"),
            ("registration={}", "registration_not_supported"),
            ("response_mode=form_post", "invalid_request"),
            ("prompt=none login", "invalid_request"),
            ("max_age=-1", "invalid_request"),
            ("max_age=x", "invalid_request"),
        ] {
            assert_eq!(read(query).unwrap_err().code.name(), code, "{query}");
        }
        let long = "n".repeat(513);
        assert!(read(&format!("nonce={long}")).is_err() && read(&format!("login_hint={long}")).is_err());
        assert!(read("response_mode=query&prompt=none&max_age=4294967295").is_ok());
    }
}
