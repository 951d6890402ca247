//! Who may do what in a cluster: one table, from which the chart's roles are generated and which tests judge requests by.

/// Whom a rule is for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Role {
    /// The controller, in every namespace that it works in.
    Controller,
    /// The controller that works in all namespaces: what belongs to no namespace.
    AllNamespaces,
    /// The controller that works in named namespaces only: what it needs in each of them instead.
    NamedNamespaces,
    /// The controller in its own namespace: which replica leads.
    LeaderElection,
    /// The router pods of one Inference, in their namespace; each Inference gets a binding to it.
    Router,
    /// The job that lets held training jobs go before the release is uninstalled.
    Release,
    /// The same job in the controller's namespace: it stops the controller first.
    Stop,
    /// People who may look; joins the cluster's own role `view`.
    View,
    /// People who may publish and serve; joins the cluster's own role `edit`.
    Edit,
}

impl Role {
    /// Every role.
    pub const ALL: [Self; 9] = [
        Self::Controller,
        Self::AllNamespaces,
        Self::NamedNamespaces,
        Self::LeaderElection,
        Self::Router,
        Self::Release,
        Self::Stop,
        Self::View,
        Self::Edit,
    ];

    /// Name in the chart.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::AllNamespaces => "all-namespaces",
            Self::NamedNamespaces => "named-namespaces",
            Self::LeaderElection => "leader-election",
            Self::Router => "router",
            Self::Release => "release",
            Self::Stop => "stop",
            Self::View => "view",
            Self::Edit => "edit",
        }
    }
}

/// Which objects of a resource a rule covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Names {
    Any,
    /// The `ClusterRole` made from [`Role::Router`].
    RouterRole,
    /// The controller's Deployment, and the Lease of the same name by which its replicas choose the leader.
    Controller,
}

/// When a rule is used, so that a test can tell a needless rule from one that waits for its occasion.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Use {
    /// In ordinary work: every verb shows among the requests of a run through all features.
    Requested,
    /// Checked by the API server while it handles another request.
    Checked,
    /// By people.
    People,
}

/// Verbs on resources of one API group.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub role: Role,
    /// Empty for the core group.
    pub group: &'static str,
    pub resources: &'static [&'static str],
    pub verbs: &'static [&'static str],
    pub names: Names,
    pub used: Use,
    /// What would not work without it.
    pub why: &'static str,
}

impl Rule {
    const fn new(
        role: Role,
        group: &'static str,
        resources: &'static [&'static str],
        verbs: &'static [&'static str],
        why: &'static str,
    ) -> Self {
        Self { role, group, resources, verbs, names: Names::Any, used: Use::Requested, why }
    }

    const fn on(self, names: Names) -> Self {
        Self { names, ..self }
    }

    const fn used(self, used: Use) -> Self {
        Self { used, ..self }
    }

    /// Whether the rule allows the request.
    pub fn allows(&self, group: &str, resource: &str, verb: &str) -> bool {
        self.group == group && self.resources.contains(&resource) && self.verbs.contains(&verb)
    }
}

const CORE: &str = "";
const APPS: &str = "apps";
const BATCH: &str = "batch";
const COORDINATION: &str = "coordination.k8s.io";
const DEFINITIONS: &str = "apiextensions.k8s.io";
const DISCOVERY: &str = "discovery.k8s.io";
const MODEL: &str = "model.kubedl.io";
const MODELWAY: &str = "modelway.io";
const MORPHLING: &str = "morphling.kubedl.io";
const POLICY: &str = "policy";
const RBAC: &str = "rbac.authorization.k8s.io";
const SERVING: &str = "serving.kubedl.io";

const WATCH: &[&str] = &["list", "watch"];
/// Server-side apply that may create.
const APPLY: &[&str] = &["create", "patch"];

