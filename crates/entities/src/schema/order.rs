use crate::declare::{Model, Target};

/// The order in which tables are created, so that referenced tables exist first, with the columns that must wait: those
/// of a cycle that would refer to a table that is created later.
pub(super) fn creation_order(models: &[Model]) -> Vec<(usize, Vec<&str>)> {
    let mut order: Vec<(usize, Vec<&str>)> = Vec::with_capacity(models.len());
    // Those without a table count as created.
    let mut placed: Vec<bool> = models.iter().map(Model::is_read_only).collect();
    while placed.contains(&false) {
        let ready = (0..models.len()).find(|&index| !placed[index] && waiting(models, index, &placed).is_empty());
        // In a cycle, no table is ready; one is created without the columns that refer to later tables.
        let Some(next) = ready.or_else(|| in_circle(models, &placed)) else { break };
        let later = waiting(models, next, &placed);
        placed[next] = true;
        order.push((next, later));
    }
    order
}

/// A table of a cycle: follows missing tables until one repeats.
fn in_circle(models: &[Model], placed: &[bool]) -> Option<usize> {
    let mut seen = vec![false; models.len()];
    let mut at = placed.iter().position(|placed| !placed)?;
    while !std::mem::replace(&mut seen[at], true) {
        at = ahead(models, at, placed).next()?.1;
    }
    Some(at)
}

/// The columns of a table that refer to tables which do not exist yet. A table may refer to itself.
fn waiting<'a>(models: &'a [Model], index: usize, placed: &[bool]) -> Vec<&'a str> {
    ahead(models, index, placed).map(|(column, _)| column).collect()
}

fn ahead<'a>(models: &'a [Model], index: usize, placed: &[bool]) -> impl Iterator<Item = (&'a str, usize)> {
    models[index].fields.iter().filter_map(move |field| match field.relation?.to {
        Target::Entity(target) if target != index && !placed[target] => Some((&*field.name, target)),
        Target::Entity(_) | Target::Users => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Declarations, Entity, Field};

    #[test]
    fn targets_come_first_and_cycles_are_closed_afterwards() {
        let entities = [
            Entity::new("comments")
                .field(Field::relation("post", "posts"))
                .field(Field::relation("parent", "comments")),
            Entity::new("posts").field(Field::relation("cover", "images")).field(Field::relation("author", "users")),
            Entity::new("images").field(Field::relation("post", "posts")),
            Entity::new("tags"),
        ];
        let models = Declarations::check(&entities).unwrap().models;
        let order = creation_order(&models);
        let named: Vec<_> = order.iter().map(|(index, later)| (&*models[*index].name, later.clone())).collect();
        assert_eq!(named, [("tags", vec![]), ("posts", vec!["cover"]), ("comments", vec![]), ("images", vec![])]);
    }
}
