//! Authentication from outside: a router, requests and answers, on both engines.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "all/support/mod.rs"]
mod support;

#[path = "all/account.rs"]
mod account;
#[path = "all/accounts.rs"]
mod accounts;
#[path = "all/addresses.rs"]
mod addresses;
#[path = "all/admission.rs"]
mod admission;
#[path = "all/audit.rs"]
mod audit;
#[path = "all/capabilities.rs"]
mod capabilities;
#[path = "all/cross_site.rs"]
mod cross_site;
#[path = "all/cut/mod.rs"]
mod cut;
#[path = "all/devices/mod.rs"]
mod devices;
#[path = "all/disabled.rs"]
mod disabled;
#[path = "all/email_change/mod.rs"]
mod email_change;
#[path = "all/ended.rs"]
mod ended;
#[path = "all/forbidden.rs"]
mod forbidden;
#[path = "all/fresh.rs"]
mod fresh;
#[path = "all/growth.rs"]
mod growth;
#[path = "all/guests.rs"]
mod guests;
#[path = "all/init.rs"]
mod init;
#[path = "all/interrupted.rs"]
mod interrupted;
#[path = "all/invitations/mod.rs"]
mod invitations;
#[path = "all/jwt_elsewhere.rs"]
mod jwt_elsewhere;
#[path = "all/jwt_keys/mod.rs"]
mod jwt_keys;
#[path = "all/labels.rs"]
mod labels;
#[path = "all/legacy.rs"]
mod legacy;
#[path = "all/limits.rs"]
mod limits;
#[path = "all/login.rs"]
mod login;
#[path = "all/logout.rs"]
mod logout;
#[path = "all/mailed/mod.rs"]
mod mailed;
#[path = "all/middleware.rs"]
mod middleware;
#[path = "all/notices.rs"]
mod notices;
#[path = "all/oauth/mod.rs"]
mod oauth;
#[path = "all/old_hashes/mod.rs"]
mod old_hashes;
#[path = "all/operators.rs"]
mod operators;
#[path = "all/outage.rs"]
mod outage;
#[path = "all/outlives.rs"]
mod outlives;
#[path = "all/passkeys/mod.rs"]
mod passkeys;
#[path = "all/passwords.rs"]
mod passwords;
#[path = "all/policy.rs"]
mod policy;
#[path = "all/providers/mod.rs"]
mod providers;
#[path = "all/register.rs"]
mod register;
#[path = "all/removal.rs"]
mod removal;
#[path = "all/routes.rs"]
mod routes;
#[path = "all/screen_policy.rs"]
mod screen_policy;
#[path = "all/screens.rs"]
mod screens;
#[path = "all/second_factor.rs"]
mod second_factor;
#[path = "all/secrets.rs"]
mod secrets;
#[path = "all/sessions.rs"]
mod sessions;
#[path = "all/tenants.rs"]
mod tenants;
#[path = "all/tenants_flood.rs"]
mod tenants_flood;
#[path = "all/tenants_members.rs"]
mod tenants_members;
#[path = "all/tokens/mod.rs"]
mod tokens;
#[path = "all/two_factor/mod.rs"]
mod two_factor;
#[path = "all/users.rs"]
mod users;
