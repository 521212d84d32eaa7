use gatewright_db::Step;

/// The component name for migrations of the table of kept answers.
pub const COMPONENT: &str = "answers";

/// The table of kept answers, for [`gatewright_db::migrate`].
///
/// An answer whose `status` is null is in progress; one whose `body` is null was deleted.
pub const STEPS: &[Step] = &[Step {
    version: 1,
    name: "answers by their keys, and the records that they contain",
    sql: "
CREATE TABLE gatewright_answers (
    id {text} NOT NULL PRIMARY KEY,
    caller {text} NOT NULL,
    request {text} NOT NULL,
    rights {text} NOT NULL,
    claim {text} NOT NULL,
    claimed_at {time} NOT NULL,
    status {int},
    headers {text},
    body {text},
    bytes {int} NOT NULL DEFAULT 0
);
CREATE INDEX gatewright_answers_caller ON gatewright_answers (caller, claimed_at, bytes);
CREATE INDEX gatewright_answers_claimed_at ON gatewright_answers (claimed_at, bytes);
CREATE TABLE gatewright_answer_records (
    answer {text} NOT NULL REFERENCES gatewright_answers (id) ON DELETE CASCADE,
    record {text} NOT NULL,
    PRIMARY KEY (answer, record)
);
CREATE INDEX gatewright_answer_records_record ON gatewright_answer_records (record);
",
}];
