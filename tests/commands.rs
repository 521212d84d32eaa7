//! The commands other than `serve`.

use std::fs;

use gatewright_servers::Folder;
use serde_json::Value;

use crate::connections::{CONFIGURATION, Program};
use crate::harness::{Database, Launch, gatewright};

#[test]
fn init_writes_a_configuration_that_passes_and_never_overwrites() {
    let folder = Folder::create("commands").unwrap();
    let finished = gatewright(folder.path(), &["init", "app"], "");
    assert_eq!(finished.status, 0, "{finished:?}");
    let app = folder.path().join("app");
    let written = fs::read_to_string(app.join("gatewright.toml")).unwrap();
    assert_eq!(written.matches("[[entity]]").count(), 2, "{written}");
    let finished = gatewright(&app, &["check"], "");
    assert_eq!(finished.status, 0, "{finished:?}");

    let again = gatewright(folder.path(), &["init", "app"], "");
    assert_eq!(again.status, 1, "{again:?}");
    assert!(again.err.contains("gatewright.toml"), "{again:?}");
    assert_eq!(fs::read_to_string(app.join("gatewright.toml")).unwrap(), written);

    gatewright(folder.path(), &["init", "other"], "");
    let other = fs::read_to_string(folder.path().join("other/gatewright.toml")).unwrap();
    assert_ne!(other, written, "two applications share their secrets");
}

#[test]
fn the_example_passes_the_check_in_dev_mode() {
    let folder = Folder::create("commands").unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/blog.toml");
    let text = fs::read_to_string(example).unwrap();
    fs::write(folder.path().join("gatewright.toml"), text.replace("[server]", "[server]\ndev_mode = true")).unwrap();
    let finished = gatewright(folder.path(), &["check"], "");
    assert_eq!(finished.status, 0, "{finished:?}");
}

#[test]
fn a_secret_is_long_and_new_and_the_only_output() {
    let folder = Folder::create("commands").unwrap();
    let secrets = [(); 2].map(|()| gatewright(folder.path(), &["secret"], ""));
    for finished in &secrets {
        assert_eq!((finished.status, finished.out.lines().count()), (0, 1), "{finished:?}");
        assert!(finished.out.trim().len() >= 32, "{finished:?}");
    }
    assert_ne!(secrets[0].out, secrets[1].out);
}

