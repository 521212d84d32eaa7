use super::{List, PagePlace, list};
use crate::access::Action;
use crate::call::Call;
use crate::context::admission::reach;
use crate::context::table::Table;
use crate::error::Error;
use crate::hooks::Object;
use crate::query::ListQuery;

impl Table<'_> {
    /// One page of the records that the caller reaches, or groups of them.
    ///
    /// Fails with [`Error::Refused`] if the caller may not read the entity, [`Error::Query`] if the query is invalid
    /// for it, [`Error::NotServed`] if the query leads to an entity that the call's interface does not serve, and with
    /// [`Error::TooManyLists`] and [`Error::ListTooSlow`] if a limit of lists is reached.
    pub async fn list(self, call: &Call, query: &ListQuery) -> Result<List, Error> {
        let Some(hooks) = self.entities.read_hooks_of(self.plan) else { return list(self, call, query).await };
        let mut query = query.clone();
        reach(self, call, Action::Read).await?;
        hooks.before_list(call, &mut query).await?;
        let mut list = list(self, call, &query).await?;
        if list.place == PagePlace::Groups {
            return Ok(list);
        }
        let mut records: Vec<Object> = serde_json::from_slice(&list.json).map_err(Error::hook)?;
        hooks.after_list(call, &mut records).await?;
        list.json = serde_json::to_vec(&records).map_err(Error::hook)?;
        Ok(list)
    }
}
