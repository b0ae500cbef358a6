//! The word in which every seam says that an answer comes later.

use std::future::Future;
use std::pin::Pin;

/// A future in a box, so that traits stay usable as objects.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
