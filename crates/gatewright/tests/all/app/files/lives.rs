//! How long files live: they end with their records, and not before.

use http::Method;
use serde_json::json;

use super::{WithFiles, form, named, uploaded, url};

const CASCADES: &str = r#"
[auth]
on_account_delete = "delete"

[[entity]]
name = "projects"
owner_field = "user_id"
[[entity.field]]
name = "logo"
type = "file"

[[entity]]
name = "notes"
owner_field = "user_id"
[[entity.field]]
name = "project"
type = "relation"
to = "projects"
on_delete = "cascade"
[[entity.field]]
name = "pages"
type = "file"
many = true
"#;

#[tokio::test]
async fn the_files_of_deleted_records_are_deleted_also_by_cascades() {
    for with in WithFiles::on_every_engine("", CASCADES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let (logo, one, two, free) = (
            uploaded(&ann, "l", b"l").await,
            uploaded(&ann, "1", b"1").await,
            uploaded(&ann, "2", b"2").await,
            uploaded(&ann, "f", b"f").await,
        );
        let project = ann.post("/projects", json!({ "logo": named(&logo) })).await.is(201).at("/data/id");
        let note = json!({ "project": project, "pages": [named(&one), named(&two)] });
        let note = ann.post("/notes", note).await.is(201).at("/data");
        ann.patch(
            &format!("/notes/{}", note["id"].as_str().unwrap()),
            json!({ "pages": { "$remove": [named(&one)] } }),
        )
        .await
        .is(200);
        with.loses(&one).await;
        assert!(with.has_bytes(&logo) && with.has_bytes(&two));
        ann.delete(&format!("/projects/{}", project.as_str().unwrap())).await.is(204);
        with.loses(&logo).await;
        with.loses(&two).await;
        assert!(with.has_bytes(&free), "what is not attached can still be");
    }
}

#[tokio::test]
async fn a_statement_of_another_program_releases_files_too() {
    for with in WithFiles::on_every_engine("", CASCADES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let (one, two) = (uploaded(&ann, "1", b"1").await, uploaded(&ann, "2", b"2").await);
        let first = ann.post("/projects", json!({ "logo": named(&one) })).await.is(201).at("/data/id");
        let second = ann.post("/projects", json!({ "logo": named(&two) })).await.is(201).at("/data/id");
        let db = with.app.app().db();
        let by_id = |id: &serde_json::Value| vec![gatewright_db::Value::from(id.as_str().unwrap())];
        db.execute("DELETE FROM projects WHERE id = ?1", by_id(&first)).await.unwrap();
        db.execute("UPDATE projects SET logo = NULL WHERE id = ?1", by_id(&second)).await.unwrap();
        with.loses(&one).await;
        with.loses(&two).await;
    }
}

#[tokio::test]
async fn deleted_bytes_stay_in_the_store_for_the_configured_days() {
    for with in WithFiles::on_every_engine("keep_deleted_days = 1", CASCADES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let id = uploaded(&ann, "l", b"l").await;
        let project = ann.post("/projects", json!({ "logo": named(&id) })).await.is(201).at("/data");
        ann.delete(&format!("/projects/{}", project["id"].as_str().unwrap())).await.is(204);
        ann.get(&url(&project["logo"])).await.is(404);
        // Longer than two sweeps.
        tokio::time::sleep(std::time::Duration::from_secs(11)).await;
        assert!(with.has_bytes(&id));
        with.app.wait(jiff::SignedDuration::from_hours(25));
        with.loses(&id).await;
    }
}

#[tokio::test]
async fn the_files_of_a_deleted_account_are_deleted() {
    for with in WithFiles::on_every_engine("", CASCADES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let made = form(&ann, Method::POST, "/projects", &[("logo", Some("l"), b"l")]).await.is(201);
        let id = made.at("/data/logo/id").as_str().unwrap().to_owned();
        let user = with.app.user_id("ann@example.com").await;
        with.app.app().auth().unwrap().accounts().delete(&user).await.unwrap();
        with.loses(&id).await;
    }
}

#[tokio::test]
async fn verify_names_files_that_the_database_and_the_store_do_not_agree_about() {
    for with in WithFiles::on_every_engine("", CASCADES).await {
        let ann = with.app.signed_in("ann@example.com").await;
        let found = async || {
            let mut found = Vec::new();
            gatewright::verify(with.app.config(), |finding| found.push((finding.id, finding.reason))).await.unwrap();
            found
        };
        let (kept, lost, orphan) =
            (uploaded(&ann, "k", b"k").await, uploaded(&ann, "l", b"l").await, uploaded(&ann, "o", b"o").await);
        for id in [&kept, &lost, &orphan] {
            ann.post("/projects", json!({ "logo": named(id) })).await.is(201);
        }
        assert!(found().await.iter().all(|(id, _)| ![&kept, &lost, &orphan].contains(&id)));
        std::fs::remove_file(with.folder.path().join(&lost[34..]).join(&lost)).unwrap();
        let db = with.app.app().db();
        let forget = "DELETE FROM gatewright_files WHERE id = ?1";
        db.execute(forget, vec![gatewright_db::Value::from(orphan.as_str())]).await.unwrap();
        let found = found().await;
        let reason = |id: &String| found.iter().find(|(of, _)| of == id).map(|(_, reason)| reason.as_str());
        assert_eq!(reason(&kept), None);
        assert_eq!(reason(&lost), Some("the store lacks its bytes"));
        assert_eq!(reason(&orphan), Some("the store has bytes that the database does not know"));
    }
}
