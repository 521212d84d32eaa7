//! What an operator does with records of tenants, with and without naming one: every route, and every way to read.

use gatewright_testing::{Actor, TestApp};
use serde_json::{Value, json};

use super::operator;

/// Entities of tenants: owned, under rules, with a trash, with relations of each kind.
const TENANTS: &str = r#"
[audit]
entities = true
[[auth.profile.field]]
name = "display_name"
type = "string"
public = true
[[entity]]
name = "project"
table = "projects"
multi_tenant = true
owner_field = "user_id"
soft_delete = true
search_fields = ["title"]
[entity.rules]
read = "title != 'private'"
update = "title != 'frozen'"
delete = "title != 'frozen'"
[[entity.field]]
name = "title"
type = "string"
required = true
[[entity.field]]
name = "pin_canary"
type = "string"
hidden = true
[[entity]]
name = "tasks"
multi_tenant = true
[[entity.field]]
name = "title"
type = "string"
required = true
[[entity.field]]
name = "project"
type = "relation"
to = "project"
on_delete = "cascade"
[[entity.field]]
name = "assignee"
type = "relation"
to = "users"
on_delete = "set_null"
[[entity]]
name = "notes"
[[entity.field]]
name = "title"
type = "string"
[[entity.field]]
name = "task"
type = "relation"
to = "tasks"
on_delete = "set_null"
"#;

/// Two tenants, each with a private project, a task of it and a note about that. Returns what each has.
async fn world(app: &TestApp) -> Vec<Tenant> {
    let mut tenants = Vec::new();
    for (name, email) in [("acme", "ann@example.com"), ("zenith", "bob@example.com")] {
        let member = app.signed_in(email).await;
        app.join(email, name).await;
        let member = member.sending("x-tenant-id", name);
        let id = async |path: &str, body: Value| {
            member.post(path, body).await.is(201).at("/data/id").as_str().unwrap().to_owned()
        };
        let project = id("/projects", json!({ "title": name })).await;
        let user = app.user_id(email).await.to_string();
        let task = id("/tasks", json!({ "title": "plan", "project": project, "assignee": user })).await;
        let note = id("/notes", json!({ "title": "about it", "task": task })).await;
        tenants.push(Tenant { name, project, task, note });
    }
    tenants
}

struct Tenant {
    name: &'static str,
    project: String,
    task: String,
    note: String,
}

impl Tenant {
    fn project(&self) -> String {
        format!("/admin/api/records/projects/{}", self.project)
    }

    fn task(&self) -> String {
        format!("/admin/api/records/tasks/{}", self.task)
    }
}

#[tokio::test]
async fn an_operator_does_everything_with_a_record_of_any_tenant_without_naming_it() {
    for app in TestApp::on_every_engine(TENANTS).await {
        let tenants = world(&app).await;
        let operator = operator(&app).await;
        for tenant in &tenants {
            everything(&operator, tenant).await;
            // The same by the name of the entity, and with the tenant.
            let named = operator.clone().sending("x-tenant-id", tenant.name);
            everything(&named, tenant).await;
        }
        // At last for good, with what depends on it.
        for tenant in &tenants {
            operator.delete(&tenant.task()).await.is(204);
            operator.get(&tenant.task()).await.is(404);
            let note = operator.get(&format!("/admin/api/records/notes/{}", tenant.note)).await.is(200);
            assert_eq!(note.at("/data/task"), Value::Null);
        }
    }
}

