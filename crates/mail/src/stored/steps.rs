use gatewright_db::Step;

/// The name under which the table is brought up to date.
pub const COMPONENT: &str = "mail_queue";

/// The table, for [`gatewright_db::migrate`].
pub const STEPS: &[Step] = &[Step {
    version: 1,
    name: "letters that are not sent",
    sql: "CREATE TABLE mail_queue (
            id {text} NOT NULL PRIMARY KEY,
            kind {text} NOT NULL,
            recipient {text} NOT NULL,
            status {text} NOT NULL,
            attempts {int} NOT NULL,
            last_error {text},
            created_at {time} NOT NULL,
            next_attempt_at {time} NOT NULL,
            expires_at {time} NOT NULL,
            lease {text},
            sealed {bytes}
          );
          CREATE INDEX mail_queue_status_next_attempt_at ON mail_queue (status, next_attempt_at);
          CREATE INDEX mail_queue_recipient_kind ON mail_queue (recipient, kind);
          CREATE INDEX mail_queue_expires_at ON mail_queue (expires_at) WHERE sealed IS NOT NULL",
}];
