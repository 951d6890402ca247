//! Modelway on a real Kubernetes: installed by its chart, driven by the same flows as the platform on one machine.

mod drain;
mod faults;
mod flows;
mod installed;
mod leader;
mod mounts;
mod quickstart;
mod reasons;
mod scene;
mod tenants;
