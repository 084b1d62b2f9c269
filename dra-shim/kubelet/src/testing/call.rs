//! Prepare and Unprepare as kubelet makes and judges them.

use std::collections::BTreeMap;

use super::event::{Event, Service};
use super::objections::objections;
use super::session::Session;
use super::wire::Wire;
use crate::claim::ClaimRef;
use crate::driver::Device;
use crate::observer::Method;

/// By claim UID, exactly those of the call: the devices (none after an Unprepare),
/// or the plugin's words.
pub type Answers = BTreeMap<String, Result<Vec<Device>, String>>;

/// Why a call as a whole failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// No kubelet process runs.
    #[error("kubelet is stopped")]
    Stopped,
    /// kubelet knows no plugin of this name.
    #[error("DRA driver {driver} is not registered")]
    NotRegistered {
        /// The name.
        driver: String,
    },
    /// There is no connection: kubelet does not wait for one.
    #[error("rpc error: Unavailable: {reason}")]
    Unavailable {
        /// Why not.
        reason: String,
    },
    /// No answer within [`Times::call`](super::Times::call); the call was cancelled.
    #[error("rpc error: DeadlineExceeded")]
    Deadline,
    /// The plugin failed the call instead of its claims.
    #[error("rpc error: {code}: {message}")]
    Status {
        /// gRPC's name of the code.
        code: String,
        /// The plugin's words.
        message: String,
    },
    /// The answer has a claim that was not asked for.
    #[error("the answer has the unknown ResourceClaim UID {uid}")]
    UnknownClaim {
        /// It.
        uid: String,
    },
    /// The answer lacks claims.
    #[error("the answer skipped {count} ResourceClaims")]
    Skipped {
        /// How many.
        count: usize,
    },
}

/// One call with all of these claims, to the plugin that gets the driver's calls.
pub(super) async fn call(
    session: &Session,
    driver: &str,
    method: Method,
    claims: &[ClaimRef],
) -> Result<Answers, CallError> {
    let time = session.world.options.times.call;
    let calling = async {
        let (endpoint, service, link) = session.plugin(driver)?;
        let wire = link.wire().await;
        drop(link);
        let wire = wire.map_err(|reason| CallError::Unavailable { reason })?;
        session.world.log.push(Event::Called {
            driver: driver.to_owned(),
            endpoint,
            method,
            claims: claims.iter().map(|claim| claim.uid.clone()).collect(),
        });
        let sent = match service {
            Service::V1 => v1::send(wire, method, claims, time).await,
            Service::V1beta1 => v1beta1::send(wire, method, claims, time).await,
        };
        sent.map_err(|status| CallError::Status {
            code: format!("{:?}", status.code()),
            message: status.message().to_owned(),
        })
    };
    // Past the deadline the future is dropped, which resets the stream.
    let answers = tokio::time::timeout(time, calling).await;
    let answers = complete(claims, answers.map_err(|_| CallError::Deadline)??)?;
    for (uid, devices) in &answers {
        for reason in objections(devices.as_deref().unwrap_or_default()) {
            session.world.log.push(Event::Objection {
                driver: driver.to_owned(),
                claim: uid.clone(),
                reason,
            });
        }
    }
    Ok(answers)
}

/// Facts: an entry that was not asked for is an error, and so is a missing one,
/// also for a claim without devices and for Unprepare.
fn complete(claims: &[ClaimRef], answers: Answers) -> Result<Answers, CallError> {
    let asked = |uid: &&String| claims.iter().any(|claim| claim.uid == **uid);
    if let Some(uid) = answers.keys().find(|uid| !asked(uid)) {
        return Err(CallError::UnknownClaim { uid: uid.clone() });
    }
    match claims.len().saturating_sub(answers.len()) {
        0 => Ok(answers),
        count => Err(CallError::Skipped { count }),
    }
}

macro_rules! version {
    ($version:ident, $share_id:expr) => {
        mod $version {
            use std::time::Duration;

            use super::{Answers, ClaimRef, Device, Method, Wire};
            use crate::proto::$version as proto;
            use crate::proto::$version::dra_plugin_client::DraPluginClient;

            pub(super) async fn send(
                wire: Wire,
                method: Method,
                claims: &[ClaimRef],
                time: Duration,
            ) -> Result<Answers, tonic::Status> {
                let origin = wire.origin.clone();
                let mut client = DraPluginClient::with_origin(wire, origin);
                let claims = claims.iter().map(claim).collect();
                match method {
                    Method::Prepare => {
                        let message = proto::NodePrepareResourcesRequest { claims };
                        let mut request = tonic::Request::new(message);
                        request.set_timeout(time);
                        let answer = client.node_prepare_resources(request).await?;
                        let claims = answer.into_inner().claims.into_iter();
                        // Devices beside an error are not looked at.
                        Ok(claims
                            .map(|(uid, it)| (uid, result(it.error, it.devices)))
                            .collect())
                    }
                    Method::Unprepare => {
                        let message = proto::NodeUnprepareResourcesRequest { claims };
                        let mut request = tonic::Request::new(message);
                        request.set_timeout(time);
                        let answer = client.node_unprepare_resources(request).await?;
                        let claims = answer.into_inner().claims.into_iter();
                        Ok(claims
                            .map(|(uid, it)| (uid, result(it.error, Vec::new())))
                            .collect())
                    }
                }
            }

            fn claim(claim: &ClaimRef) -> proto::Claim {
                proto::Claim {
                    namespace: claim.namespace.clone(),
                    uid: claim.uid.clone(),
                    name: claim.name.clone(),
                }
            }

            fn result(error: String, devices: Vec<proto::Device>) -> Result<Vec<Device>, String> {
                if !error.is_empty() {
                    return Err(error);
                }
                let share_id: fn(&proto::Device) -> Option<String> = $share_id;
                let device = |it: proto::Device| Device {
                    share_id: share_id(&it),
                    requests: it.request_names,
                    pool: it.pool_name,
                    device: it.device_name,
                    cdi_ids: it.cdi_device_ids,
                };
                Ok(devices.into_iter().map(device).collect())
            }
        }
    };
}

version!(v1, |device| device.share_id.clone());
// Which cannot carry one.
version!(v1beta1, |_| None);

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_claim(uid: &str) -> ClaimRef {
        ClaimRef {
            namespace: "ns".into(),
            name: uid.into(),
            uid: uid.into(),
        }
    }

    #[test]
    fn an_answer_has_exactly_the_claims_of_the_call() {
        let claims = [mk_claim("a"), mk_claim("b")];
        let answers = |uids: &[&str]| -> Answers {
            let entry = |uid: &&str| ((*uid).to_owned(), Ok(Vec::new()));
            uids.iter().map(entry).collect()
        };
        assert!(complete(&claims, answers(&["a", "b"])).is_ok());
        let skipped = complete(&claims, answers(&["b"])).unwrap_err();
        assert_eq!(skipped, CallError::Skipped { count: 1 });
        let unknown = complete(&claims, answers(&["a", "b", "c"])).unwrap_err();
        assert_eq!(unknown, CallError::UnknownClaim { uid: "c".into() });
    }
}
