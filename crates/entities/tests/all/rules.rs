//! Access rules: members of a project see and change its tasks, on every surface, and others learn nothing of them.

use gatewright_base::Identity;
use gatewright_entities::{Action, Declarations, Entity, Field};
use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::support::{Stream, World, anonymous, encoded, user, user_with, worlds};

const MEMBER: &str = "project.members(project).user = @me";

fn entities() -> [Entity; 3] {
    [
        Entity::new("projects")
            .soft_delete()
            .field(Field::string("name"))
            .field(Field::relation("boss", "users"))
            .field(Field::string("secret").hidden().default("canary"))
            .rule(Action::Read, "members(project).user = @me || boss = @me")
            .rule(Action::Create, "boss = @me")
            .rule(Action::Update, "boss = @me")
            .rule(Action::Delete, "boss = @me"),
        Entity::new("members")
            .field(Field::relation("project", "projects").required())
            .field(Field::relation("user", "users").required())
            .field(Field::string("note"))
            .field(Field::string("grade").default("new"))
            .rule(Action::Read, "user = @me || project.boss = @me")
            .rule(Action::Create, "project.boss = @me || project.members(project).user = @me")
            .rule(Action::Delete, "project.boss = @me || user = @me"),
        Entity::new("tasks")
            .search_fields(["title"])
            .field(Field::string("title").unique())
            .field(Field::relation("project", "projects").required())
            .field(Field::relation("assignee", "users"))
            .field(Field::json("tags"))
            .rule(Action::Read, format!("{MEMBER} || assignee = @me || project.boss = @me"))
            .rule(Action::Create, format!("{MEMBER} || project.boss = @me"))
            .rule(Action::Update, "assignee = @me || project.boss = @me")
            .rule(Action::Delete, "project.boss = @me"),
    ]
}

/// A project of ann with two tasks, neither of them ben's.
struct Project {
    id: String,
    tasks: [String; 2],
}

async fn project(world: &World) -> Project {
    let ann = user("ann");
    let id = world.post(&ann, "/projects", json!({"name": "p", "boss": "ann"})).await.id();
    let task = async |title: &str| world.post(&ann, "/tasks", json!({"title": title, "project": id})).await.id();
    let tasks = [task("one").await, task("two").await];
    Project { id, tasks }
}

async fn join(world: &World, project: &Project, who: &str) -> String {
    world.post(&user("ann"), "/members", json!({"project": project.id, "user": who})).await.id()
}