/// Migrates with the command, or with the SQL of the plan, run by a role that may change tables.
#[tokio::test(flavor = "multi_thread")]
async fn a_migration_is_planned_then_applied_then_up_to_date() {
    for by_hand in [false, true] {
        for database in Database::all().await {
            let folder = Folder::create("commands").unwrap();
            gatewright(folder.path(), &["init"], "");
            let url = database.url();
            let run = |words: &[&str]| gatewright(folder.path(), &[words, &["--database", &url]].concat(), "");

            let plan = run(&["migrate", "--plan"]);
            assert_eq!(plan.status, 3, "{plan:?}");
            assert!(plan.out.contains("CREATE TABLE"), "{plan:?}");
            assert_eq!(run(&["migrate", "--plan"]).status, 3, "a plan changes nothing");
            if by_hand {
                for statement in plan.out.split(";\n").filter(|statement| !statement.trim_start().starts_with("--")) {
                    database.execute(folder.path(), statement).await;
                }
            } else {
                assert_eq!(run(&["migrate"]).status, 0);
            }
            let plan = run(&["migrate", "--plan"]);
            assert_eq!(plan.status, 0, "{plan:?}");
            let again = run(&["migrate"]);
            assert_eq!((again.status, again.out.contains("is up to date")), (0, true), "{again:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_may_not_create_tables_asks_for_the_migration() {
    for database in Database::all().await {
        let folder = Folder::create("commands").unwrap();
        gatewright(folder.path(), &["init"], "");
        let file = folder.path().join("gatewright.toml");
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains("\ncreate_tables"), "{text}");
        fs::write(&file, text.replacen("[database]", "[database]\ncreate_tables = false", 1)).unwrap();
        let words = ["serve", "--dev", "--listen", "127.0.0.1:0", "--database", &database.url()];
        let refused = gatewright(folder.path(), &words, "");
        assert_eq!(refused.status, 1, "{refused:?}");
        assert!(refused.err.contains("gatewright migrate"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_would_lose_data_is_refused_with_table_and_column() {
    const BEFORE: &str = "[[entity]]\nname = \"things\"\n[[entity.field]]\nname = \"size\"\ntype = \"int\"\n";
    for database in Database::all().await {
        let server = Launch::configured(BEFORE).start(&database).await;
        server.client().register("ada@example.com").await.is(200);
        let folder = server.folder().to_owned();
        fs::write(folder.join("gatewright.toml"), BEFORE.replace("int", "date")).unwrap();
        let url = database.url();
        let refused = gatewright(&folder, &["migrate", "--database", &url], "");
        assert_eq!(refused.status, 1, "{refused:?}");
        for word in ["things", "size"] {
            assert!(refused.err.contains(word), "{refused:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_field_is_added_to_a_table_with_records() {
    const BEFORE: &str = "[[entity]]\nname = \"things\"\n[[entity.field]]\nname = \"size\"\ntype = \"int\"\n";
    const MORE: &str = "[[entity.field]]\nname = \"colour\"\ntype = \"string\"\ndefault = \"red\"\n";
    for database in Database::all().await {
        let mut server = Launch::configured(BEFORE).start(&database).await;
        let ada = server.client();
        ada.register("ada@example.com").await.is(200);
        ada.log_in("ada@example.com").await.is(200);
        let thing = ada.post("/things", &serde_json::json!({ "size": 3 })).await.is(201).json();
        server.stop().await;
        fs::write(server.folder().join("gatewright.toml"), format!("{BEFORE}{MORE}")).unwrap();
        server.restart();
        let path = format!("/things/{}", thing["data"]["id"].as_str().unwrap());
        let read = ada.get(&path).await.is(200).json();
        assert_eq!(read["data"]["size"], 3);
        assert_ne!(read["data"].get("colour"), None::<&Value>, "{read}");
        let new = ada.post("/things", &serde_json::json!({})).await.is(201).json();
        assert_eq!(new["data"]["colour"], "red");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_connections_of_a_user_are_listed_and_ended() {
    const ADA: &str = "ada@example.com";
    const BOB: &str = "bob@example.com";
    for database in Database::all().await {
        let server = Launch::configured(CONFIGURATION).start(&database).await;
        let mut programs = Vec::new();
        for email in [ADA, BOB] {
            let user = server.client();
            user.register(email).await.is(200);
            user.log_in(email).await.is(200);
            programs.push(Program::connect(&server, &database, &user, "Notes Reader", "notes:read").await);
        }
        let url = database.url();
        let run = |words: &[&str]| {
            let words = [&["client"], words, &["--database", &url]].concat();
            tokio::task::block_in_place(|| gatewright(server.folder(), &words, ""))
        };
        let listed = run(&["connections", ADA]);
        assert_eq!((listed.status, listed.out.lines().count()), (0, 2), "{listed:?}");
        assert!(
            listed.out.contains("Notes Reader  notes:read") && listed.out.ends_with("1 connection\n"),
            "{listed:?}"
        );
        let listed = run(&["connections", ADA, "--json"]);
        let items: Value = serde_json::from_str(&listed.out).unwrap();
        let item = &items["items"][0];
        assert_eq!((&items["total"], &item["client_name"]), (&1.into(), &"Notes Reader".into()), "{items}");
        assert_eq!(
            (&item["client_id"], &item["scope"]),
            (&(*programs[0].client).into(), &"notes:read".into()),
            "{items}"
        );
        for secret in [&programs[0].access, &programs[0].refresh] {
            assert!(!listed.out.contains(secret.as_str()), "{listed:?}");
        }
        let id = item["id"].as_str().unwrap();

        // A connection cannot be ended for another user, or with a wrong id.
        for (email, id) in [(BOB, id), (ADA, "no-such-connection")] {
            let refused = run(&["disconnect", email, id]);
            assert_eq!(refused.status, 1, "{refused:?}");
            assert!(refused.err.contains(&format!("{email} has no connection {id}")), "{refused:?}");
        }
        assert_eq!(run(&["connections", "eve@example.com"]).status, 1);
        programs[0].get(&server, "/notes").await.is(200);

        let ended = run(&["disconnect", ADA, id]);
        assert_eq!(ended.status, 0, "{ended:?}");
        programs[0].get(&server, "/notes").await.is(401);
        programs[0].refresh(&server).await.is(400);
        assert_eq!(run(&["disconnect", ADA, id]).status, 1, "there is none any more");
        assert_eq!(run(&["connections", ADA]).out, "0 connections\n");
        programs[1].get(&server, "/notes").await.is(200);
        programs[1].refresh(&server).await.is(200);
    }
}
