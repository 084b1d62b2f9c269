//! Checks which requests the API server and policies allow to an account; prints the results as table rows.

#![expect(clippy::print_stdout, reason = "tables for readers of the run")]

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use crate::Cluster;
use crate::node_pod::NAMESPACE;

/// The driver's name in slices and claims.
pub const DRIVER: &str = "compute-domain.nvidia.com";

/// An account: a name for the table, and kubectl's options.
#[derive(Debug)]
pub struct Account {
    /// For the table.
    pub name: &'static str,
    /// Of kubectl.
    pub options: Vec<String>,
}

impl Account {
    /// The cluster's administrator, with all permissions.
    pub fn admin() -> Self {
        let (name, options) = ("an administrator", Vec::new());
        Self { name, options }
    }

    /// The plugin's account, with the token of a pod on this node.
    pub fn plugin(name: &'static str, node: &str) -> Self {
        let node = format!("--as-user-extra=authentication.kubernetes.io/node-name={node}");
        let options = vec![Self::account("kubeletplugin"), node];
        Self { name, options }
    }

    /// The option for the account of a component of the release.
    pub fn account(component: &str) -> String {
        format!("--as=system:serviceaccount:{NAMESPACE}:imex-dra-service-account-{component}")
    }

    /// An account of another namespace, with all permissions that RBAC can give.
    pub fn other_account(name: &'static str, namespace: &str) -> Self {
        let options = vec![
            format!("--as=system:serviceaccount:{namespace}:other"),
            "--as-group=system:serviceaccounts".to_owned(),
            format!("--as-group=system:serviceaccounts:{namespace}"),
            "--as-group=system:masters".to_owned(),
        ];
        Self { name, options }
    }

    /// The kubelet of this node.
    pub fn kubelet(name: &'static str, node: &str) -> Self {
        let options = vec![
            format!("--as=system:node:{node}"),
            "--as-group=system:nodes".to_owned(),
        ];
        Self { name, options }
    }

    /// Adds all permissions that RBAC can give.
    #[must_use]
    pub fn with_all_rights(mut self) -> Self {
        self.options.push("--as-group=system:masters".to_owned());
        self
    }

    /// The plugin's account with a token bound to this node, valid for an hour: no impersonation.
    ///
    /// # Errors
    /// If there is no such account, or the token belongs to another one.
    pub fn with_token(cluster: &Cluster, name: &'static str, node: &str) -> Result<Self> {
        let token = format!("--token={}", plugin_token(cluster, node)?);
        let who = ["auth", "whoami", "--output=json", &token];
        let who: Value = serde_json::from_str(&cluster.kubectl(&who)?)?;
        let user = who.pointer("/status/userInfo/username");
        let extra = who.pointer("/status/userInfo/extra");
        let bound = extra.and_then(|it| it.get("authentication.kubernetes.io/node-name"));
        let account = Self::account("kubeletplugin");
        ensure!(
            user == Some(&json!(account.trim_start_matches("--as=")))
                && bound == Some(&json!([node])),
            "{who}"
        );
        let options = vec![token];
        Ok(Self { name, options })
    }

    /// The API server's refusal in a dry run; `None` if it allows the request.
    pub fn refused(&self, cluster: &Cluster, verb: &str, object: &Value) -> Option<String> {
        self.tries(cluster, verb, object, &["--dry-run=server"])
    }

    /// As [`Account::refused`], without dry run: an allowed request takes effect.
    pub fn refused_without_dry_run(
        &self,
        cluster: &Cluster,
        verb: &str,
        object: &Value,
    ) -> Option<String> {
        self.tries(cluster, verb, object, &[])
    }

    fn tries(
        &self,
        cluster: &Cluster,
        verb: &str,
        object: &Value,
        options: &[&str],
    ) -> Option<String> {
        let mut command = vec!["kubectl", verb, "-f", "-"];
        command.extend(options);
        if verb == "delete" {
            command.push("--wait=false");
        }
        command.extend(self.options.iter().map(String::as_str));
        let refused = cluster.script(&command, &object.to_string()).err();
        refused.map(|error| format!("{error:#}"))
    }
}

