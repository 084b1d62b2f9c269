//! The DRA service in both versions. It answers each claim of a call separately.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use super::message_size::fit_answers;
use crate::claim_source::ClaimSource;
use crate::driver::{Driver, Outcome};
use crate::error::ClaimError;
use crate::names::{MAX_OBJECT_NAME, is_label, is_subdomain, is_uid};
use crate::observer::{CallOutcome, Method, Observer};
use crate::operations::Operations;
use dra_claim::ClaimRef;

/// kubelet's timeout, used if the header is missing.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(45);
/// Upper limit of the header's value.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);
/// Time between the answer and the deadline. After the deadline the pod's event would have no
/// reason, and the pod would wait a minute for the next call.
const MARGIN: Duration = Duration::from_secs(2);

/// Maximum number of claims in a call. kubelet sends the claims of one pod, in at most 4 MiB.
/// The API has no limit, but a pod cannot use so many claims: the scheduler chooses their
/// devices one by one.
const MAX_CLAIMS: usize = 1024;

/// The service in both versions; [`super::convert`] has the conversions.
pub(super) struct DraService<D, S>(pub(super) Operations<D, S>);

/// Reports a call to the observer, as cancelled if this is dropped before the answer.
struct CallInFlight<'a> {
    observer: &'a dyn Observer,
    method: Method,
    began: Instant,
    outcome: CallOutcome,
}

// === impl CallInFlight ===

impl<'a> CallInFlight<'a> {
    fn start(observer: &'a dyn Observer, method: Method) -> Self {
        observer.call_started(method);
        Self {
            observer,
            method,
            began: Instant::now(),
            outcome: CallOutcome::Cancelled,
        }
    }

    fn answered(mut self, claims: usize, failed: usize) {
        self.outcome = CallOutcome::Answered { claims, failed };
    }
}

impl Drop for CallInFlight<'_> {
    fn drop(&mut self) {
        self.observer
            .call_finished(self.method, self.outcome, self.began.elapsed());
    }
}

// === impl DraService ===

impl<D: Driver, S: ClaimSource> DraService<D, S> {
    /// Returns one answer for each UID in the request; an error if there are too many. All
    /// operations begin before the first await, so a call that is cut off loses only its answer.
    // req: KUBELET-15, KUBELET-16, KUBELET-29
    async fn answer<C, A>(
        &self,
        method: Method,
        metadata: &MetadataMap,
        claims: Vec<C>,
    ) -> Result<BTreeMap<String, A>, Status>
    where
        C: Into<ClaimRef>,
        A: From<Outcome> + prost::Message,
    {
        let call = CallInFlight::start(self.0.observer(), method);
        if claims.len() > MAX_CLAIMS {
            let claims = claims.len();
            call.answered(claims, claims);
            return Err(Status::resource_exhausted(format!(
                "the call has {claims} claims; at most {MAX_CLAIMS} are allowed"
            )));
        }
        let answer_by = answer_by(Instant::now(), metadata);
        let handles: Vec<_> = claims
            .into_iter()
            .map(|claim| {
                let claim: ClaimRef = claim.into();
                let uid = claim.uid.clone();
                let valid = check_names(method, &claim);
                (uid, valid.map(|()| self.0.submit(method, claim, answer_by)))
            })
            .collect();
        let outcomes = handles.into_iter().map(|(uid, handle)| async move {
            let outcome = match handle {
                Ok(handle) => handle.outcome(answer_by).await,
                Err(invalid) => Err(invalid),
            };
            (uid, outcome)
        });
        let outcomes = join_all(outcomes).await;
        let claims = outcomes.len();
        let failed = outcomes.iter().filter(|(_, outcome)| outcome.is_err());
        let failed = failed.count();
        let answer = |(uid, outcome)| (uid, A::from(outcome));
        let mut answers = outcomes.into_iter().map(answer).collect();
        call.answered(claims, failed + fit_answers(&mut answers));
        Ok(answers)
    }
}