async fn titles(world: &World, caller: &Identity, query: &str) -> Vec<String> {
    let list = world.get(caller, &format!("/tasks{query}")).await.data();
    list.as_array().unwrap().iter().map(|task| task["title"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn members_see_the_tasks_of_their_project_on_every_surface_and_others_do_not() {
    for world in worlds(entities()).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let project = project(&world).await;
        let task = format!("/tasks/{}", project.tasks[0]);
        for member in [false, true, false] {
            let membership = if member { Some(join(&world, &project, "ben").await) } else { None };
            let seen: &[&str] = if member { &["one", "two"] } else { &[] };
            let status = if member { StatusCode::OK } else { StatusCode::NOT_FOUND };
            let queries = ["", "?sort=-title", "?cursor=", "?q=o", "?filter=title!=null", "?page=1&limit=5"];
            for query in queries {
                let mut titles = titles(&world, &ben, query).await;
                titles.sort();
                assert_eq!(titles, seen, "{} {query}", world.name());
            }
            let list = world.get(&ben, "/tasks?limit=1").await.json();
            assert_eq!(list["total"], seen.len(), "{}", world.name());
            for query in ["", "?fields=title", "?include=project"] {
                assert_eq!(world.get(&ben, &format!("{task}{query}")).await.status, status, "{} {query}", world.name());
            }
            if let Some(membership) = membership {
                let shown = world.get(&ben, &format!("{task}?include=project")).await.data();
                assert_eq!(shown["_included"]["project"]["name"], "p", "{}", world.name());
                // Leaving is deleting one's own membership.
                let left = world.delete(&ben, &format!("/members/{membership}")).await;
                assert_eq!(left.status, StatusCode::NO_CONTENT, "{} {}", world.name(), left.text);
            }
            assert_eq!(titles(&world, &ann, "").await, ["one", "two"]);
        }
        assert_eq!(world.get(&anonymous(), "/tasks").await.status, StatusCode::UNAUTHORIZED);
    }
}

#[tokio::test]
async fn the_rule_refuses_a_write_before_any_other_error() {
    for world in worlds(entities()).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let project = project(&world).await;
        let task = format!("/tasks/{}", project.tasks[0]);
        let writes = async |title: &str| {
            let stale = world.ask(&ben, Method::PATCH, &task).header("if-match", "\"x\"").json(json!({"title": "x"}));
            [
                world.patch(&ben, &task, json!({"title": title})).await,
                world.patch(&ben, &task, json!({"title": 7})).await,
                world.patch(&ben, &task, json!({})).await,
                stale.send().await,
                world.delete(&ben, &task).await,
            ]
        };
        for answer in writes("x").await {
            assert_eq!(answer.status, StatusCode::NOT_FOUND, "{} {}", world.name(), answer.text);
        }
        // A caller who may not create learns neither that a title is taken nor that a project does not exist.
        for body in [json!({"title": "one", "project": project.id}), json!({"title": "new", "project": project.id})] {
            let answer = world.post(&ben, "/tasks", body).await;
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{} {}", world.name(), answer.text);
            assert_eq!(answer.json()["code"], "forbidden");
        }
        join(&world, &project, "ben").await;
        for answer in writes("two").await {
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{} {}", world.name(), answer.text);
            assert_eq!(answer.json()["code"], "forbidden");
        }
        // Now the order is 412, 422, 409.
        let stale = world.ask(&ann, Method::PATCH, &task).header("if-match", "\"x\"").json(json!({"title": 7})).send();
        assert_eq!(stale.await.status, StatusCode::PRECONDITION_FAILED);
        assert_eq!(world.patch(&ann, &task, json!({"title": 7})).await.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(world.patch(&ann, &task, json!({"title": "two"})).await.status, StatusCode::CONFLICT);
        assert_eq!(
            world.post(&ben, "/tasks", json!({"title": "one", "project": project.id})).await.status,
            StatusCode::CONFLICT
        );
    }
}

#[tokio::test]
async fn the_rule_for_updates_is_checked_before_and_after_the_change() {
    for world in worlds(entities()).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let project = project(&world).await;
        let task = format!("/tasks/{}", project.tasks[0]);
        join(&world, &project, "ben").await;
        assert_eq!(world.patch(&ann, &task, json!({"assignee": "ben"})).await.status, StatusCode::OK);
        assert_eq!(world.patch(&ben, &task, json!({"title": "mine"})).await.status, StatusCode::OK);
        // After the change, ben could no longer change it.
        assert_eq!(world.patch(&ben, &task, json!({"assignee": null})).await.status, StatusCode::FORBIDDEN);
        let batch = json!({"items": [{"id": project.tasks[0], "title": "a"}, {"id": project.tasks[1], "title": "b"}]});
        let answer = world.ask(&ben, Method::PATCH, "/tasks/_batch").json(batch).send().await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{} {}", world.name(), answer.text);
        assert_eq!(world.get(&ann, &task).await.data()["title"], "mine", "{}", world.name());
        let ids = json!({"ids": [project.tasks[0]]});
        let answer = world.ask(&ben, Method::DELETE, "/tasks/_batch").json(ids.clone()).send().await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{} {}", world.name(), answer.text);
        let answer = world.ask(&ann, Method::DELETE, "/tasks/_batch").json(ids).send().await;
        assert_eq!(answer.status, StatusCode::OK, "{} {}", world.name(), answer.text);
    }
}

#[tokio::test]
async fn a_caller_cannot_admit_themselves_by_creating_a_membership() {
    for world in worlds(entities()).await {
        let ben = user("ben");
        let project = project(&world).await;
        let answer = world.post(&ben, "/members", json!({"project": project.id, "user": "ben"})).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{} {}", world.name(), answer.text);
        assert_eq!(world.rows("members").await, 0);
        let both = json!({"items": [{"project": project.id, "user": "ben"}, {"project": project.id, "user": "ben"}]});
        let answer = world.post(&ben, "/members/_batch", both).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{} {}", world.name(), answer.text);
        assert_eq!(world.rows("members").await, 0);
        join(&world, &project, "ben").await;
        let answer = world.post(&ben, "/members", json!({"project": project.id, "user": "ann"})).await;
        assert_eq!(answer.status, StatusCode::CREATED, "{} {}", world.name(), answer.text);
        // Ben may not read it: the answer shows what was sent, and no default.
        let mut keys: Vec<String> = answer.data().as_object().unwrap().keys().cloned().collect();
        keys.sort();
        assert_eq!(keys, ["createdAt", "id", "project", "updatedAt", "user"]);
        assert_eq!(world.get(&ben, &format!("/members/{}", answer.id())).await.status, StatusCode::NOT_FOUND);
    }
}

#[tokio::test]
async fn a_relation_to_an_unreadable_record_is_refused_like_one_to_a_missing_record() {
    let notes = Entity::new("notes").field(Field::relation("task", "tasks"));
    let entities = entities().into_iter().chain([notes]);
    for world in worlds(entities).await {
        let ben = user("ben");
        let project = project(&world).await;
        let hidden = world.post(&ben, "/notes", json!({"task": project.tasks[0]})).await;
        let absent = world.post(&ben, "/notes", json!({"task": "0191d2b3-0000-7000-8000-00000000000a"})).await;
        assert_eq!(hidden.status, StatusCode::UNPROCESSABLE_ENTITY, "{}", world.name());
        assert_eq!((hidden.faults(), hidden.status), (absent.faults(), absent.status), "{}", world.name());
        join(&world, &project, "ben").await;
        assert_eq!(world.post(&ben, "/notes", json!({"task": project.tasks[0]})).await.status, StatusCode::CREATED);
        let included = world.get(&ben, "/notes?include=task").await.data();
        assert_eq!(included[0]["_included"]["task"]["title"], "one");
    }
}

#[tokio::test]
async fn filters_follow_paths_under_the_callers_own_rights() {
    let vault = Entity::new("vault").access(Action::Read, "vault:read").field(Field::relation("task", "tasks"));
    for world in worlds(entities().into_iter().chain([vault])).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let project = project(&world).await;
        let list = async |caller: &Identity, filter: &str| {
            world.get(caller, &format!("/tasks?filter={}", encoded(filter))).await
        };
        let count = async |caller: &Identity, filter: &str| list(caller, filter).await.json()["total"].clone();
        world
            .patch(&ann, &format!("/tasks/{}", project.tasks[0]), json!({"assignee": "ben", "tags": ["urgent"]}))
            .await;
        assert_eq!(count(&ann, "project.name = 'p'").await, 2, "{}", world.name());
        assert_eq!(count(&ann, "tags has 'urgent'").await, 1);
        assert_eq!(count(&ann, "tags has 'Urgent'").await, 0);
        assert_eq!(count(&ann, "assignee = @me || title = 'two'").await, 1);
        // Ben reads the task that is assigned to him but not its project, of which nothing is revealed.
        assert_eq!(count(&ben, "assignee = @me").await, 1);
        assert_eq!(count(&ben, "project.name = 'p'").await, 0, "{}", world.name());
        assert_eq!(count(&ben, "project.name != 'p'").await, 1);
        assert_eq!(count(&ben, "project.tasks(project).title = 'two'").await, 0);
        for (filter, status) in [
            ("project.secret = 'canary'", 400),
            ("project.nothing = 'canary'", 400),
            ("vault(task).id != null", 403),
            ("vault(task).nothing != null", 400),
            ("assignee.email = 'x'", 400),
            ("project.boss.id = @me", 200),
            ("project.project = 'x'", 400),
        ] {
            let answer = list(&ben, filter).await;
            assert_eq!(answer.status.as_u16(), status, "{} {filter}: {}", world.name(), answer.text);
            assert!(!answer.text.contains("canary") || filter.contains("canary"), "{}", answer.text);
        }
        let hidden = list(&ben, "project.secret = 'x'").await.json()["detail"].as_str().unwrap().replace("secret", "_");
        let absent = list(&ben, "project.nonsen = 'x'").await.json()["detail"].as_str().unwrap().replace("nonsen", "_");
        assert_eq!(hidden, absent);
    }
}