/// Whether RBAC and the Node authorizer allow a request in a namespace: a verb and a resource,
/// `RESOURCE/SUBRESOURCE`, or a resource and an object's name.
///
/// # Errors
/// If the API server does not answer, or has no such resource.
pub fn can_i(
    cluster: &Cluster,
    who: &[&str],
    namespace: &str,
    verb: &str,
    what: &str,
) -> Result<bool> {
    // For kubectl, the part after a slash is an object's name.
    let (object, subresource) = if let Some((resource, name)) = what.split_once(' ') {
        (format!("{resource}/{name}"), "")
    } else {
        let (resource, subresource) = what.split_once('/').unwrap_or((what, ""));
        (resource.to_owned(), subresource)
    };
    let subresource = format!("--subresource={subresource}");
    let ask = [
        "auth",
        "can-i",
        verb,
        &object,
        &subresource,
        "-n",
        namespace,
    ];
    let (answer, text) = match cluster.kubectl(&[&ask[..], who].concat()) {
        Ok(text) => (true, text),
        Err(error) => (false, format!("{error:#}")),
    };
    let word = if answer { "yes" } else { "no" };
    // kubectl also sends the request for resources that it does not know.
    let is_known = !text.contains("doesn't have a resource type");
    let has_answer = text.lines().any(|line| {
        let line = line.rsplit(": ").next().unwrap_or(line);
        line == word || line.starts_with(&format!("{word} - "))
    });
    ensure!(is_known && has_answer, "{who:?} {verb} {what}: {text}");
    Ok(answer)
}

/// Checks permissions in a namespace with [`can_i`]; prints them as a table.
///
/// # Errors
/// If an answer is not the expected one.
pub fn rights(
    cluster: &Cluster,
    title: &str,
    namespace: &str,
    rows: &[(&str, &str, bool)],
) -> Result<()> {
    println!("| who | {title} | |\n|---|---|---|");
    for (who, what, is_allowed) in rows {
        let Some((verb, object)) = what.split_once(' ') else {
            bail!("not a verb and a resource: {what}");
        };
        let answer = can_i(cluster, &[who], namespace, verb, object)?;
        let word = if answer { "allowed" } else { "refused" };
        println!("| {} | {what} | {word} |", who.trim_start_matches("--as="));
        ensure!(answer == *is_allowed, "{who} {what}: {word}");
    }
    Ok(())
}

/// Prints a row, and compares the answer with the expected one: words of the refusal, or none.
///
/// # Errors
/// If they differ.
pub fn row(who: &str, what: &str, refused: Option<&str>, wanted: Option<&str>) -> Result<()> {
    let answer = if refused.is_some() {
        "refused"
    } else {
        "allowed"
    };
    println!("| {who} | {what} | {answer} |");
    match (refused, wanted) {
        (None, None) => Ok(()),
        (Some(text), Some(words)) => {
            ensure!(text.contains(words), "{who}, {what}: not {words:?}: {text}");
            Ok(())
        }
        (None, Some(words)) => bail!("{who}, {what}: allowed, and not {words:?}"),
        (Some(text), None) => bail!("{who}, {what}: {text}"),
    }
}

/// A new slice of node 2.
pub fn new_slice(name: &str, driver: &str) -> Value {
    new_slice_of("node2", name, driver)
}

/// A new slice of this node.
pub fn new_slice_of(node: &str, name: &str, driver: &str) -> Value {
    let pool = json!({"name": node, "generation": 1, "resourceSliceCount": 1});
    json!({
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name},
        "spec": {"driver": driver, "nodeName": node, "pool": pool, "devices": []},
    })
}

/// A token of the plugin's account bound to this node, as an administrator makes it for a host service.
///
/// # Errors
/// If there is no such account or node.
pub fn plugin_token(cluster: &Cluster, node: &str) -> Result<String> {
    let account = "imex-dra-service-account-kubeletplugin";
    let name = format!("--bound-object-name={node}");
    let token = ["create", "token", account, "-n", NAMESPACE, &name];
    let token = cluster.kubectl(&[&token[..], &["--bound-object-kind=Node"]].concat())?;
    Ok(token.trim().to_owned())
}