// req: KUBELET-14
macro_rules! dra_plugin {
    ($version:ident) => {
        #[tonic::async_trait]
        impl<D: Driver, S: ClaimSource> crate::proto::$version::dra_plugin_server::DraPlugin
            for DraService<D, S>
        {
            async fn node_prepare_resources(
                &self,
                request: Request<crate::proto::$version::NodePrepareResourcesRequest>,
            ) -> Result<Response<crate::proto::$version::NodePrepareResourcesResponse>, Status>
            {
                let (metadata, _, request) = request.into_parts();
                let claims = self
                    .answer(Method::Prepare, &metadata, request.claims)
                    .await?;
                Ok(Response::new(
                    crate::proto::$version::NodePrepareResourcesResponse { claims },
                ))
            }

            async fn node_unprepare_resources(
                &self,
                request: Request<crate::proto::$version::NodeUnprepareResourcesRequest>,
            ) -> Result<Response<crate::proto::$version::NodeUnprepareResourcesResponse>, Status>
            {
                let (metadata, _, request) = request.into_parts();
                let claims = self
                    .answer(Method::Unprepare, &metadata, request.claims)
                    .await?;
                Ok(Response::new(
                    crate::proto::$version::NodeUnprepareResourcesResponse { claims },
                ))
            }
        }
    };
}

dra_plugin!(v1);
dra_plugin!(v1beta1);

/// Checks that the names are valid: they become parts of URLs, and the UID becomes part of
/// file names. Unprepare uses only the UID.
// req: KUBELET-34
fn check_names(method: Method, claim: &ClaimRef) -> Result<(), ClaimError> {
    let named = is_label(&claim.namespace) && is_subdomain(&claim.name, MAX_OBJECT_NAME);
    let invalid = if !is_uid(&claim.uid) {
        "UID"
    } else if method == Method::Prepare && !named {
        "namespace or name"
    } else {
        return Ok(());
    };
    tracing::warn!(invalid, "refused a claim with an invalid identifier");
    Err(
        ClaimError::permanent(format_args!("the ResourceClaim's {invalid} is invalid"))
            .with_code("claim-name-invalid"),
    )
}

/// The time by which the call must be answered: [`MARGIN`] before the caller's deadline, or a
/// quarter of the timeout if that is shorter.
// req: KUBELET-25
fn answer_by(now: Instant, metadata: &MetadataMap) -> Instant {
    let header = metadata
        .get("grpc-timeout")
        .and_then(|value| value.to_str().ok());
    let timeout = header
        .and_then(parse_timeout)
        .unwrap_or(DEFAULT_TIMEOUT)
        .min(MAX_TIMEOUT);
    now + timeout.saturating_sub(MARGIN.min(timeout / 4))
}

/// Parses the gRPC header `grpc-timeout`: at most 8 digits and a unit.
fn parse_timeout(header: &str) -> Option<Duration> {
    let (digits, unit) = header.split_at_checked(header.len().checked_sub(1)?)?;
    if digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_header_is_parsed_in_all_units() {
        assert_eq!(
            parse_timeout("44999971u"),
            Some(Duration::from_micros(44_999_971))
        );
        assert_eq!(parse_timeout("45S"), Some(Duration::from_secs(45)));
        assert_eq!(parse_timeout("2M"), Some(Duration::from_secs(120)));
        for bad in ["", "S", "45", "123456789S", "+4S", "4x", "4ä"] {
            assert_eq!(parse_timeout(bad), None, "{bad}");
        }
    }

    // req: KUBELET-34
    #[test]
    fn invalid_names_are_refused_and_unprepare_checks_only_the_uid() {
        let claim = |namespace: &str, name: &str, uid: &str| ClaimRef {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
        };
        let good = claim("ns", "a.b-c", "c0ffee00-1234-4567-89ab-0123456789ab");
        assert_eq!(check_names(Method::Prepare, &good), Ok(()));
        let long = "a".repeat(254);
        for (namespace, name) in [
            ("", "a"),
            ("n/s", "a"),
            ("ns", ""),
            ("ns", "a/b"),
            ("ns", "a?b"),
            ("ns", "%2e%2e"),
            ("ns", ".."),
            ("ns", &long),
        ] {
            let odd = claim(namespace, name, "u");
            let refused = check_names(Method::Prepare, &odd);
            assert_eq!(refused.unwrap_err().code(), "claim-name-invalid", "{odd}");
            assert_eq!(check_names(Method::Unprepare, &odd), Ok(()));
        }
        for uid in ["", "..", "a/b", "../../etc/passwd", "a\0", "-", &long] {
            let odd = claim("ns", "a", uid);
            for method in [Method::Prepare, Method::Unprepare] {
                assert!(check_names(method, &odd).is_err(), "{odd}");
            }
        }
    }

    // req: KUBELET-25
    #[test]
    fn the_answer_is_due_two_seconds_before_the_deadline() {
        let now = Instant::now();
        let mut metadata = MetadataMap::new();
        assert_eq!(answer_by(now, &metadata), now + Duration::from_secs(43));
        metadata.insert("grpc-timeout", "2S".parse().unwrap());
        assert_eq!(answer_by(now, &metadata), now + Duration::from_millis(1500));
    }
}
