use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use compute_domain_api::crd::ComputeDomainState;
use kube::runtime::reflector::Store;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::cluster::Watched;

/// Go's name: it says info, and counts the domains by the status they have.
const NAME: &str = "nvidia_dra_compute_domain_info";

/// Counts from the watch's cache when asked, so that nothing has to be forgotten and a restart
/// counts right at once. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct DomainCounts {
    /// Of the watch that runs now; none while another replica works.
    domains: Arc<Mutex<Option<Store<Watched>>>>,
}

impl DomainCounts {
    /// Counts this watch's domains from now on.
    pub(crate) fn follow(&self, domains: Store<Watched>) {
        *self.lock() = Some(domains);
    }

    /// Domains that have no status yet count as neither.
    fn count(&self, state: ComputeDomainState) -> usize {
        let is = |domain: &Watched| {
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

    fn lock(&self) -> MutexGuard<'_, Option<Store<Watched>>> {
        // A store is replaced whole.
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

    fn mk_domain(name: &str, status: Option<ComputeDomainState>) -> Watched {
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
    fn domains_are_counted_by_status_and_forgotten_when_they_go() {
        let (domains, mut writer) = reflector::store();
        let mut registry = Registry::default();
        let counts = DomainCounts::default();
        registry.register_collector(Box::new(counts.clone()));
        counts.follow(domains);
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
