//! Accounts without an address.

use utoipa::openapi::path::HttpMethod;

use super::super::Draft;
use super::super::names::Page;
use super::signed_in;
use crate::Config;

pub(super) fn describe(draft: &mut Draft, base: &str, config: &Config) {
    let arrive = draft
        .auth(HttpMethod::Post, base, "/anonymous", "signInAsGuest", "Sign in as a guest")
        .about(
            "Creates an account without an address: `email` is null. Registering, a magic link, a code by mail or a provider \
             turns it into a full account with the same id. With the session of a guest, the answer has a new session of the \
             same guest.",
        )
        .answers(200, signed_in(config))
        .fails(&[403, 409, 500, 503], Page::Never)
        .limited();
    draft.add(arrive);
}