/// Every rule.
pub const RULES: &[Rule] = &[
    // Controller: what it reads.
    Rule::new(Role::Controller, MODEL, &["models", "modelversions"], WATCH, "publishes versions"),
    Rule::new(Role::Controller, SERVING, &["inferences"], WATCH, "serves them"),
    Rule::new(Role::Controller, MODELWAY, &["routetables"], WATCH, "keeps the routes that routers follow"),
    Rule::new(Role::Controller, MORPHLING, &["profilingexperiments", "trials"], WATCH, "tunes container specs"),
    Rule::new(Role::Controller, BATCH, &["jobs"], WATCH, "finds finished training jobs and its own builds"),
    Rule::new(Role::Controller, CORE, &["pods"], WATCH, "reads results of builds and why pods do not start"),
    Rule::new(
        Role::Controller,
        CORE,
        &["persistentvolumeclaims"],
        WATCH,
        "knows whether a job takes its output volume along",
    ),
    Rule::new(Role::Controller, CORE, &["services", "serviceaccounts"], WATCH, "sees changes to its children"),
    Rule::new(Role::Controller, APPS, &["deployments"], WATCH, "sees changes to its children"),
    Rule::new(Role::Controller, POLICY, &["poddisruptionbudgets"], WATCH, "sees changes to its children"),
    Rule::new(Role::Controller, RBAC, &["rolebindings"], WATCH, "sees changes to its children"),
    // Controller: what it writes.
    Rule::new(Role::Controller, MODEL, &["models", "modelversions"], &["create"], "publishes a finished job's output"),
    Rule::new(Role::Controller, MODEL, &["modelversions"], &["patch"], "lets the Model own its versions"),
    Rule::new(
        Role::Controller,
        MODEL,
        &["models/status", "modelversions/status"],
        &["patch"],
        "tells how publishing goes",
    ),
    Rule::new(Role::Controller, SERVING, &["inferences/status"], &["patch"], "tells how serving goes"),
    Rule::new(Role::Controller, SERVING, &["inferences"], &["patch"], "notes what an experiment recommends"),
    Rule::new(Role::Controller, MORPHLING, &["trials"], &["create", "patch"], "makes trials, notes their results"),
    Rule::new(
        Role::Controller,
        MORPHLING,
        &["profilingexperiments/status", "trials/status"],
        &["patch"],
        "tells how tuning goes",
    ),
    Rule::new(Role::Controller, CORE, &["configmaps"], &["create"], "stores reports of experiments; reads none"),
    Rule::new(Role::Controller, MODELWAY, &["routetables"], &["create", "update"], "tells routers the routes"),
    Rule::new(Role::Controller, BATCH, &["jobs"], &["create", "delete"], "starts builds, ends outdated ones"),
    Rule::new(Role::Controller, BATCH, &["jobs"], &["patch"], "marks and holds the training job that it publishes"),
    Rule::new(Role::Controller, APPS, &["deployments"], APPLY, "runs predictors and routers"),
    Rule::new(Role::Controller, APPS, &["deployments"], &["delete"], "removes predictors that left the spec"),
    Rule::new(Role::Controller, CORE, &["services"], APPLY, "gives them addresses"),
    Rule::new(Role::Controller, CORE, &["services"], &["delete"], "removes predictors that left the spec"),
    Rule::new(Role::Controller, CORE, &["serviceaccounts"], APPLY, "gives each router an identity of its own"),
    Rule::new(Role::Controller, RBAC, &["rolebindings"], APPLY, "lets each router read its namespace's routes"),
    Rule::new(Role::Controller, RBAC, &["clusterroles"], &["bind"], "may hand out the router's role, no other")
        .on(Names::RouterRole)
        .used(Use::Checked),
    Rule::new(
        Role::Controller,
        POLICY,
        &["poddisruptionbudgets"],
        &["create", "patch", "delete"],
        "keeps pods through node drains",
    ),
    Rule::new(Role::Controller, CORE, &["secrets"], &["create"], "makes the key of the traffic split; reads none"),
    Rule::new(Role::Controller, CORE, &["events"], &["create", "get", "patch"], "tells people, counts repetitions"),
    Rule::new(Role::Controller, CORE, &["events"], WATCH, "reads why the pods of a build are refused"),
    // Only where the admission plugin OwnerReferencesPermissionEnforcement is on.
    Rule::new(Role::Controller, MODEL, &["modelversions/finalizers"], &["update"], "owns builds by their version")
        .used(Use::Checked),
    Rule::new(Role::Controller, SERVING, &["inferences/finalizers"], &["update"], "owns children by their Inference")
        .used(Use::Checked),
    Rule::new(
        Role::Controller,
        MORPHLING,
        &["profilingexperiments/finalizers", "trials/finalizers"],
        &["update"],
        "owns trials by their experiment, and what they test by the trial",
    )
    .used(Use::Checked),
    // Controller: beyond one namespace.
    Rule::new(Role::AllNamespaces, CORE, &["namespaces"], WATCH, "lets jobs go when their namespace is deleted"),
    Rule::new(
        Role::AllNamespaces,
        CORE,
        &["nodes"],
        &["list"],
        "knows whether nodes can mount images, and how large they are",
    ),
    Rule::new(
        Role::AllNamespaces,
        DEFINITIONS,
        &["customresourcedefinitions"],
        WATCH,
        "notices kinds that come, go or are outdated",
    ),
    Rule::new(Role::NamedNamespaces, CORE, &["namespaces"], &["get"], "lets jobs go when their namespace is deleted"),
    // Leader election.
    Rule::new(Role::LeaderElection, COORDINATION, &["leases"], &["create"], "enters the election"),
    Rule::new(Role::LeaderElection, COORDINATION, &["leases"], &["get", "update"], "leads, and lets go")
        .on(Names::Controller),
    // Routers.
    Rule::new(Role::Router, MODELWAY, &["routetables"], WATCH, "follows its routes"),
    Rule::new(Role::Router, DISCOVERY, &["endpointslices"], WATCH, "finds the pods behind them"),
    // Uninstalling.
    Rule::new(Role::Release, BATCH, &["jobs"], &["list", "patch"], "takes our finalizer off training jobs"),
    Rule::new(Role::Stop, APPS, &["deployments"], &["get"], "knows the controller's pods").on(Names::Controller),
    Rule::new(Role::Stop, APPS, &["deployments/scale"], &["patch"], "stops the controller").on(Names::Controller),
    Rule::new(Role::Stop, CORE, &["pods"], &["list"], "waits until the controller is gone"),
    Rule::new(Role::Stop, COORDINATION, &["leases"], &["delete"], "leaves nothing behind").on(Names::Controller),
    // People.
    Rule::new(Role::View, MODEL, &["models", "modelversions"], &["get", "list", "watch"], "look").used(Use::People),
    Rule::new(Role::View, SERVING, &["inferences"], &["get", "list", "watch"], "look").used(Use::People),
    Rule::new(Role::View, MODELWAY, &["routetables"], &["get", "list", "watch"], "look").used(Use::People),
    Rule::new(Role::View, MORPHLING, &["profilingexperiments", "trials"], &["get", "list", "watch"], "look")
        .used(Use::People),
    Rule::new(
        Role::Edit,
        MODEL,
        &["models", "modelversions"],
        &["create", "update", "patch", "delete", "deletecollection"],
        "publish",
    )
    .used(Use::People),
    Rule::new(
        Role::Edit,
        SERVING,
        &["inferences"],
        &["create", "update", "patch", "delete", "deletecollection"],
        "serve",
    )
    .used(Use::People),
    Rule::new(
        Role::Edit,
        MORPHLING,
        &["profilingexperiments", "trials"],
        &["create", "update", "patch", "delete", "deletecollection"],
        "tune",
    )
    .used(Use::People),
];