#[tokio::test]
async fn the_trash_is_shown_and_emptied_under_the_rules_for_reading_and_changing() {
    for world in worlds(entities()).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let project = project(&world).await;
        join(&world, &project, "ben").await;
        let path = format!("/projects/{}", project.id);
        let total = async |caller: &Identity| world.get(caller, "/projects?trashed=only").await.json()["total"].clone();
        assert_eq!(world.delete(&ben, &path).await.status, StatusCode::FORBIDDEN, "{}", world.name());
        assert_eq!(world.delete(&ann, &path).await.status, StatusCode::NO_CONTENT, "{}", world.name());
        assert_eq!((total(&ann).await, total(&ben).await), (json!(1), json!(0)), "{}", world.name());
        // A project in the trash gives no access to its tasks.
        assert_eq!(titles(&world, &ben, "").await, Vec::<String>::new(), "{}", world.name());
        let restore = format!("{path}/_restore");
        assert_eq!(world.post(&ben, &restore, "{}").await.status, StatusCode::FORBIDDEN, "{}", world.name());
        assert_eq!(world.post(&user("eve"), &restore, "{}").await.status, StatusCode::NOT_FOUND, "{}", world.name());
        assert_eq!(world.post(&ann, &restore, "{}").await.status, StatusCode::OK, "{}", world.name());
        assert_eq!(titles(&world, &ben, "").await, ["one", "two"], "{}", world.name());
    }
}

