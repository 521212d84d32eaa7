use gatewright_db::Step;

/// The component name for migrations of the tables of files.
pub const COMPONENT: &str = "files";

/// The tables of files, for [`gatewright_db::migrate`].
///
/// `owner` is whose quota the bytes count against, and `uploader` who may attach the file. `size` of a file that is
/// `uploading` or `partial` is what is reserved. `has_metadata`: an image from which nothing was removed.
pub const STEPS: &[Step] = &[
    Step {
        version: 1,
        name: "files, and what anonymous callers have uploaded",
        sql: "
CREATE TABLE gatewright_files (
    id {text} NOT NULL PRIMARY KEY,
    state {text} NOT NULL,
    owner {text} NOT NULL,
    uploader {text} NOT NULL,
    name {text} NOT NULL,
    size {int} NOT NULL,
    content_type {text} NOT NULL,
    sha256 {text} NOT NULL,
    has_metadata {bool} NOT NULL,
    table_name {text},
    field {text},
    record {text},
    created_at {time} NOT NULL,
    changed_at {time} NOT NULL,
    expires_at {time} NOT NULL
);
CREATE INDEX gatewright_files_owner ON gatewright_files (owner, state, size);
CREATE INDEX gatewright_files_state ON gatewright_files (state, changed_at);
CREATE INDEX gatewright_files_uploader ON gatewright_files (uploader, state);
CREATE TABLE gatewright_file_owners (
    owner {text} NOT NULL PRIMARY KEY,
    day {text} NOT NULL,
    bytes {int} NOT NULL
);
",
    },
    Step {
        version: 2,
        name: "thumbnails",
        sql: "
CREATE TABLE gatewright_thumbnails (
    file {text} NOT NULL,
    size {text} NOT NULL,
    state {text} NOT NULL,
    bytes {int} NOT NULL,
    content_type {text} NOT NULL,
    sha256 {text} NOT NULL,
    changed_at {time} NOT NULL,
    PRIMARY KEY (file, size)
);
",
    },
    Step {
        version: 3,
        name: "uploads that arrive in several requests",
        sql: "
CREATE TABLE gatewright_resumable (
    id {text} NOT NULL PRIMARY KEY,
    length {int} NOT NULL,
    received {int} NOT NULL,
    numbers {int} NOT NULL,
    word {text} NOT NULL,
    busy_until {time},
    metadata {text} NOT NULL,
    keep_metadata {bool} NOT NULL
);
CREATE TABLE gatewright_pieces (
    file {text} NOT NULL,
    starts_at {int} NOT NULL,
    size {int} NOT NULL,
    number {int} NOT NULL,
    PRIMARY KEY (file, starts_at)
);
",
    },
];
