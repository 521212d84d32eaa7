//! The `state` parameter, which the provider returns in the callback (RFC 6749, section 10.12).
//!
//! It is `base64url(JSON) "." base64url(HMAC-SHA256)`, signed with a key derived from the configured state secret. It
//! contains the provider, the deadline, `next`, for linking the user, random bytes, and the digest of the flow's
//! [`Binding`](super::binding::Binding). The browser that starts a flow has the same text in a cookie. A browser without it,
//! with another one, or without the binding did not start this flow.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gatewright_base::{Ambient, Secret, SigningKey, UserId};
use gatewright_http::{Next, RedirectUrls};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::config::AuthConfig;
use crate::init_error::AuthInitError;

/// Part of the signed format: a state that is signed under another label is invalid.
const LABEL: &str = "gatewright/oauth-state/v2";

/// How long a user may take at the provider.
pub(super) const LIFETIME: SignedDuration = SignedDuration::from_mins(10);

/// The longest state, in bytes: with its name and attributes, its cookie stays below the limit of browsers, 4096 bytes.
/// A `next` that does not fit is left out.
const MAX_BYTES: usize = 3500;

/// Signs states and opens them.
pub(super) struct States {
    key: SigningKey,
    redirects: RedirectUrls,
    ambient: Ambient,
}

/// The purpose of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct State {
    /// The provider's word.
    pub(super) provider: String,
    /// The account that the identity is to be linked to; absent in a sign-in.
    pub(super) link_to: Option<UserId>,
    /// The redirect target after the flow.
    pub(super) next: Option<Next>,
    /// The digest that binds it to the browser.
    pub(super) bound_to: String,
}

/// The signed text.
#[derive(Serialize, Deserialize)]
struct Signed {
    #[serde(rename = "p")]
    provider: String,
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    link_to: Option<String>,
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    #[serde(rename = "b")]
    bound_to: String,
    /// In seconds since 1970.
    #[serde(rename = "e")]
    expires: i64,
    #[serde(rename = "r")]
    random: String,
}

impl States {
    /// Checks the secret and derives the key. In dev mode, and without providers, an empty secret is replaced by a random
    /// one.
    pub(super) fn new(
        (secret, previous): (&Secret, &[Secret]),
        needed: bool,
        config: &AuthConfig,
        ambient: &Ambient,
    ) -> Result<Self, AuthInitError> {
        if secret.is_empty() && needed && !config.dev_mode {
            let problem =
                "outside dev mode one of at least 32 bytes is required; without it anybody could forge a state";
            return Err(AuthInitError::Setting { setting: "oauth.state_secret", problem: problem.to_owned() });
        }
        if (1..Secret::MIN_BYTES).contains(&secret.len()) && !config.dev_mode {
            return Err(AuthInitError::ShortSecret { name: "the OAuth state secret", bytes: secret.len() });
        }
        for previous in previous {
            if previous.is_empty() || (previous.len() < Secret::MIN_BYTES && !config.dev_mode) {
                return Err(AuthInitError::ShortSecret {
                    name: "a previous OAuth state secret",
                    bytes: previous.len(),
                });
            }
        }
        if secret.is_empty() && !previous.is_empty() {
            let problem = "previous secrets without a current one: new states could not be signed";
            return Err(AuthInitError::Setting {
                setting: "oauth.state_previous_secrets",
                problem: problem.to_owned(),
            });
        }
        let key = SigningKey::derive(std::iter::once(secret).chain(previous), LABEL, ambient);
        Ok(Self { key, redirects: RedirectUrls::default(), ambient: ambient.clone() })
    }

    /// Keeps `next` if it is an allowed URL of another origin. If it is no longer allowed at the callback, it is
    /// ignored.
    pub(super) fn redirects(self, redirects: RedirectUrls) -> Self {
        Self { redirects, ..self }
    }

    /// The text of a new state. A client that has it and the cookie of its [`Binding`](super::binding::Binding) can finish
    /// the flow.
    pub(super) fn sign(&self, state: &State) -> Secret {
        let expires = self.ambient.now().saturating_add(LIFETIME).map_or(i64::MAX, Timestamp::as_second);
        let mut signed = Signed {
            provider: state.provider.clone(),
            link_to: state.link_to.as_ref().map(|id| id.as_str().to_owned()),
            next: state.next.as_ref().map(|next| next.as_str().to_owned()),
            bound_to: state.bound_to.clone(),
            expires,
            random: URL_SAFE_NO_PAD.encode(self.ambient.bytes::<16>()),
        };
        let text = self.seal(&signed);
        if text.len() <= MAX_BYTES {
            return text;
        }
        signed.next = None;
        self.seal(&signed)
    }

    /// The contents of `text`, if it is validly signed, for this provider, and not expired.
    pub(super) fn open(&self, text: &Secret, provider: &str) -> Option<State> {
        let payload = (text.len() <= MAX_BYTES).then(|| self.key.open(text.expose()))??;
        let signed: Signed = serde_json::from_slice(&payload).ok()?;
        if signed.provider != provider || self.ambient.now().as_second() >= signed.expires {
            return None;
        }
        let link_to = signed.link_to.map(|id| UserId::parse(&id)).transpose().ok()?;
        let next = signed.next.as_deref().and_then(|text| self.redirects.next(text));
        Some(State { provider: signed.provider, link_to, next, bound_to: signed.bound_to })
    }

