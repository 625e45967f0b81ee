//! The operator as its Pod runs it: a user without rights, a read-only root with the declared `emptyDirs`, PID 1 of its own
//! processes, a network with nothing in it but the API server, and a ServiceAccount's token as a file.
//!
//! It is the release binary, built as the image's is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::{AuditEvent, Mark, Process};
use e2e::manager::{MANAGER, release_binary};
use e2e::pod::account::Account;
use e2e::pod::{API_PORT, Settings};
use e2e::tools::{Tool, repository_root};
use e2e::wait::eventually;
use gpu_manager::api::State;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use kube::Api;
use kube::api::PostParams;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};

use crate::killed::until_pending;
use crate::lab::{Lab, STEP};

/// Where the API server notes which token a request came with.
const TOKEN_NUMBER: &str = "authentication.kubernetes.io/credential-id";

/// A running container, or what is left of it.
struct Container {
    process: Process,
    settings: Settings,
    account: Account,
    folder: PathBuf,
}

impl Container {
    async fn start(lab: &Lab, program: &Path) -> Result<Self> {
        let folder = lab.cluster.dir().join("pod");
        std::fs::create_dir_all(folder.join("root"))?;
        let mut account = Account::new(folder.join("account"))?;
        project(lab, &mut account).await?;

        let deployment = repository_root().join("hack/deploy/base/deployment.yaml");
        let deployment = std::fs::read_to_string(deployment)?;
        let mut settings = Settings::of_deployment(&deployment, MANAGER, "gpu-manager-0")?
            .with(program, "/usr/local/bin/gpu-manager")
            .with(&lab.cluster.tools().path(Tool::Helm), "/usr/local/bin/helm")
            .with(lab.charts.dir(), "/charts");
        if let Some(catalogue) = lab.options().catalogue {
            settings = settings.with(&catalogue, "/catalogue");
            settings
                .environment
                .push(("GPU_MANAGER_CATALOGUE_DIR".to_owned(), "/catalogue".to_owned()));
        }
        settings.root = folder.join("root");
        account.folder().clone_into(&mut settings.account);
        settings.api = folder.join("api");
        settings.ports = vec![(folder.join("health"), 8081), (folder.join("metrics"), 8080)];
        lead_to(&settings.api, lab.cluster.api_address())?;

        let user = settings.user.to_string();
        let mut command = Command::new("unshare");
        command
            .args([
                "--user",
                "--map-user",
                &user,
                "--map-group",
                &user,
                "--keep-caps",
                "--net",
                "--",
            ])
            .arg(env!("CARGO_BIN_EXE_pod"))
            .arg("network")
            .arg(serde_json::to_string(&settings)?);
        let process = lab.cluster.spawn("gpu-manager-pod", command)?;
        let mut container = Self {
            process,
            settings,
            account,
            folder,
        };
        eventually(
            "the container's process, for which the kernel must allow user namespaces",
            STEP,
            async || {
                container.process.ensure_running()?;
                container.first().map(drop)
            },
        )
        .await?;
        Ok(container)
    }

    /// The operator, as this machine numbers it.
    fn first(&self) -> Result<Pid> {
        let mut at = vec![self.process.id()];
        while let Some(id) = at.pop() {
            let name = std::fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default();
            if name.trim() == "gpu-manager" {
                return Pid::from_raw(id.try_into()?).context("no process 0");
            }
            let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
            let children = children.unwrap_or_default();
            at.extend(
                children
                    .split_whitespace()
                    .filter_map(|id| id.parse::<u32>().ok()),
            );
        }
        anyhow::bail!("there is none:\n{}", self.process.log())
    }

    fn of_first(&self, file: &str) -> Result<String> {
        let id = self.first()?.as_raw_nonzero();
        Ok(std::fs::read_to_string(format!("/proc/{id}/{file}"))?)
    }

