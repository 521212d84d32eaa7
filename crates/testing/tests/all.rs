//! The whole application, from the point of view of its users.

#[path = "all/audit.rs"]
mod audit;
#[path = "all/mail.rs"]
mod mail;
#[path = "all/roles.rs"]
mod roles;
#[path = "all/story.rs"]
mod story;
#[path = "all/tenants.rs"]
mod tenants;
#[path = "all/tokens.rs"]
mod tokens;
#[path = "all/two_factor.rs"]
mod two_factor;
