//! Entities of every shape, full of canaries.

use std::fmt::Write;

use gatewright::base::{Ambient, Credential, Identity, Principal, Rng, SeededRng, Subject, TenantId, UserId};
use gatewright::entities::tenancy::SqlMemberships;
use gatewright::entities::{Call, Table};
use gatewright_db::params;
use gatewright_testing::{Actor, TestApp};
use serde_json::json;

/// The tenants. Ada belongs to the first, Ben to both.
pub(super) const TENANTS: [&str; 2] = ["acme", "globex"];
/// What no client may ever see, by column.
pub(super) const HIDDEN: [&str; 2] = ["zz_secret", "zz_link"];

/// A generated entity.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "all combinations of them are drawn")]
pub(super) struct Shape {
    pub(super) name: String,
    pub(super) owned: bool,
    pub(super) tenants: bool,
    pub(super) by_role: bool,
    pub(super) trash: bool,
    pub(super) public: bool,
    /// The target of its relations.
    pub(super) leads_to: usize,
}

/// A record, and the canaries that nobody or not everybody may see.
#[derive(Debug, Clone)]
pub(super) struct Planted {
    pub(super) shape: usize,
    pub(super) id: String,
    pub(super) owner: &'static str,
    pub(super) tenant: &'static str,
    pub(super) in_trash: bool,
    /// In fields that are shown to callers who may read the record.
    pub(super) shown: Vec<String>,
    /// In hidden fields.
    pub(super) hidden: Vec<String>,
}

/// Somebody who asks.
pub(super) struct Caller {
    pub(super) name: &'static str,
    pub(super) actor: Actor,
    pub(super) is_known: bool,
    pub(super) has_role: bool,
    pub(super) tenants: &'static [&'static str],
    /// The tables that the token's scopes open, if it is one.
    pub(super) scopes: Option<&'static str>,
}

pub(super) struct World {
    pub(super) app: TestApp,
    pub(super) shapes: Vec<Shape>,
    pub(super) planted: Vec<Planted>,
    pub(super) ada: String,
    pub(super) ben: String,
    pub(super) cyd: String,
    rng: SeededRng,
}

/// All combinations, with an order and relations from the seed.
pub(super) fn shapes(rng: &SeededRng) -> Vec<Shape> {
    let mut combinations: Vec<u8> = (0..16).collect();
    for last in (1..combinations.len()).rev() {
        combinations.swap(last, below(rng, last + 1));
    }
    combinations.push(16);
    let count = combinations.len();
    let shape = |(index, bits): (usize, u8)| Shape {
        name: format!("things_{index}"),
        owned: bits & 1 > 0,
        tenants: bits & 2 > 0,
        by_role: bits & 4 > 0,
        trash: bits & 8 > 0,
        public: bits == 16,
        leads_to: below(rng, count),
    };
    combinations.into_iter().enumerate().map(shape).collect()
}

fn below(rng: &SeededRng, limit: usize) -> usize {
    let mut bytes = [0; 4];
    rng.fill(&mut bytes);
    usize::try_from(u32::from_be_bytes(bytes)).unwrap() % limit
}

pub(super) fn configuration(shapes: &[Shape], more: &str) -> String {
    let mut text = format!("{more}\n[roles]\neditor = [\"x:read\", \"x:write\"]\n");
    for shape in shapes {
        let Shape { name, tenants, trash, public, .. } = shape;
        let _infallible = write!(
            text,
            "[[entity]]\nname = \"{name}\"\nmulti_tenant = {tenants}\nsoft_delete = {trash}\npublic = {public}\n\
             search_fields = [\"text\"]\ncursor_fields = [\"text\"]\n"
        );
        if shape.leads_to % 2 == 0 {
            text.push_str("search = { fields = { text = 2, code = 1 } }\n");
        }
        if shape.owned {
            text.push_str("owner_field = \"user_id\"\n");
        }
        if shape.by_role {
            text.push_str(
                "access = { read = \"x:read\", create = \"x:write\", update = \"x:write\", delete = \"x:write\" }\n",
            );
        }
        let target = &shapes[shape.leads_to].name;
        for (field, kind) in [
            ("text", "type = \"string\""),
            ("code", "type = \"string\"\nunique = true"),
            ("meta", "type = \"json\""),
            ("seen", "type = \"string\"\nread_only = true"),
            ("rank", "type = \"int\""),
            ("link", &format!("type = \"relation\"\nto = \"{target}\"\non_delete = \"set_null\"")),
            ("zz_secret", "type = \"string\"\nhidden = true"),
            ("zz_link", &format!("type = \"relation\"\nto = \"{target}\"\non_delete = \"set_null\"\nhidden = true")),
        ] {
            let _infallible = write!(text, "[[entity.field]]\nname = \"{field}\"\n{kind}\n");
        }
    }
    for shape in shapes {
        view(shape, &shapes[shape.leads_to], &mut text);
    }
    text
}