/// Each operation once, leaving everything as it was.
async fn everything(operator: &Actor, tenant: &Tenant) {
    let (project, task) = (tenant.project(), tenant.task());
    let read = operator.get(&project).await.is(200);
    assert_eq!(read.at("/data/title"), json!(tenant.name));
    let etag = read.header("etag").unwrap().to_owned();
    operator.get(&format!("/admin/api/records/project/{}", tenant.project)).await.is(200);
    assert_eq!(operator.get(&format!("{project}?fields=title")).await.is(200).at("/data/title"), json!(tenant.name));
    let with = operator.get(&format!("{task}?include=project,assignee")).await.is(200);
    assert_eq!(with.at("/data/_included/project/title"), json!(tenant.name));
    assert!(with.at("/data/_included/assignee").get("displayName").is_some(), "{}", with.text());

    // Change it: plainly, conditionally, not at all.
    operator.patch(&project, json!({ "title": "changed" })).await.is(200);
    operator.patch(&project, json!({})).await.is(200);
    let stale = operator.clone().sending("if-match", &etag);
    stale.patch(&project, json!({ "title": "lost" })).await.is(412);
    stale.delete(&project).await.is(412);
    let etag = operator.get(&project).await.header("etag").unwrap().to_owned();
    let known = operator.clone().sending("if-match", &etag);
    known.patch(&project, json!({ "title": "frozen" })).await.is(200);
    operator.patch(&project, json!({ "title": tenant.name })).await.is(200);

    // Delete it into the trash, find it there, and take it out.
    let etag = operator.get(&project).await.header("etag").unwrap().to_owned();
    operator.clone().sending("if-match", &etag).delete(&project).await.is(204);
    assert!(operator.get(&project).await.is(200).at("/data/deletedAt").is_string());
    operator.patch(&project, json!({ "title": "no" })).await.is(404);
    operator.delete(&project).await.is(404);
    operator.post(&format!("{project}/restore"), json!({})).await.is(200);
    operator.post(&format!("{project}/restore"), json!({})).await.is(200);

    for (query, finds) in [
        ("title=plan", true),
        ("filter=title%20=%20'plan'", true),
        (&*format!("filter=project.title%20=%20'{}'", tenant.name), true),
        ("filter=project.title%20=%20'nobody'", false),
        ("sort=-project.title", true),
        ("include=project,assignee", true),
        ("total=estimate", true),
        ("total=none", true),
        ("cursor=&limit=1", true),
        ("page=1&limit=1", true),
    ] {
        let listed = operator.get(&format!("/admin/api/records/tasks?{query}")).await.is(200);
        assert_eq!(!listed.at("/data").as_array().unwrap().is_empty(), finds, "{query}: {}", listed.text());
    }
    for query in ["q=nothing", "trashed=only", "trashed=with", "group=title", "group=title&count=true"] {
        let listed = operator.get(&format!("/admin/api/records/projects?{query}")).await;
        assert!(listed.status() < 500, "{query}: {}", listed.text());
    }
    // Records without a tenant that lead to records of one.
    let path = format!("/admin/api/records/notes?filter=task.project.title%20=%20'{}'", tenant.name);
    assert_eq!(operator.get(&path).await.is(200).at("/total"), json!(1));
    let asked = json!({ "as": "anonymous", "operation": "read", "table": "projects", "id": tenant.project });
    assert_eq!(operator.post("/admin/api/explain", asked).await.is(200).at("/data/allowed"), json!(false));
}

#[tokio::test]
async fn an_operator_who_names_a_tenant_reaches_no_other() {
    for app in TestApp::on_every_engine(TENANTS).await {
        let tenants = world(&app).await;
        let operator = operator(&app).await;
        let [acme, zenith] = &*tenants else { panic!("two") };
        let named = operator.clone().sending("x-tenant-id", acme.name);
        for path in [zenith.project(), zenith.task()] {
            named.get(&path).await.is(404);
            named.get(&format!("{path}?fields=title")).await.is(404);
            named.patch(&path, json!({ "title": "taken" })).await.is(404);
            named.patch(&path, json!({})).await.is(404);
            named.delete(&path).await.is(404);
            named.clone().sending("if-match", "\"x\"").delete(&path).await.is(404);
            named.post(&format!("{path}/restore"), json!({})).await.is(404);
        }
        let listed = named.get("/admin/api/records/tasks?filter=project.title%20!=%20'nobody'").await.is(200);
        assert_eq!(listed.at("/total"), json!(1), "{}", listed.text());
        let notes = named.get("/admin/api/records/notes?filter=task.title%20=%20'plan'").await.is(200);
        assert_eq!(notes.at("/total"), json!(1), "a note about a task of the tenant: {}", notes.text());
        // The log says in which tenant the act was.
        named.patch(&acme.project(), json!({ "title": "acme" })).await.is(200);
        let log = operator.get(&format!("/admin/api/audit?kind=admin.acted&subject=projects/{}", acme.project)).await;
        assert_eq!(log.is(200).at("/data/0/meta/tenant_id"), json!("acme"));
        // Nor does one without a tenant create records of none.
        operator.clone().sending("x-tenant-id", "a b").get(&acme.project()).await.is(400);
    }
}