#[tokio::test]
async fn a_moderator_deletes_the_comments_of_others_and_reads_no_more_than_before() {
    let comments = Entity::new("comments")
        .owner("user_id")
        .cross_owner_write("posts:audit")
        .field(Field::string("text"))
        .field(Field::string("mood").default("calm"));
    for world in worlds([comments]).await {
        let (ann, moderator) = (user("ann"), user_with("ben", &["auditor"]));
        let path = format!("/comments/{}", world.post(&ann, "/comments", json!({"text": "secret"})).await.id());
        assert_eq!(world.get(&moderator, &path).await.status, StatusCode::NOT_FOUND, "{}", world.name());
        assert_eq!(world.patch(&user("ben"), &path, json!({"mood": "x"})).await.status, StatusCode::NOT_FOUND);
        let changed = world.patch(&moderator, &path, json!({"mood": "angry"})).await;
        assert_eq!(changed.data()["mood"], "angry", "{}", world.name());
        assert_eq!(changed.data()["text"], Value::Null, "{}", world.name());
        assert_eq!(world.get(&ann, &path).await.data()["text"], "secret");
        assert_eq!(world.delete(&moderator, &path).await.status, StatusCode::NO_CONTENT, "{}", world.name());
    }
}

#[tokio::test]
async fn related_rows_are_those_of_the_requests_tenant() {
    let staff =
        Entity::new("staff").multi_tenant().field(Field::relation("user", "users")).field(Field::string("rank"));
    let files = Entity::new("files")
        .multi_tenant()
        .field(Field::string("name"))
        .field(Field::relation("staff", "staff"))
        .rule(Action::Read, "staff.user = @me || @tenant = 'open'");
    for world in worlds([staff, files]).await {
        let ann = user("ann");
        for tenant in ["a", "b", "open"] {
            world.join(tenant, &ann).await;
            world.join(tenant, &user("ben")).await;
        }
        let post = async |tenant: &str, path: &str, body: Value| {
            world.ask(&ann, Method::POST, path).tenant(tenant).json(body).send().await.id()
        };
        for tenant in ["a", "b", "open"] {
            let staff = post(tenant, "/staff", json!({"user": if tenant == "a" { "ann" } else { "ben" }})).await;
            post(tenant, "/files", json!({"name": tenant, "staff": staff})).await;
        }
        for (tenant, seen) in [("a", 1), ("b", 0), ("open", 1)] {
            let list = world.ask(&ann, Method::GET, "/files").tenant(tenant).send().await;
            assert_eq!(list.json()["total"], seen, "{} {tenant}: {}", world.name(), list.text);
        }
    }
}

