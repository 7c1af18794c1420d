//! Naming, finding and removing what is kept.

use rusqlite::params;

use super::{RunSummary, Store, StoreError};

impl Store {
    /// The run that a user names: its number, its name (the newest of that name), `last`, or `last~2` and `name~2` for the second before.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn find(&self, text: &str) -> Result<Option<RunSummary>, StoreError> {
        if let Ok(id) = text.parse() {
            return self.run(id);
        }
        let back = text.rsplit_once('~').and_then(|(name, back)| Some((name, back.parse::<usize>().ok()?)));
        let (name, back) = back.unwrap_or((text, 0));
        let called = |run: &RunSummary| name == "last" || run.name.as_deref() == Some(name);
        Ok(self.runs()?.into_iter().filter(called).nth(back))
    }

    /// Gives a run another name, or none.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn rename(&self, run: i64, name: Option<&str>) -> Result<(), StoreError> {
        let changed = self.connection.execute("UPDATE run SET name = ?2 WHERE id = ?1", params![run, name]);
        changed.map(|_| ()).map_err(|error| self.sql(error))
    }

    /// Removes runs with their records; fingerprints that no run has are removed with them.
    ///
    /// # Errors
    /// The store cannot be written; then all runs are still there.
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

    /// Runs that are over and hold nothing: neither records nor a result.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn empty(&self) -> Result<Vec<RunSummary>, StoreError> {
        self.summaries(
            "WHERE state <> 'running' AND finding IS NULL AND document IS NULL
               AND NOT EXISTS (SELECT 1 FROM record WHERE record.run = run.id) ORDER BY run.id DESC",
            [],
        )
    }

    /// Gives the file's unused pages back to the file system.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn compact(&self) -> Result<(), StoreError> {
        self.connection.execute_batch("VACUUM").map_err(|error| self.sql(error))
    }
}
