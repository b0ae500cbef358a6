//! There are no PID namespaces here: the type exists and no value of it does.

use std::fs::File;

use super::channel::Channel;
use super::protocol::{Ending, Order, StartFailure};

/// Never.
#[derive(Debug)]
pub enum Namespace {}

impl Namespace {
    /// Never one.
    pub fn create(_group: Option<&File>, _control: &Channel) -> Option<Self> {
        None
    }

    /// Never called.
    pub fn start(&mut self, _order: &Order) -> Result<u32, StartFailure> {
        match *self {}
    }

    /// Never called.
    pub fn signal(&mut self, _signal: nix::sys::signal::Signal) {
        match *self {}
    }

    /// Never called.
    pub fn collect(&mut self) -> Option<Ending> {
        match *self {}
    }

    /// Never called.
    pub fn is_gone(&self) -> bool {
        match *self {}
    }

    /// Never called.
    pub fn population(&self) -> u32 {
        match *self {}
    }

    /// Never called.
    pub fn channel(&self) -> &Channel {
        match *self {}
    }
}
