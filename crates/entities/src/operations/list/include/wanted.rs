//! `include=` as it is written: `project.owner,comments(ticket):50.author`.

use super::MAX_INCLUDED;

/// The most relations in one path.
pub(super) const MAX_STEPS: usize = 3;
/// How many records a back relation shows of each record, and at most.
const DEFAULT_MANY: u32 = 25;
const MAX_MANY: u32 = 100;

/// A relation whose records are included, and those that are included in them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::operations) struct Wanted {
    /// The field, or the entity of a back relation.
    pub(super) name: String,
    pub(super) back: Option<Back>,
    pub(super) children: Vec<Wanted>,
}

/// A back relation: the records of another entity that name the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Back {
    /// Their relation.
    pub(super) field: String,
    /// How many are shown, if the request says so.
    most: Option<u32>,
}

impl Back {
    pub(super) fn most(&self) -> u32 {
        self.most.unwrap_or(DEFAULT_MANY)
    }
}

impl Wanted {
    /// Reads an `include`. The error is a sentence for the caller.
    pub(in crate::operations) fn read(text: &str) -> Result<Vec<Self>, String> {
        let mut all = Vec::new();
        for (number, path) in text.split(',').enumerate() {
            if number == MAX_INCLUDED {
                return Err(format!("include takes at most {MAX_INCLUDED} relations"));
            }
            let steps: Vec<&str> = path.split('.').collect();
            if steps.len() > MAX_STEPS {
                return Err(format!("include: \"{}\" has more than {MAX_STEPS} relations", shown(path)));
            }
            add(&mut all, &steps)?;
        }
        Ok(all)
    }

    fn step(text: &str) -> Result<Self, String> {
        let wrong = || format!("include: \"{}\" is no relation; write field, or entity(field)", shown(text));
        let (relation, most) = match text.split_once(':') {
            None => (text, None),
            Some((relation, digits)) => (relation, Some(most(digits)?)),
        };
        let (name, back) = match relation.split_once('(') {
            None if most.is_some() => {
                return Err(format!("include: \"{}\": a number goes with entity(field)", shown(text)));
            }
            None => (relation, None),
            Some((entity, field)) => {
                let field = field.strip_suffix(')').filter(|field| !field.is_empty()).ok_or_else(wrong)?;
                (entity, Some(Back { field: field.to_owned(), most }))
            }
        };
        Ok(Self { name: name.to_owned(), back, children: Vec::new() })
    }

    fn is_like(&self, other: &Self) -> bool {
        let field = |wanted: &Self| wanted.back.as_ref().map(|back| back.field.clone());
        self.name == other.name && field(self) == field(other)
    }
}

fn add(all: &mut Vec<Wanted>, steps: &[&str]) -> Result<(), String> {
    let Some((first, rest)) = steps.split_first() else { return Ok(()) };
    let step = Wanted::step(first)?;
    let place = match all.iter().position(|wanted| wanted.is_like(&step)) {
        None => {
            all.push(step);
            all.len() - 1
        }
        Some(place) => {
            if let (Some(known), Some(Back { most: Some(most), .. })) = (&mut all[place].back, step.back) {
                if known.most.is_some_and(|known| known != most) {
                    return Err(format!("include: \"{}\" has two numbers", shown(first)));
                }
                known.most = Some(most);
            }
            place
        }
    };
    add(&mut all[place].children, rest)
}

fn most(digits: &str) -> Result<u32, String> {
    let number = if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.parse().ok() } else { None };
    number
        .filter(|number| (1..=MAX_MANY).contains(number))
        .ok_or_else(|| format!("include: the number of records is 1 to {MAX_MANY}, not \"{}\"", shown(digits)))
}

/// What a caller wrote, for a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        fn print(all: &[Wanted]) -> String {
            let one = |wanted: &Wanted| {
                let back = wanted.back.as_ref().map(|back| format!("({}):{}", back.field, back.most()));
                let children =
                    if wanted.children.is_empty() { String::new() } else { format!("{{{}}}", print(&wanted.children)) };
                format!("{}{}{children}", wanted.name, back.unwrap_or_default())
            };
            all.iter().map(one).collect::<Vec<_>>().join(",")
        }
        Wanted::read(text).map(|all| print(&all))
    }

    #[test]
    fn paths_that_begin_alike_are_one() {
        for (text, expected) in [
            ("a", "a"),
            ("a.b.c,a.d,a", "a{b{c},d}"),
            ("comments(ticket)", "comments(ticket):25"),
            ("comments(ticket).author,comments(ticket):50,x", "comments(ticket):50{author},x"),
            ("comments(ticket):50.author,comments(ticket).editor", "comments(ticket):50{author,editor}"),
            ("a.comments(b):1.c", "a{comments(b):1{c}}"),
        ] {
            assert_eq!(read(text).as_deref(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_path_is_named() {
        for (text, expected) in [
            ("a.b.c.d", "include: \"a.b.c.d\" has more than 3 relations"),
            ("a,b,c,d,e,f,g,h,i", "include takes at most 8 relations"),
            ("c(t):101", "include: the number of records is 1 to 100, not \"101\""),
            ("c(t):0", "include: the number of records is 1 to 100, not \"0\""),
            ("c(t):-1", "include: the number of records is 1 to 100, not \"-1\""),
            ("c(t):", "include: the number of records is 1 to 100, not \"\""),
            ("c(t):5,c(t):6", "include: \"c(t):6\" has two numbers"),
            ("c(t", "include: \"c(t\" is no relation; write field, or entity(field)"),
            ("c()", "include: \"c()\" is no relation; write field, or entity(field)"),
            ("a:5", "include: \"a:5\": a number goes with entity(field)"),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
    }
}
