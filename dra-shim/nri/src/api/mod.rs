//! NRI's data types: pods, containers, and a plugin's requests.
//!
//! Generated from the protocol definition of NRI 0.12.5. A runtime with an older version sends
//! fewer fields and ignores unknown ones; [`Runtime`](crate::Runtime) has its version. Newer
//! versions add fields, so end a struct expression with `..Default::default()`.

mod adjustment;
#[cfg(test)]
mod tests;

#[allow(
    clippy::all,
    clippy::pedantic,
    missing_docs,
    unreachable_pub,
    unused,
    rustdoc::all,
    reason = "generated; which lints fire depends on the generator's version"
)]
pub(crate) mod generated {
    include!(concat!(env!("OUT_DIR"), "/nri.pkg.api.v1alpha1.rs"));
}

pub use generated::{
    CdiDevice, CompoundFieldOwners, Container, ContainerAdjustment, ContainerEviction,
    ContainerState, ContainerUpdate, Field, FieldOwners, Hook, Hooks, HugepageLimit, Image,
    IoPrioClass, KeyValue, LinuxContainer, LinuxContainerAdjustment, LinuxContainerUpdate,
    LinuxCpu, LinuxDevice, LinuxDeviceCgroup, LinuxIoPriority, LinuxMemory, LinuxMemoryPolicy,
    LinuxNamespace, LinuxNetDevice, LinuxPids, LinuxPodSandbox, LinuxRdt, LinuxResources,
    LinuxScheduler, LinuxSchedulerFlag, LinuxSchedulerPolicy, LinuxSeccomp, LinuxSeccompArg,
    LinuxSyscall, Mount, MpolFlag, MpolMode, OptionalBool, OptionalFileMode, OptionalInt,
    OptionalInt32, OptionalInt64, OptionalRepeatedString, OptionalString, OptionalUInt32,
    OptionalUInt64, OwningPlugins, PluginInstance, PodSandbox, PosixRlimit, SecurityProfile, User,
    ValidateContainerAdjustmentRequest, security_profile,
};