    /// The processes of the container, with their state: all that have its PID namespace.
    fn processes(&self) -> Result<Vec<String>> {
        let namespace = |id: &str| std::fs::read_link(format!("/proc/{id}/ns/pid"));
        let own = namespace(&self.first()?.as_raw_nonzero().to_string())?;
        let mut found = vec![];
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let id = entry.file_name().to_string_lossy().into_owned();
            if namespace(&id).is_ok_and(|namespace| namespace == own) {
                let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
                let field = |name: &str| {
                    let line = status.lines().find_map(|line| line.strip_prefix(name));
                    line.unwrap_or_default().trim().to_owned()
                };
                found.push(format!("{} {}", field("Name:"), field("State:")));
            }
        }
        Ok(found)
    }

    /// Waits until only the operator is left: helm has ended, and nothing of it stays, not even as a zombie.
    async fn until_alone(&self) -> Result<()> {
        eventually("the operator to be alone in its container", STEP, async || {
            let processes = self.processes()?;
            ensure!(
                matches!(processes.as_slice(), [one] if one.starts_with("gpu-manager ") && !one.contains("zombie")),
                "{processes:?}"
            );
            Ok(())
        })
        .await
    }

    /// The answer of a port of the container, as the kubelet would ask for it.
    async fn get(&self, port: &str, path: &str) -> Result<String> {
        let mut stream = UnixStream::connect(self.folder.join(port)).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    /// What the kernel says of the operator's rights and mounts.
    fn ensure_confined(&self) -> Result<()> {
        let status = self.of_first("status")?;
        for line in [
            "CapInh:\t0000000000000000",
            "CapPrm:\t0000000000000000",
            "CapEff:\t0000000000000000",
            "CapBnd:\t0000000000000000",
            "CapAmb:\t0000000000000000",
            "NoNewPrivs:\t1",
        ] {
            ensure!(status.lines().any(|found| found == line), "not {line}:\n{status}");
        }
        let map = self.of_first("uid_map")?;
        let user = self.settings.user.to_string();
        ensure!(
            map.split_whitespace().next() == Some(user.as_str()) && map.lines().count() == 1,
            "{map}"
        );

        let mut writable = BTreeSet::new();
        for mount in self.of_first("mountinfo")?.lines() {
            let fields: Vec<_> = mount.split(' ').collect();
            let (path, options) = (
                fields.get(4).context("no path")?,
                fields.get(5).context("no options")?,
            );
            // A device is no place to keep anything, and of /proc only what belongs to the process can be written.
            let kept = !path.starts_with("/dev/") && *path != "/proc";
            if kept && !options.split(',').any(|option| option == "ro") {
                writable.insert(PathBuf::from(path));
            }
        }
        let declared = self.settings.empty_dirs.iter().map(|(path, _)| path.clone());
        ensure!(writable == declared.collect(), "writable: {writable:?}");
        Ok(())
    }

    /// Fails where there is another interface than the loopback, or a connection to another place than the API server.
    fn ensure_talks_to_the_api_server_alone(&self) -> Result<()> {
        let interfaces = self.of_first("net/dev")?;
        let names: Vec<_> = interfaces
            .lines()
            .filter_map(|line| line.split_once(':'))
            .collect();
        ensure!(
            matches!(names.as_slice(), [(name, _)] if name.trim() == "lo"),
            "{interfaces}"
        );
        let port = |address: &str| {
            let port = address.rsplit(':').next().unwrap_or_default();
            u16::from_str_radix(port, 16).unwrap_or_default()
        };
        let mut connections = 0;
        for file in ["net/tcp", "net/tcp6"] {
            for line in self.of_first(file)?.lines().skip(1) {
                let fields: Vec<_> = line.split_whitespace().collect();
                let (here, there) = (
                    port(fields.get(1).context("no address")?),
                    port(fields.get(2).context("no address")?),
                );
                let known = [API_PORT, 8080, 8081];
                ensure!(known.contains(&here) || known.contains(&there), "{line}");
                connections += usize::from(there == API_PORT);
            }
        }
        ensure!(connections > 0, "no connection to the API server is seen");
        Ok(())
    }
}

/// Lets a socket file lead to an address, as long as the test runs.
fn lead_to(path: &Path, address: std::net::SocketAddr) -> Result<()> {
    let listener = UnixListener::bind(path)?;
    tokio::spawn(async move {
        while let Ok((mut inside, _)) = listener.accept().await {
            tokio::spawn(async move {
                if let Ok(mut outside) = TcpStream::connect(address).await {
                    // Either side may end it.
                    let _ = copy_bidirectional(&mut inside, &mut outside).await;
                }
            });
        }
    });
    Ok(())
}

/// Gives the container another token of its ServiceAccount, as the kubelet does long before the old one ends. Returns the
/// token's number in the audit log.
async fn project(lab: &Lab, account: &mut Account) -> Result<String> {
    let token = lab.cluster.service_account_token(MANAGER, MANAGER).await?;
    let authority = std::fs::read(lab.cluster.certificate_authority())?;
    account.write(&[
        ("token", token.as_bytes()),
        ("namespace", MANAGER.as_bytes()),
        ("ca.crt", &authority),
    ])?;
    let review = TokenReview {
        spec: TokenReviewSpec {
            token: Some(token),
            ..TokenReviewSpec::default()
        },
        ..TokenReview::default()
    };
    let reviews: Api<TokenReview> = Api::all(lab.cluster.client());
    let answer = reviews.create(&PostParams::default(), &review).await?;
    let user = answer.status.and_then(|status| status.user);
    let extra = user.and_then(|user| user.extra).unwrap_or_default();
    extra
        .get(TOKEN_NUMBER)
        .and_then(|numbers| numbers.first().cloned())
        .context("the API server does not number the token")
}

