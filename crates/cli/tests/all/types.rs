//! `gatewright types`: the declared entities in TypeScript.

use std::fs;
use std::path::Path;

use super::harness::run;

fn typed(configuration: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("gatewright.toml"), configuration).unwrap();
    let first = run(folder.path(), &["types", "--lang", "ts"], "").succeeded();
    assert_eq!(first.err, "");
    // The same bytes each time, and without a database.
    assert_eq!(run(folder.path(), &["types"], "").succeeded().out, first.out);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    first.out
}

/// `tsc --strict` reads the same file in the tests of the client.
#[test]
fn the_types_are_those_of_the_declaration() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/types");
    let made = typed(&fs::read_to_string(folder.join("gatewright.toml")).unwrap());
    let expected = fs::read_to_string(folder.join("schema.ts")).unwrap();
    assert_eq!(made, expected, "if the change is meant, run `gatewright types` in {}", folder.display());
    for hidden in ["canary", "ownerId", "owner_id", "Unserved"] {
        assert!(!made.contains(hidden), "{hidden} is shown");
    }
}

#[test]
fn types_use_the_key_case_of_the_server() {
    let made = typed("[server]\njson_case = \"snake\"\n[[entity]]\nname = \"blog_posts\"\n");
    assert!(made.contains("created_at: string") && !made.contains("createdAt"), "{made}");
}

#[test]
fn without_entities_nothing_is_written_and_the_error_names_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let ended = run(folder.path(), &["types"], "");
    ended.failed_saying(&["there is no gatewright.toml in this folder", "no entities are declared", "--config"]);
    assert_eq!(ended.out, "");
    let example = run(folder.path(), &["types", "--dev"], "").succeeded();
    assert!(example.out.contains("Posts") && example.err.is_empty(), "{example:?}");
    // The fields of profiles are types too.
    let profile = "[[auth.profile.field]]\nname = \"nickname\"\ntype = \"string\"\npublic = true\n";
    assert!(typed(profile).contains("nickname"));
}

#[test]
fn another_language_is_bad_usage() {
    let folder = tempfile::tempdir().unwrap();
    let ended = run(folder.path(), &["types", "--lang", "cobol"], "");
    assert_eq!(ended.status, 2, "{ended:?}");
}
