//! Finds the NVIDIA driver of a host, reads each GPU's NVLink fabric state and names the clique.
