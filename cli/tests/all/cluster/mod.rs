//! Modelway on a real Kubernetes: installed by its chart, driven by the same flows as the platform on one machine.

mod flows;
mod installed;