    fn seal(&self, signed: &Signed) -> Secret {
        self.key.sign(&serde_json::to_vec(signed).expect("texts and a number are JSON"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gatewright_base::ManualClock;

    use super::*;

    const SECRET: &str = "a state secret of at least 32 bytes";

    fn states_with(secret: &str) -> (States, Arc<ManualClock>) {
        let (ambient, clock) = Ambient::manual("2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap(), 1);
        (States::new((&Secret::new(secret), &[]), true, &AuthConfig::default(), &ambient).unwrap(), clock)
    }

    fn link_state() -> State {
        State {
            provider: "google".to_owned(),
            link_to: Some(UserId::parse("user-1").unwrap()),
            next: Next::parse("/deep?x=1"),
            bound_to: "digest".to_owned(),
        }
    }

    #[test]
    fn a_state_can_be_read_back() {
        let (states, _) = states_with(SECRET);
        for state in [link_state(), State { link_to: None, next: None, ..link_state() }] {
            assert_eq!(states.open(&states.sign(&state), "google"), Some(state));
        }
    }

    #[test]
    fn two_states_for_the_same_flow_differ() {
        let (states, _) = states_with(SECRET);
        assert_ne!(states.sign(&link_state()), states.sign(&link_state()));
    }

    #[test]
    fn a_state_is_invalid_at_another_provider() {
        let (states, _) = states_with(SECRET);
        let text = states.sign(&link_state());
        for other in ["github", "google2", "Google", ""] {
            assert_eq!(states.open(&text, other), None, "{other}");
        }
    }

    #[test]
    fn during_a_rotation_replicas_accept_the_states_of_each_other() {
        let ambient = Ambient::manual("2026-01-02T03:04:05Z".parse::<Timestamp>().unwrap(), 1).0;
        let [old, new] = [SECRET, "another state secret, also of 32 bytes"].map(Secret::new);
        let states = |secret: &Secret, previous: &[Secret]| {
            States::new((secret, previous), true, &AuthConfig::default(), &ambient).unwrap()
        };
        let steps = [
            states(&old, &[]),
            states(&old, std::slice::from_ref(&new)),
            states(&new, std::slice::from_ref(&old)),
            states(&new, &[]),
        ];
        for pair in steps.windows(2) {
            assert!(pair[0].open(&pair[1].sign(&link_state()), "google").is_some());
            assert!(pair[1].open(&pair[0].sign(&link_state()), "google").is_some());
        }
        assert_eq!(steps[3].open(&steps[0].sign(&link_state()), "google"), None);
        for (secret, previous) in
            [(&new, Secret::new("short")), (&new, Secret::new("")), (&Secret::new(""), old.clone())]
        {
            assert!(States::new((secret, &[previous]), false, &AuthConfig::default(), &ambient).is_err());
        }
    }

    #[test]
    fn a_state_expires_after_ten_minutes() {
        let (states, clock) = states_with(SECRET);
        let text = states.sign(&link_state());
        clock.advance(SignedDuration::from_secs(599));
        assert!(states.open(&text, "google").is_some());
        clock.advance(SignedDuration::from_secs(1));
        assert!(states.open(&text, "google").is_none());
    }

    #[test]
    fn a_changed_bit_or_another_signature_makes_it_invalid() {
        let (states, _) = states_with(SECRET);
        let text = states.sign(&link_state());
        for index in 0..text.len() {
            let mut bytes = text.expose().as_bytes().to_vec();
            bytes[index] = if bytes[index] == b'A' { b'B' } else { b'A' };
            let changed = Secret::new(String::from_utf8(bytes).unwrap());
            assert_eq!(states.open(&changed, "google"), None, "at {index}");
        }
        let (strangers, _) = states_with("another state secret, also of 32 bytes");
        assert_eq!(states.open(&strangers.sign(&link_state()), "google"), None);
        let payload = text.expose().split_once('.').unwrap().0;
        for text in ["", ".", "a.b", payload, &format!("{payload}."), &"x".repeat(10_000)] {
            assert_eq!(states.open(&Secret::new(text), "google"), None, "{text}");
        }
    }

    #[test]
    fn a_next_that_is_too_long_for_a_cookie_is_left_out() {
        let (states, _) = states_with(SECRET);
        let long = Next::parse(&format!("/{}", "\u{e9}".repeat(1000)));
        assert!(long.is_some());
        let text = states.sign(&State { next: long, ..link_state() });
        assert!(text.len() <= MAX_BYTES);
        assert_eq!(states.open(&text, "google"), Some(State { next: None, ..link_state() }));
    }

    #[test]
    fn outside_dev_mode_a_long_secret_is_required() {
        let ambient = Ambient::manual(Timestamp::UNIX_EPOCH, 1).0;
        let dev = AuthConfig { dev_mode: true, ..AuthConfig::default() };
        let cases = [
            ("", true, false),
            ("short", true, false),
            ("", false, true),
            ("short", false, false),
            (SECRET, true, true),
        ];
        for (secret, needed, expected) in cases {
            let secret = Secret::new(secret);
            let made = States::new((&secret, &[]), needed, &AuthConfig::default(), &ambient);
            assert_eq!(made.is_ok(), expected, "{} bytes, {needed}", secret.len());
            assert!(States::new((&secret, &[]), needed, &dev, &ambient).is_ok());
        }
    }
}
