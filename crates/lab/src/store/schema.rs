//! The store's schema: one migration per version, applied in order.

use std::path::Path;

use rusqlite::Connection;

use super::StoreError;

/// Migration `n` updates schema `n` to `n + 1`. Never edit a released migration; add another one.
const MIGRATIONS: &[&str] = &[
    "CREATE TABLE fingerprint (id TEXT PRIMARY KEY, json TEXT NOT NULL) STRICT;
     CREATE TABLE run (
         id INTEGER PRIMARY KEY AUTOINCREMENT,
         kind TEXT NOT NULL,
         state TEXT NOT NULL CHECK (state IN ('running', 'partial', 'done')),
         started_unix_s REAL NOT NULL,
         command TEXT NOT NULL,
         fingerprint TEXT REFERENCES fingerprint (id)) STRICT;
     CREATE TABLE record (
         id INTEGER PRIMARY KEY AUTOINCREMENT,
         run INTEGER NOT NULL REFERENCES run (id),
         engine TEXT NOT NULL,
         json TEXT NOT NULL) STRICT;
     CREATE INDEX record_by_run ON record (run);",
    "ALTER TABLE run ADD COLUMN finding TEXT;",
    // More states need a new table, because a CHECK cannot be changed. A task has at most one record.
    "CREATE TABLE run_new (
         id INTEGER PRIMARY KEY AUTOINCREMENT,
         kind TEXT NOT NULL,
         state TEXT NOT NULL CHECK (state IN ('running', 'partial', 'interrupted', 'failed', 'done')),
         started_unix_s REAL NOT NULL,
         command TEXT NOT NULL,
         fingerprint TEXT REFERENCES fingerprint (id),
         finding TEXT,
         experiment TEXT) STRICT;
     INSERT INTO run_new (id, kind, state, started_unix_s, command, fingerprint, finding)
         SELECT id, kind, state, started_unix_s, command, fingerprint, finding FROM run;
     DROP TABLE run;
     ALTER TABLE run_new RENAME TO run;
     CREATE INDEX run_by_experiment ON run (experiment);
     ALTER TABLE record ADD COLUMN task INTEGER;
     CREATE UNIQUE INDEX record_by_task ON record (run, task) WHERE task IS NOT NULL;",
    // Other kinds of results, stored as a whole.
    "ALTER TABLE run ADD COLUMN document TEXT;",
    "ALTER TABLE run ADD COLUMN name TEXT;",
    // Settings of the user for the whole store, such as the run that is the host's calibration.
    "CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;",
];

fn version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Refuses a database with anything that netcliff never puts into one: views, triggers, virtual tables and computed
/// columns. They run code when a table is read or written, or return more than is stored; an endless view would be read
/// for ever.
fn refuse_foreign(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let foreign = "SELECT type || ' ' || name FROM sqlite_schema
             WHERE type NOT IN ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'
         UNION ALL SELECT 'computed column ' || t.name || '.' || c.name
             FROM sqlite_schema t, pragma_table_xinfo(t.name) c WHERE t.type = 'table' AND c.hidden <> 0
         LIMIT 1";
    let refused = |reason: String| StoreError::Open { path: path.to_owned(), reason };
    match connection.query_row(foreign, [], |row| row.get::<_, String>(0)) {
        Err(rusqlite::Error::QueryReturnedNoRows) => Ok(()),
        Ok(what) => Err(refused(format!("it holds the {what}, which netcliff did not make"))),
        Err(error) => Err(refused(error.to_string())),
    }
}

/// Updates the schema. Refuses a newer one.
pub fn migrate(connection: &mut Connection, path: &Path) -> Result<(), StoreError> {
    refuse_foreign(connection, path)?;
    let known = MIGRATIONS.len() as i64;
    let apply = |connection: &mut Connection| -> rusqlite::Result<i64> {
        // Only read an up-to-date store: a reader must not wait for the lock of a run that writes.
        let found = version(connection)?;
        if found >= known {
            connection.pragma_update(None, "foreign_keys", true)?;
            return Ok(found);
        }
        // Switch off the check while tables are rebuilt: records refer to runs in the table that is dropped.
        connection.pragma_update(None, "foreign_keys", false)?;
        // Use an immediate transaction, so that two processes that open a new store at once do not both migrate it.
        let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let found = version(&transaction)?;
        for migration in MIGRATIONS.iter().skip(usize::try_from(found).unwrap_or(0)) {
            transaction.execute_batch(migration)?;
        }
        if found < known {
            transaction.pragma_update(None, "user_version", known)?;
        }
        transaction.commit()?;
        connection.pragma_update(None, "foreign_keys", true)?;
        Ok(found)
    };
    match apply(connection) {
        Ok(found) if found > known => Err(StoreError::Newer { path: path.to_owned(), found, known }),
        Ok(_) => Ok(()),
        Err(error) => Err(StoreError::Open { path: path.to_owned(), reason: error.to_string() }),
    }
}

#[cfg(test)]
pub(super) const FIRST: &str = MIGRATIONS[0];
