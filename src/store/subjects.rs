//! Stored data by subject. `store.items()` reads; `journal.items()` also changes, each change in
//! one transaction with its events. Every subject has a file that defines what is stored.

use std::future::Future;

use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::{Journal, Sql, Store, StoreError};

/// Types that can read the state: [`Store`] itself, and a [`Journal`] over it.
pub trait Reader: Sync {
    fn store(&self) -> &Store;

    /// Reads without writing, off the async threads.
    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Sql<T> + Send + 'static,
    ) -> impl Future<Output = Result<T, StoreError>> + Send {
        let store = self.store().clone();
        async move { tokio::task::spawn_blocking(move || store.read_here(work)).await? }
    }

    /// All rows of one query.
    fn rows<T: Send + 'static>(
        &self,
        sql: impl Into<String>,
        values: impl Params + Send + 'static,
        row: fn(&Row<'_>) -> Sql<T>,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send {
        let sql = sql.into();
        self.read(move |connection| {
            connection.prepare_cached(&sql)?.query_map(values, row)?.collect()
        })
    }

    /// The first row of one query, if there is one.
    fn first_row<T: Send + 'static>(
        &self,
        sql: impl Into<String>,
        values: impl Params + Send + 'static,
        row: fn(&Row<'_>) -> Sql<T>,
    ) -> impl Future<Output = Result<Option<T>, StoreError>> + Send {
        let sql = sql.into();
        self.read(move |connection| {
            connection.prepare_cached(&sql)?.query_row(values, row).optional()
        })
    }
}

impl Reader for Store {
    fn store(&self) -> &Store {
        self
    }
}

impl Reader for Journal {
    fn store(&self) -> &Store {
        Self::store(self)
    }
}

macro_rules! subjects {
    ($($(#[$doc:meta])* $name:ident: $Handle:ident,)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug)]
            pub struct $Handle<'a, R>(pub(super) &'a R);

            impl<R> Clone for $Handle<'_, R> {
                fn clone(&self) -> Self {
                    *self
                }
            }

            impl<R> Copy for $Handle<'_, R> {}

            impl<R: Reader> Reader for $Handle<'_, R> {
                fn store(&self) -> &Store {
                    self.0.store()
                }
            }
        )*
        impl Store {
            $($(#[$doc])* pub const fn $name(&self) -> $Handle<'_, Self> { $Handle(self) })*
        }
        impl Journal {
            $($(#[$doc])* pub const fn $name(&self) -> $Handle<'_, Self> { $Handle(self) })*
        }
    };
}

subjects! {
    /// Work items and their phases (`items`, `item_rows`, `pages`).
    items: Items,
    /// Work claimed for a session before it starts (`claims`).
    claims: Claims,
    /// Results of finished sessions (`results`).
    results: Results,
    /// Live and past sessions (`sessions`; rows of live ones are written in `ledger`).
    sessions: Sessions,
    findings: Findings,
    runs: Runs,
    /// Scheduled times (`ticks`).
    ticks: Ticks,
    /// The event log (`events`; written by [`Journal`]).
    events: Events,
    /// Reserved and spent budget (`budget`, `spending`).
    budget: Budget,
    /// Records of the model providers (`provider`).
    provider: Provider,
    /// State of the sources, and how far they were read (`sources`).
    sources: Sources,
    /// Messages to publish (`outbox`).
    outbox: Outbox,
    /// Suggested values for fields, and what became of them (`suggestions`).
    suggestions: Suggestions,
}