#[tokio::test]
async fn rules_use_roles_and_the_time_and_anonymous_callers_have_no_id() {
    let notices = Entity::new("notices")
        .access(Action::Read, "public")
        .field(Field::string("text"))
        .field(Field::relation("author", "users"))
        .field(Field::timestamp("shown_from"))
        .rule(Action::Read, "shown_from <= @now && author != @me || @roles has 'auditor'")
        .rule(Action::Create, "@me != null && @roles has 'editor'");
    for world in worlds([notices]).await {
        let editor = user_with("ann", &["editor"]);
        for (text, author, from) in [("now", "ann", "2026-01-01T00:00:00Z"), ("later", "ben", "2027-01-01T00:00:00Z")] {
            let body = json!({"text": text, "author": author, "shownFrom": from});
            assert_eq!(world.post(&user("ann"), "/notices", body.clone()).await.status, StatusCode::FORBIDDEN);
            assert_eq!(world.post(&editor, "/notices", body).await.status, StatusCode::CREATED, "{}", world.name());
        }
        for (caller, seen) in
            [(anonymous(), 1), (user("ann"), 0), (user("ben"), 1), (user_with("ann", &["auditor"]), 2)]
        {
            assert_eq!(world.get(&caller, "/notices").await.json()["total"], seen, "{} {caller:?}", world.name());
        }
    }
}

#[test]
fn invalid_rules_are_refused_with_the_position_of_the_word() {
    let table = [
        ("", "the rule is empty; leave it out if nothing is to be narrowed"),
        ("assignee = ", "expected a value, found the end at 1:12"),
        ("asignee = @me", "unknown field \"asignee\" of \"tasks\", did you mean \"assignee\"? at 1:1"),
        (
            "title = 'x' &&\n  project.nme = 'x'",
            "unknown field \"nme\" of \"projects\", did you mean \"name\"? at 2:11",
        ),
        ("project = @me", "\"project\" names a record, and @me an account at 1:11"),
        ("assignee > @me", "@me has no order; use = or != at 1:12"),
        ("tasks(project).title = 'x'", "\"project\" of \"tasks\" is not a relation to \"tasks\" at 1:7"),
        (
            "project.members(projct).user = @me",
            "unknown field \"projct\" of \"members\", did you mean \"project\"? at 1:17",
        ),
        (
            "created_at > 'soon'",
            "\"created_at\" takes a timestamp with an offset (RFC 3339) or a date, from the year 1 to 9999-12-30T22:00:00Z at 1:14",
        ),
        (
            "title = 'x' && updated_at in ['soon']",
            "\"updated_at\" takes a timestamp with an offset (RFC 3339) or a date, from the year 1 to 9999-12-30T22:00:00Z at 1:30",
        ),
        ("project.members(project) = @me", "a path ends in a field; write members(project).id at 1:9"),
        ("assignee.email = 'x'", "a path stops at users: of an account only id is known at 1:10"),
        ("title has 'x'", "has takes an array on its left: a list, a json field, @roles or @tenant_roles at 1:1"),
        ("@you = 'x'", "unknown word \"@you\"; use @me, @roles, @tenant, @tenant_roles, @now or @old at 1:1"),
        ("@now = title", "\"title\" is not a timestamp; @now cannot be compared with it at 1:1"),
        ("title.x = 'x'", "\"title\" is neither a relation nor a json field at 1:1"),
        (
            "project.tasks(project).project.tasks(project).project.name = 'x'",
            "more than 4 relations in one path at 1:47",
        ),
    ];
    for (rule, message) in table {
        let [projects, members, tasks] = entities();
        let errors = Declarations::check(&[projects, members, tasks.rule(Action::Read, rule)]).unwrap_err();
        assert_eq!(errors.to_string(), format!("entity \"tasks\": rules.read: {message}"), "{rule}");
    }
}

