//! Behaviours seen on the real cluster of hack/cluster.sh, one file each.
