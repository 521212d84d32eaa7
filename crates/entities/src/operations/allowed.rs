use crate::access::{Action, Reach, Standing};
use crate::call::Call;
use crate::context::admission::{self, admitted, named_standing};
use crate::context::entities::Entities;
use crate::context::table::Table;
use crate::error::Error;

impl Table<'_> {
    /// The records that the caller reaches with `action`.
    ///
    /// Fails with [`Error::Refused`] if they are not allowed, and with [`Error::Memberships`] if the memberships cannot
    /// be read.
    pub async fn reach(self, call: &Call, action: Action) -> Result<Reach, Error> {
        admission::reach(self, call, action).await
    }
}

impl Entities {
    /// For each table and action, whether the caller is allowed. Reads the memberships once.
    pub async fn allowed(&self, call: &Call, wanted: &[(Table<'_>, Action)]) -> Result<Vec<bool>, Error> {
        let mut known = None;
        let mut allowed = Vec::with_capacity(wanted.len());
        for (table, action) in wanted {
            let plan = table.plan;
            let needs_standing = plan.tenant.is_some() || plan.readers.is_some();
            if needs_standing && known.is_none() {
                known = Some(named_standing(self, call).await?);
            }
            let standing = known.as_ref().filter(|_| needs_standing).unwrap_or(&Standing::Unnamed);
            allowed.push(admitted(*table, call, standing, *action).is_ok());
        }
        Ok(allowed)
    }
}
