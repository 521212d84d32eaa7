use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::harness::run;

#[test]
fn init_writes_a_private_file_that_passes_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let ended = run(folder.path(), &["init", "deep/app"], "").succeeded();
    assert!(ended.out.contains("deep/app/gatewright.toml"), "{ended:?}");
    let app = folder.path().join("deep/app");
    let file = app.join("gatewright.toml");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600, "it holds secrets");
    assert!(ended.out.ends_with("next: cd deep/app && gatewright serve --dev\n"), "{ended:?}");
    assert_eq!(run(&app, &["check", "--dev"], "").succeeded().out, "gatewright.toml is fine: 2 entities\n");
    let checked = run(&app, &["check"], "").succeeded().out;
    assert!(checked.starts_with("warning: gatewright.toml:1:1: email: is missing"), "{checked}");
    assert!(checked.ends_with("gatewright.toml is fine: 2 entities\n") && checked.lines().count() == 2, "{checked}");

    let before = fs::read_to_string(&file).unwrap();
    run(folder.path(), &["init", "deep/app"], "").failed_saying(&["deep/app/gatewright.toml", "already"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    run(folder.path(), &["init", "file/app"], "").failed_saying(&["file/app"]);
}