/// The rules of one role.
pub fn rules(role: Role) -> impl Iterator<Item = &'static Rule> {
    RULES.iter().filter(move |rule| rule.role == role)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_verb_is_given_twice() {
        let mut seen = BTreeSet::new();
        for rule in RULES {
            for (resource, verb) in rule.resources.iter().flat_map(|r| rule.verbs.iter().map(move |v| (r, v))) {
                assert!(seen.insert((rule.role, rule.group, resource, verb)), "{:?} {resource} {verb}", rule.role);
            }
        }
    }

    #[test]
    fn nobody_gets_everything_or_reads_secrets() {
        for rule in RULES {
            assert!(!rule.verbs.contains(&"*") && !rule.resources.contains(&"*") && rule.group != "*");
            assert!(!rule.resources.contains(&"secrets") || rule.verbs == ["create"]);
            assert!(!rule.verbs.contains(&"escalate") && !rule.verbs.contains(&"impersonate"));
            assert!(!rule.verbs.contains(&"bind") || rule.names == Names::RouterRole);
        }
    }

    #[test]
    fn every_role_has_rules() {
        assert!(Role::ALL.into_iter().all(|role| rules(role).next().is_some()));
    }

    #[test]
    fn a_rule_allows_what_it_says_and_nothing_else() {
        let allowed = |group, resource, verb| rules(Role::Router).any(|rule| rule.allows(group, resource, verb));
        assert!(allowed(DISCOVERY, "endpointslices", "watch"));
        assert!(!allowed(DISCOVERY, "endpointslices", "delete"));
        assert!(!allowed(CORE, "secrets", "list"));
    }
}
