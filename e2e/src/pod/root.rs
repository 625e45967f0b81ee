//! The Pod's root file system and the start of its process, which becomes PID 1.

use std::convert::Infallible;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind_recursive, mount_remount, unmount};
use rustix::process::{chdir, pivot_root};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs,
};

use super::{ACCOUNT, Settings};

/// Where libraries lie. An image has them from its base; here they are this machine's.
const LIBRARIES: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];

const DEVICES: [&str; 4] = ["null", "zero", "random", "urandom"];

/// Makes the root and becomes the container's process; runs as PID 1 of the new namespace.
pub fn run(settings: &Settings) -> Result<Infallible> {
    let root = &settings.root;
    mount(
        "tmpfs",
        root,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        c"mode=755",
    )
    .context("no file system for the root")?;
    for path in LIBRARIES.map(Path::new) {
        if let Ok(target) = fs::read_link(path) {
            let link = below(root, path);
            fs::create_dir_all(link.parent().context("no parent")?)?;
            symlink(target, link)?;
        } else if path.is_dir() {
            bind(path, &below(root, path))?;
        }
    }
    for (source, path) in &settings.image {
        bind(source, &below(root, path))?;
    }
    for device in DEVICES {
        let device = Path::new("/dev").join(device);
        bind_as_it_is(&device, &below(root, &device))?;
    }
    bind(&settings.account, &below(root, Path::new(ACCOUNT)))?;
    let proc = below(root, Path::new("/proc"));
    fs::create_dir_all(&proc)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", &proc, "proc", flags, None).context("/proc cannot be mounted")?;
    for (path, limit) in &settings.empty_dirs {
        let path = below(root, path);
        fs::create_dir_all(&path)?;
        let options = std::ffi::CString::new(format!("mode=1777,size={limit}"))?;
        mount(
            "emptyDir",
            &path,
            "tmpfs",
            MountFlags::NOSUID | MountFlags::NODEV,
            options.as_c_str(),
        )?;
    }
    enter(root)?;
    give_up_rights()?;
    let mut words = settings.command.iter();
    let error = Command::new(words.next().context("no command")?)
        .args(words)
        .env_clear()
        .envs(settings.environment.iter().map(|(name, value)| (name, value)))
        .exec();
    Err(error).context("the container's process cannot be started")
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Mounts a file or folder of this machine read-only.
fn bind(source: &Path, target: &Path) -> Result<()> {
    bind_as_it_is(source, target)?;
    // What this machine forbids on that mount must be forbidden here, or the kernel refuses.
    let now = statvfs(target)?.f_flag;
    let mut flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID;
    for (has, flag) in [
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
        (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
        (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
    ] {
        if now.contains(has) {
            flags |= flag;
        }
    }
    mount_remount(target, flags, c"").with_context(|| format!("{} stays writable", source.display()))
}

fn bind_as_it_is(source: &Path, target: &Path) -> Result<()> {
    let is_folder = source.is_dir();
    let folder = if is_folder {
        target
    } else {
        target.parent().context("no parent")?
    };
    fs::create_dir_all(folder)?;
    if !is_folder {
        fs::write(target, "")?;
    }
    mount_bind_recursive(source, target).with_context(|| format!("{} cannot be mounted", source.display()))
}

/// Makes that the root, read-only, and leaves the machine's behind.
fn enter(root: &Path) -> Result<()> {
    let old = root.join("old");
    fs::create_dir(&old)?;
    pivot_root(root, &old).context("the root cannot be changed")?;
    chdir("/")?;
    unmount("/old", UnmountFlags::DETACH)?;
    fs::remove_dir("/old")?;
    fs::set_permissions("/", fs::Permissions::from_mode(0o755))?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    mount_remount("/", flags, c"").context("the root stays writable")
}

/// No capability and no way to one: `drop: [ALL]` and `allowPrivilegeEscalation: false`.
fn give_up_rights() -> Result<()> {
    clear_ambient_capability_set()?;
    for capability in CapabilitySet::all().iter() {
        // The kernel may know fewer.
        let _ = remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySet::empty();
    let none = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    set_capabilities(None, none)?;
    set_no_new_privs(true)?;
    Ok(())
}