/// 401 comes first, then the errors of the body, then the rule for the record as it would be stored, then values that are taken.
#[tokio::test]
async fn the_rule_of_a_create_comes_after_the_errors_of_its_body() {
    let notices = Entity::new("notices").public().field(Field::int("n")).rule(Action::Create, "@roles has 'editor'");
    for world in worlds(entities().into_iter().chain([notices])).await {
        let project = project(&world).await;
        let invalid = [
            json!({"project": project.id, "title": "x", "zzz": 1}),
            json!({"project": project.id, "title": 5}),
            json!({"project": project.id, "assignee": "nobody", "title": ["x"]}),
        ];
        for body in &invalid {
            let batch = json!({"items": [body]});
            for (caller, status) in [(user("ben"), 422), (user("ann"), 422)] {
                let answer = world.post(&caller, "/tasks", body.clone()).await;
                assert_eq!(answer.status, status, "{} {caller:?} {body} {}", world.name(), answer.text);
                assert_eq!(world.post(&caller, "/tasks/_batch", batch.clone()).await.status, status, "{body}");
            }
        }
        let valid = json!({"project": project.id, "title": "x"});
        assert_eq!(world.post(&user("ben"), "/tasks", valid).await.status, 403);
        assert_eq!(world.post(&anonymous(), "/notices", json!({"n": "x"})).await.status, 401);
        assert_eq!(world.post(&user_with("ann", &["editor"]), "/notices", json!({"n": "x"})).await.status, 422);
        assert_eq!(titles(&world, &user("ann"), "?sort=title").await, ["one", "two"], "nothing was created");
    }
}

#[tokio::test]
async fn streams_send_events_only_to_callers_who_may_read_the_record() {
    for world in worlds(entities()).await {
        let (ann, ben) = (user("ann"), user("ben"));
        let project = project(&world).await;
        let mut of_ann = Stream::open(world.ask(&ann, Method::GET, "/tasks/_events")).await;
        let mut of_ben = Stream::open(world.ask(&ben, Method::GET, "/tasks/_events")).await;
        let task = format!("/tasks/{}", project.tasks[0]);
        let rename = async |title: &str| {
            let answer = world.patch(&ann, &task, json!({"title": title})).await;
            assert_eq!(answer.status, StatusCode::OK, "{} {}", world.name(), answer.text);
        };
        rename("before").await;
        let membership = join(&world, &project, "ben").await;
        rename("during").await;
        assert_eq!(world.delete(&ann, &format!("/tasks/{}", project.tasks[1])).await.status, StatusCode::NO_CONTENT);
        assert_eq!(world.delete(&ann, &format!("/members/{membership}")).await.status, StatusCode::NO_CONTENT);
        rename("after").await;
        join(&world, &project, "ben").await;
        rename("again").await;
        let mut seen = Vec::new();
        for _ in 0..3 {
            let (kind, record) = of_ben.next().await.unwrap();
            seen.push(format!("{kind} {}", record["title"].as_str().unwrap()));
        }
        assert_eq!(seen, ["entity.updated during", "entity.deleted two", "entity.updated again"], "{}", world.name());
        let mut all = Vec::new();
        for _ in 0..5 {
            all.push(of_ann.next().await.unwrap().1["title"].as_str().unwrap().to_owned());
        }
        assert_eq!(all, ["before", "during", "two", "after", "again"], "{}", world.name());
    }
}