/// A view that shows what its entity shows: of the same owners and tenants, and nothing of the trash.
fn view(shape: &Shape, target: &Shape, text: &mut String) {
    let Shape { name, owned, tenants, by_role, trash, public, .. } = shape;
    let owner = if *owned { ", user_id" } else { "" };
    let tenant = if *tenants { ", tenant_id" } else { "" };
    let live = if *trash { " WHERE deleted_at IS NULL" } else { "" };
    let access = match (by_role, public) {
        (true, _) => "access = { read = \"x:read\" }\n",
        (false, true) => "access = { read = \"public\" }\n",
        (false, false) => "",
    };
    let of_owner = if *owned { "owner_field = \"user_id\"\n" } else { "" };
    let _infallible = write!(
        text,
        "[[view]]\nname = \"seen_{name}\"\n{access}{of_owner}search_fields = [\"text\"]\ncursor_fields = [\"text\"]\n\
         sql = \"SELECT id, text, code, meta, seen, rank, link, zz_secret{owner}{tenant} FROM {name}{live}\"\n"
    );
    let link = format!("type = \"relation\"\nto = \"{}\"", target.name);
    let hidden = "type = \"string\"\nhidden = true";
    for (field, kind) in [
        ("text", "type = \"string\""),
        ("code", "type = \"string\""),
        ("meta", "type = \"json\""),
        ("seen", "type = \"string\""),
        ("rank", "type = \"int\""),
        ("link", &link),
        ("zz_secret", hidden),
    ]
    .into_iter()
    .chain(owned.then_some(("user_id", hidden)))
    {
        let _infallible = write!(text, "[[view.field]]\nname = \"{field}\"\n{kind}\n");
    }
}

impl World {
    /// A world on every engine, with the same shapes.
    pub(super) async fn on_every_engine(seed: u64, more: &str) -> Vec<Self> {
        let shapes = shapes(&SeededRng::new(seed));
        let mut worlds = Vec::new();
        for app in TestApp::on_every_engine(&configuration(&shapes, more)).await {
            let (ada, ben) = (account(&app, "ada").await, account(&app, "ben").await);
            let cyd = account(&app, "cyd").await;
            for (user, tenants) in [(&ada, &TENANTS[..1]), (&ben, &TENANTS[..])] {
                for tenant in tenants {
                    let memberships = SqlMemberships::new(app.app().db().clone(), Ambient::system());
                    let subject = Subject::User(UserId::parse(user).unwrap());
                    memberships.add(&TenantId::parse(tenant).unwrap(), &subject).await.unwrap();
                }
            }
            let rng = SeededRng::new(seed + 1);
            let mut world = Self { app, shapes: shapes.clone(), planted: Vec::new(), ada, ben, cyd, rng };
            world.plant().await;
            worlds.push(world);
        }
        worlds
    }

    /// For each entity: a record of Ada's, one of Ben's in the same tenant, one of Ben's in the other, live and deleted.
    async fn plant(&mut self) {
        let places = [("ada", TENANTS[0]), ("ben", TENANTS[0]), ("ben", TENANTS[1])];
        for shape in 0..self.shapes.len() {
            for (owner, tenant) in places {
                for in_trash in [false, true] {
                    if !in_trash || self.shapes[shape].trash {
                        let planted = self.plant_one(shape, owner, tenant, in_trash).await;
                        self.planted.push(planted);
                    }
                }
            }
        }
        // Each refers to a record of its own owner and tenant, by both relations.
        for from in &self.planted {
            let to = self.planted.iter().find(|to| {
                let place = (to.owner, to.tenant, to.in_trash);
                to.shape == self.shapes[from.shape].leads_to && place == (from.owner, from.tenant, false)
            });
            let (table, to) = (&self.shapes[from.shape].name, &to.unwrap().id);
            let sql = format!("UPDATE {table} SET link = '{to}', zz_link = '{to}' WHERE id = '{}'", from.id);
            self.app.app().db().execute(sql, vec![]).await.unwrap();
        }
    }

