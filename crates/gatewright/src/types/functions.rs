use std::sync::Arc;

use gatewright_base::JsonCase;
use gatewright_entities::{Plan, Profile};

use super::typescript::{interfaces, line, quoted};

const HEAD: &str = "\
// Made by `gatewright types --functions` from the declared entities. Do not edit: run it again instead.

declare module \"gatewright\" {
/** Any JSON value. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json };
";

/// The interfaces of the service that do not depend on entities.
const TAIL: &str = include_str!("functions.d.ts");

/// The whole declaration file.
pub(super) fn module(case: JsonCase, plans: &[Arc<Plan>], profile: Option<&Profile>) -> String {
    let all: Vec<&Arc<Plan>> = plans.iter().collect();
    let (interfaces, entities) = interfaces(case, plans, &all, profile, "bigint");
    let mut module = format!("{HEAD}{interfaces}");
    line(&mut module, "\n/** Every entity by its name. */\nexport interface Entities {");
    for (plan, name) in entities {
        let name = if plan.is_read_only() {
            format!("{{ record: {name}; create: never; update: never }}")
        } else {
            format!("{{ record: {name}; create: {name}Create; update: {name}Update }}")
        };
        line(&mut module, &format!("  {}: {name};", quoted(plan.name())));
    }
    module.push_str("}\n\n");
    let more = match case {
        JsonCase::Camel => "hasMore",
        JsonCase::Snake => "has_more",
    };
    module.push_str(&TAIL.replace("hasMore", more));
    module.push_str("}\n");
    module
}

#[cfg(test)]
mod tests {
    use gatewright_entities::{Declarations, Entity, Field, Kind};

    use super::*;

    #[test]
    fn entities_are_listed_by_their_names_with_exact_integers() {
        let entity = Entity::new("tickets").field(Field::new("views", Kind::Int));
        let declarations = Declarations::check(&[entity]).expect("valid");
        let module = module(JsonCase::Camel, &declarations.plans(JsonCase::Camel), None);
        assert!(module.contains("views: bigint | null;"), "{module}");
        assert!(module.contains("\"tickets\": { record: Tickets; create: TicketsCreate; update: TicketsUpdate };"));
        assert!(module.trim_end().ends_with('}'));
    }
}
