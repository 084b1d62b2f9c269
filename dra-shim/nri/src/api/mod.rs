//! NRI's own data types: pods, containers, and what a plugin asks for.
//!
//! Generated from the protocol definition of NRI 0.12.5. A runtime with an older version
//! sends less, and ignores what it does not know: [`Runtime`](crate::Runtime) says which
//! it is. Newer versions add fields, so write `..Default::default()` after the fields that
//! you set.

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
