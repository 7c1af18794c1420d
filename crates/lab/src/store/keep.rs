//! Names, searches and removes stored runs.

use rusqlite::{OptionalExtension, params};

use super::{RunSummary, Store, StoreError};

/// Name for the newest run, whatever its own name is.
pub(crate) const LAST: &str = "last";

/// Splits `new-kernel~2` into the name and the number of runs before the newest one (0 without a number).
pub(crate) fn name_and_back(text: &str) -> (&str, usize) {
    let back = text.rsplit_once('~').and_then(|(name, back)| Some((name, back.parse().ok()?)));
    back.unwrap_or((text, 0))
}

impl Store {
    /// The run that a user names: by its number, by its name (the newest of that name), by `last`, or by `last~2` or
    /// `name~2` for the second before it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn find(&self, text: &str) -> Result<Option<RunSummary>, StoreError> {
        match text.parse() {
            Ok(id) => self.run(id),
            Err(_) => {
                let (name, back) = name_and_back(text);
                self.newest(name, back, |_| true)
            }
        }
    }

    /// The newest run of a name (`last`: of any name) among those that `among` accepts, or the `back`th before it.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn newest(
        &self,
        name: &str,
        back: usize,
        among: impl Fn(&RunSummary) -> bool,
    ) -> Result<Option<RunSummary>, StoreError> {
        let called = |run: &RunSummary| name == LAST || run.name.as_deref() == Some(name);
        Ok(self.runs()?.into_iter().filter(|run| called(run) && among(run)).nth(back))
    }

    /// The numbers of the newest runs, as the end of a sentence: `the newest are 7, 6, 5`.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn newest_numbers(&self) -> Result<String, StoreError> {
        let ids: Vec<String> = self.runs()?.iter().take(10).map(|run| run.id.to_string()).collect();
        Ok(if ids.is_empty() { "the store is empty".to_owned() } else { format!("the newest are {}", ids.join(", ")) })
    }

    /// A setting of the whole store.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn setting(&self, name: &str) -> Result<Option<String>, StoreError> {
        let query = "SELECT value FROM setting WHERE name = ?1";
        self.connection.query_row(query, params![name], |row| row.get(0)).optional().map_err(|error| self.sql(error))
    }

    /// Sets or removes a setting of the whole store.
    ///
    /// # Errors
    /// The store cannot be written.
    pub(crate) fn set_setting(&self, name: &str, value: Option<&str>) -> Result<(), StoreError> {
        let done = match value {
            Some(value) => {
                self.connection.execute("INSERT OR REPLACE INTO setting VALUES (?1, ?2)", params![name, value])
            }
            None => self.connection.execute("DELETE FROM setting WHERE name = ?1", params![name]),
        };
        done.map(|_| ()).map_err(|error| self.sql(error))
    }

    /// Sets or removes the name of a run.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn rename(&self, run: i64, name: Option<&str>) -> Result<(), StoreError> {
        let changed = self.connection.execute("UPDATE run SET name = ?2 WHERE id = ?1", params![run, name]);
        changed.map(|_| ()).map_err(|error| self.sql(error))
    }

    /// Removes runs with their records, and fingerprints that no other run has.
    ///
    /// # Errors
    /// The store cannot be written. No run is removed then.
    pub fn remove(&self, runs: &[i64]) -> Result<(), StoreError> {
        let write = || -> rusqlite::Result<()> {
            let transaction = self.connection.unchecked_transaction()?;
            for run in runs {
                transaction.execute("DELETE FROM record WHERE run = ?1", params![run])?;
                transaction.execute("DELETE FROM run WHERE id = ?1", params![run])?;
            }
            let unused =
                "DELETE FROM fingerprint WHERE id NOT IN (SELECT fingerprint FROM run WHERE fingerprint IS NOT NULL)";
            transaction.execute(unused, [])?;
            transaction.commit()
        };
        write().map_err(|error| self.sql(error))
    }

    /// Runs that have neither records nor a result, and that no process works on.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn empty(&self) -> Result<Vec<RunSummary>, StoreError> {
        let mut all = self.summaries(
            "WHERE finding IS NULL AND document IS NULL
               AND NOT EXISTS (SELECT 1 FROM record WHERE record.run = run.id) ORDER BY run.id DESC",
            [],
        )?;
        let mut under_way = Vec::new();
        for run in &all {
            if self.is_under_way(run)? {
                under_way.push(run.id);
            }
        }
        all.retain(|run| !under_way.contains(&run.id));
        Ok(all)
    }

    /// Whether a process works on a run. A killed process leaves its run in state `running`.
    ///
    /// # Errors
    /// The lock file next to the store cannot be opened.
    pub fn is_under_way(&self, run: &RunSummary) -> Result<bool, StoreError> {
        Ok(run.state == "running" && self.hold(run.id)?.is_none())
    }

    /// Gives the file's unused pages back to the file system.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.connection.execute_batch("VACUUM").map_err(|error| self.sql(error))
    }
}