    async fn plant_one(&self, shape: usize, owner: &'static str, tenant: &'static str, in_trash: bool) -> Planted {
        let id = self.canary("id").replace("cnry-", "");
        let [text, code, meta, seen, secret] = ["text", "code", "meta", "seen", "secret"].map(|what| self.canary(what));
        let Shape { name, owned, tenants, trash, .. } = &self.shapes[shape];
        let time = "'2026-01-01T00:00:00.000000Z'";
        let mut columns = "id, text, code, meta, seen, rank, zz_secret, created_at, updated_at".to_owned();
        // Bound, since statements are logged and values are not.
        let (mut values, mut bound) = (
            format!("?1, ?2, ?3, ?4, ?5, 1, ?6, {time}, {time}"),
            params![&id, &text, &code, json!({ meta.as_str(): 1 }).to_string(), &seen, &secret],
        );
        for (there, column, value) in [
            (*owned, "user_id", Some(self.user(owner))),
            (*tenants, "tenant_id", Some(tenant)),
            (*trash, "deleted_at", in_trash.then_some(&time[1..time.len() - 1])),
        ] {
            if there {
                bound.extend(params![value]);
                let _infallible = write!(columns, ", {column}");
                let _infallible = write!(values, ", ?{}", bound.len());
            }
        }
        let sql = format!("INSERT INTO {name} ({columns}) VALUES ({values})");
        self.app.app().db().execute(sql, bound).await.unwrap();
        Planted { shape, id, owner, tenant, in_trash, shown: vec![text, code, meta, seen], hidden: vec![secret] }
    }

    /// A unique text.
    fn canary(&self, what: &str) -> String {
        let mut bytes = [0; 8];
        self.rng.fill(&mut bytes);
        format!("cnry-{what}-{:016x}", u64::from_be_bytes(bytes))
    }

    fn user(&self, name: &str) -> &str {
        if name == "ada" { &self.ada } else { &self.ben }
    }

    pub(super) async fn callers(&self) -> Vec<Caller> {
        let app = &self.app;
        let mut callers = vec![Caller {
            name: "nobody",
            actor: app.anonymous(),
            is_known: false,
            has_role: false,
            tenants: &[],
            scopes: None,
        }];
        for (name, tenants) in [("ada", &TENANTS[..1]), ("ben", &TENANTS[..]), ("cyd", &[])] {
            let mut actor = app.anonymous();
            actor.sign_in(&format!("{name}@example.com")).await.is(200);
            if name == "ada" {
                for (name, scope) in [("ada's token to write", "write"), ("ada's token to read", "read")] {
                    let asked = json!({ "name": name, "scopes": [format!("*:{scope}")] });
                    let token = actor.post("/auth/tokens", asked).await.is(200).at("/token");
                    let actor = app.anonymous().bearing(token.as_str().unwrap());
                    callers.push(Caller { name, actor, is_known: true, has_role: true, tenants, scopes: Some(scope) });
                }
            }
            callers.push(Caller { name, actor, is_known: true, has_role: name != "cyd", tenants, scopes: None });
        }
        callers
    }

    /// Whether the rules show a record's fields to a caller who names that tenant.
    pub(super) fn may_see(&self, caller: &Caller, named: Option<&str>, planted: &Planted) -> bool {
        let shape = &self.shapes[planted.shape];
        let owner = caller.name.split('\'').next().unwrap();
        (shape.public || caller.is_known)
            && caller.scopes.is_none_or(|scope| scope == "read" && !planted.in_trash)
            && (!shape.by_role || caller.has_role)
            && (!shape.owned || planted.owner == owner)
            && (!shape.tenants || (named == Some(planted.tenant) && caller.tenants.contains(&planted.tenant)))
    }

    /// A record's owner in its tenant, with every right.
    pub(super) fn call_of(&self, planted: &Planted) -> Call {
        let subject = Subject::User(UserId::parse(self.user(planted.owner)).unwrap());
        let credential = Credential::Jwt { expires_at: jiff::Timestamp::MAX };
        let roles = ["editor"].into_iter().collect();
        let identity = Identity::Known(std::sync::Arc::new(Principal { subject, email: None, roles, credential }));
        Call::from(identity).in_tenant(TenantId::parse(planted.tenant).unwrap())
    }

    pub(super) fn table(&self, shape: usize) -> Table<'_> {
        self.app.app().entities().table(&self.shapes[shape].name).unwrap()
    }
}

/// Registers a user, as an editor except Cyd. Returns the id.
async fn account(app: &TestApp, name: &str) -> String {
    let email = format!("{name}@example.com");
    let id = app.registered(&email).await["user"]["id"].as_str().unwrap().to_owned();
    if name != "cyd" {
        app.grant(&email, &["user", "editor"]).await;
    }
    id
}
