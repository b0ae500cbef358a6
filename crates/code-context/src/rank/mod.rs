//! The files of an index in the order of their likelihood for one item.

pub(crate) mod links;
pub(crate) mod literal;
pub(crate) mod main_language;
pub(crate) mod messages;
pub(crate) mod named;
pub(crate) mod order;
pub(crate) mod outline;
pub(crate) mod past;
pub(crate) mod places;
pub(crate) mod query;
pub(crate) mod signals;
pub(crate) mod together;
pub(crate) mod weights;
