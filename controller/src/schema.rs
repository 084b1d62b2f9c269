//! Fields of the CRD on the API server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use compute_domain_core::StatusSchema;
use tracing::{info, warn};

use crate::api_client::RequestError;

/// The status fields that the API server is known to store. Helm installs a CRD once and never replaces it, so it may
/// be that of the Go driver's chart.
#[derive(Debug)]
pub(crate) struct Schema {
    current: Mutex<StatusSchema>,
    channel_tried: AtomicBool,
}

impl Default for Schema {
    fn default() -> Self {
        Self {
            current: Mutex::new(StatusSchema::FULL),
            channel_tried: AtomicBool::new(false),
        }
    }
}

impl Schema {
    pub(crate) fn current(&self) -> StatusSchema {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the CRD lacks fields.
    pub(crate) fn is_reduced(&self) -> bool {
        self.current() != StatusSchema::FULL
    }

    /// Whether the field for the channel was probed.
    pub(crate) fn is_channel_tried(&self) -> bool {
        self.channel_tried.load(Ordering::Relaxed)
    }

    /// Records that the field for the channel was probed.
    pub(crate) fn set_channel_tried(&self) {
        self.channel_tried.store(true, Ordering::Relaxed);
    }

    /// Whether a status write failed because the CRD lacks a field. Such fields are left out from now on. The API
    /// server answers 500 (kubernetes/kubernetes#139253), so the message decides.
    // req: CD-3
    pub(crate) fn learn_from(&self, error: &RequestError) -> bool {
        let Some(status) = error.status() else {
            return false;
        };
        let before = self.current();
        let Some(reduced) = StatusSchema::FULL.without_undeclared(&status.message) else {
            return false;
        };
        let reduced = StatusSchema {
            conditions: before.conditions && reduced.conditions,
            observed_generation: before.observed_generation && reduced.observed_generation,
            channel: before.channel && reduced.channel,
        };
        self.set(reduced);
        // Logged once, though the API server names one field after the other.
        if before == StatusSchema::FULL {
            warn!(
                "the CustomResourceDefinition of ComputeDomains on the API server is older than this controller, so some of these status fields are missing: conditions, observedGeneration, channel; apply the CustomResourceDefinition of this chart (crd/)"
            );
        }
        // Another request may have been sent with these fields before they were known to be missing.
        true
    }

    /// The CRD has every field.
    pub(crate) fn set_full(&self) {
        if self.is_reduced() {
            info!("the ComputeDomain CRD now has all status fields");
        }
        self.set(StatusSchema::FULL);
    }

    fn set(&self, schema: StatusSchema) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = schema;
    }
}
