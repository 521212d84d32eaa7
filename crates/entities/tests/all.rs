//! Entities through their public interface, on both engines.
#![expect(clippy::needless_pass_by_value, reason = "a body is made where it is sent")]
#![expect(clippy::unwrap_used, reason = "a failed step fails the test that took it, in helpers as in tests")]

mod all {
    mod access;
    mod batch;
    mod batch_hooks;
    mod bounds;
    mod canary;
    mod cascade;
    mod cursor;
    mod entity_hooks;
    mod events;
    mod exhaustion;
    mod explain;
    mod filter;
    mod groups;
    mod hooks;
    mod hostile;
    mod include;
    mod library;
    mod list;
    mod outbox;
    mod public_users;
    mod races;
    mod records;
    mod relations;
    mod roundtrip;
    mod rule_attacks;
    mod rule_streams;
    mod rules;
    mod rules_differential;
    mod rules_pages;
    mod schema;
    mod schema_history;
    mod schema_pairs;
    mod schema_renames;
    mod sizes;
    mod slices;
    mod soft_delete_later;
    mod sort_paths;
    mod stream_filter_shares;
    mod stream_filters;
    mod support;
    mod tags;
    mod tenant_roles;
    mod tenants;
    mod totals;
    mod transaction;
    mod trash;
    mod turns;
    mod unreadable_tags;
    mod validation;
    mod view;
}