/// Waits until a program that calls itself so has made a request with that token.
async fn until_used(lab: &Lab, since: Mark, program: &str, token: &str) -> Result<()> {
    let by = |event: &AuditEvent| event.user_agent.starts_with(program);
    let used = |event: &AuditEvent| {
        let numbers = event.user.extra.get(TOKEN_NUMBER);
        numbers.is_some_and(|numbers| numbers.iter().any(|number| number == token))
    };
    eventually(&format!("{program} to use the new token"), STEP, async || {
        let events = lab.cluster.audit().since(since)?;
        let seen: BTreeSet<_> = events.iter().map(|event| &event.user_agent).collect();
        ensure!(
            events.iter().any(|event| by(event) && used(event)),
            "requests by {seen:?}"
        );
        Ok(())
    })
    .await
}

/// The release binary, which cargo may have to build first. No cluster should wait for that.
async fn program() -> Result<PathBuf> {
    tokio::task::spawn_blocking(release_binary).await?
}

#[tokio::test(flavor = "multi_thread")]
async fn in_a_container_it_installs_upgrades_removes_and_ends() -> Result<()> {
    let program = program().await?;
    let lab = Lab::start().await?;
    let mut container = Container::start(&lab, &program).await?;
    lab.apply(json!({ "chartVersion": "26.3.3" })).await?;
    let mark = lab.cluster.audit().mark()?;
    let token = project(&lab, &mut container.account).await?;
    lab.until(State::Ready).await?;
    container.ensure_confined()?;
    container.ensure_talks_to_the_api_server_alone()?;
    let ready = container.get("health", "/readyz").await?;
    ensure!(ready.starts_with("HTTP/1.1 200"), "{ready}");
    let metrics = container.get("metrics", "/metrics").await?;
    ensure!(metrics.contains("gpu_manager_"), "{metrics}");
    container.until_alone().await?;
    until_used(&lab, mark, "gpu-manager/", &token).await?;

    lab.apply(json!({ "upgrade": { "policy": "Immediate" } })).await?;
    lab.until(State::Ready).await?;
    ensure!(
        lab.nvidia_driver().await.is_ok(),
        "the upgrade made no NVIDIADriver"
    );
    until_used(&lab, mark, "Helm/", &token).await?;
    container.until_alone().await?;
    lab.delete().await?;
    container.until_alone().await?;
    container.ensure_confined()?;
    container.ensure_talks_to_the_api_server_alone()?;

    kill_process(container.first()?, Signal::TERM)?;
    let status = container.process.wait(STEP).await?;
    ensure!(status.success(), "{status}: {}", container.process.log());
    Ok(())
}

/// helm ends first: the operator tells it to stop and waits, and helm writes down that the install failed. Were the operator
/// the first, the kernel would end helm with the container, and the release would stay `pending-install`.
#[tokio::test(flavor = "multi_thread")]
async fn told_to_end_while_helm_runs_it_ends_after_helm() -> Result<()> {
    let program = program().await?;
    let lab = Lab::start().await?;
    let mut container = Container::start(&lab, &program).await?;
    lab.apply(json!({})).await?;
    until_pending(&lab, "pending-install").await?;
    let processes = container.processes()?;
    kill_process(container.first()?, Signal::TERM)?;
    ensure!(
        processes.iter().any(|process| process.starts_with("helm ")),
        "helm does not run: {processes:?}"
    );
    let status = container.process.wait(STEP).await?;
    let log = container.process.log();
    ensure!(status.success(), "{status}: {log}");
    let history = lab.history().await?;
    ensure!(
        !history.iter().any(|(_, status)| status.starts_with("pending")),
        "helm did not come to its end: {history:?}"
    );
    let at = |message: &str| {
        log.rfind(message)
            .with_context(|| format!("no {message} in {log}"))
    };
    let order = [at("telling helm to stop")?, at("helm ended")?, at("\"ended\"")?];
    ensure!(order.is_sorted(), "{order:?} in {log}");
    // Another process goes on with what is there.
    let _manager = lab.manager().await?;
    lab.until(State::Ready).await?;
    Ok(())
}
