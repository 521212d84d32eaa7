//! OpenID Connect: other programs sign their users in here.
//!
//! A program asks for the scope `openid` and gets an `id_token` (`id_token`) with its access token. Keys of their own sign
//! these tokens, so that none is a credential of this service. The sign-in of a user is a part of the grant
//! ([`Login`](id_token::Login)): without `offline_access`, the grant ends with the session.
//!
//! `login` reads how the program wants its user to be signed in, `userinfo` answers with an access token, `end_session` signs the
//! user out for a program, and `back_channel` tells programs that a session has ended: `logouts` remembers whom to tell.

pub(super) mod answers;
pub(super) mod back_channel;
pub(super) mod claims;
pub(super) mod end_session;
pub(super) mod id_token;
pub(super) mod login;
pub(super) mod logouts;
pub(super) mod relying;
pub(super) mod userinfo;
pub(super) mod words;
