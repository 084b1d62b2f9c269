use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use compute_domain_api::crd::ComputeDomainState;
use kube::runtime::reflector::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::api_client::RawDomain;

/// The Go driver's name. In spite of it, the metric is a count: of `ComputeDomains`, by status.
const NAME: &str = "nvidia_dra_compute_domain_info";

/// Counts `ComputeDomains` in the watch's cache whenever the metrics are scraped, so that the numbers
/// are right after a restart and after deletions. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct DomainCounts {
    /// The cache of the running watch; `None` while another replica is the leader.
    domains: Arc<Mutex<Option<Store<RawDomain>>>>,
}

impl DomainCounts {
    /// Counts the domains in this cache from now on.
    pub(crate) fn set_store(&self, domains: Store<RawDomain>) {
        *self.lock() = Some(domains);
    }

    /// A domain that has no status yet counts as neither.
    fn count(&self, state: ComputeDomainState) -> usize {
        let is = |domain: &RawDomain| {
            let status = domain
                .0
                .as_ref()
                .ok()
                .and_then(|domain| domain.status.as_ref());
            status.is_some_and(|status| status.status == state)
        };
        let domains = self.lock().as_ref().map(Store::state).unwrap_or_default();
        domains.iter().filter(|domain| is(domain)).count()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Store<RawDomain>>> {
        // A panic elsewhere cannot leave it half-changed.
        self.domains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for DomainCounts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Number of ComputeDomains by status";
        let mut family = encoder.encode_descriptor(NAME, help, None, MetricType::Gauge)?;
        for state in ComputeDomainState::ALL {
            let count = u64::try_from(self.count(state)).unwrap_or(u64::MAX);
            ConstGauge::new(count).encode(family.encode_family(&[("status", state.as_str())])?)?;
        }
        Ok(())
    }
}

impl fmt::Debug for DomainCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DomainCounts")
    }
}

#[cfg(test)]
mod tests {
    use compute_domain_api::crd::{ComputeDomain, ComputeDomainStatus};
    use kube::core::DeserializeGuard;
    use kube::runtime::{reflector, watcher};
    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;

    use super::*;

    fn mk_domain(name: &str, status: Option<ComputeDomainState>) -> RawDomain {
        let mut domain = ComputeDomain::default();
        domain.metadata.name = Some(name.into());
        domain.metadata.namespace = Some("ns".into());
        domain.status = status.map(|status| ComputeDomainStatus {
            status,
            ..Default::default()
        });
        DeserializeGuard(Ok(domain))
    }

    #[test]
    fn domains_are_counted_by_status_until_they_are_deleted() {
        let (domains, mut writer) = reflector::store();
        let mut registry = Registry::default();
        let counts = DomainCounts::default();
        registry.register_collector(Box::new(counts.clone()));
        counts.set_store(domains);
        let ready = mk_domain("a", Some(ComputeDomainState::Ready));
        for domain in [
            ready.clone(),
            mk_domain("b", Some(ComputeDomainState::Ready)),
            mk_domain("c", None),
        ] {
            writer.apply_watcher_event(&watcher::Event::Apply(domain));
        }
        let scrape = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            text
        };
        assert!(
            scrape().contains("\nnvidia_dra_compute_domain_info{status=\"Ready\"} 2\n"),
            "{}",
            scrape()
        );
        writer.apply_watcher_event(&watcher::Event::Delete(ready));
        assert!(scrape().contains("\nnvidia_dra_compute_domain_info{status=\"Ready\"} 1\n"));
        assert!(scrape().contains("\nnvidia_dra_compute_domain_info{status=\"NotReady\"} 0\n"));
    }
}
