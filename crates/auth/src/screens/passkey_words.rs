use std::collections::BTreeMap;

use gatewright_http::locale::Locale;

/// The codes that the script shows, with their texts in the reader's language: an object, empty in English.
pub(super) fn words() -> String {
    let codes = [
        "invalid_credentials",
        "invalid_code",
        "invalid_passkey",
        "last_credential",
        "passkey_refused",
        "passkey_registered",
        "passkeys_unavailable",
        "session_too_old",
        "too_many_passkeys",
        "unavailable",
    ];
    let locale = Locale::current();
    let words = codes.map(|code| (code, locale.translated(&format!("problem.{code}"))));
    let words: BTreeMap<_, _> = words.into_iter().filter_map(|(code, words)| Some((code, words?))).collect();
    serde_json::to_string(&words).unwrap_or_default()
}
