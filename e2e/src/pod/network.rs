//! The Pod's network: a loopback of its own, and nothing else. The API server answers on one port of it, through a
//! socket file that leads out; nothing else leads out.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, recv, send, socket};

use super::{API_PORT, Settings};

/// Serves the Pod's network until the Pod ends; runs in the new network namespace.
pub fn run(settings: &Settings) -> Result<ExitCode> {
    bring_loopback_up()?;
    let api = settings.api.clone();
    let inside = TcpListener::bind((Ipv4Addr::LOCALHOST, API_PORT)).context("no port for the API server")?;
    thread::spawn(move || {
        for stream in inside.incoming().flatten() {
            let api = api.clone();
            thread::spawn(move || UnixStream::connect(api).and_then(|out| pump(&stream, &out)));
        }
    });
    for (path, port) in settings.ports.clone() {
        let outside = UnixListener::bind(&path).with_context(|| format!("no socket {}", path.display()))?;
        thread::spawn(move || {
            for stream in outside.incoming().flatten() {
                thread::spawn(move || {
                    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).and_then(|inside| pump(&inside, &stream))
                });
            }
        });
    }
    let this: PathBuf = std::env::current_exe()?;
    let status = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "--kill-child", "--"])
        .arg(this)
        .arg("root")
        .arg(serde_json::to_string(settings)?)
        .status()
        .context("unshare cannot be started")?;
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

/// Passes bytes on in both directions until both sides have said all.
fn pump(tcp: &TcpStream, unix: &UnixStream) -> io::Result<()> {
    let (mut from_tcp, mut to_unix) = (tcp.try_clone()?, unix.try_clone()?);
    let back = thread::spawn(move || {
        let copied = io::copy(&mut from_tcp, &mut to_unix);
        let _ = to_unix.shutdown(Shutdown::Write);
        copied
    });
    let (mut from_unix, mut to_tcp) = (unix, tcp);
    let copied = io::copy(&mut from_unix, &mut to_tcp);
    let _ = tcp.shutdown(Shutdown::Write);
    let _ = back.join();
    copied.map(drop)
}

/// Sets the flag UP of interface 1, the loopback, with a message RTM_NEWLINK (rtnetlink(7)).
fn bring_loopback_up() -> Result<()> {
    const RTM_NEWLINK: u16 = 16;
    const REQUEST_AND_ACK: u16 = 0x1 | 0x4;
    const LOOPBACK: i32 = 1;
    const UP: u32 = 1;
    let mut message = Vec::with_capacity(32);
    // Header: length, type, flags, sequence number, sender.
    message.extend(32u32.to_ne_bytes());
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACK.to_ne_bytes());
    message.extend([0; 8]);
    // Body: family and type, which interface, flags, which of them change.
    message.extend([0; 4]);
    message.extend(LOOPBACK.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    message.extend(UP.to_ne_bytes());
    // The protocol 0 of this family is rtnetlink.
    let socket = socket(AddressFamily::NETLINK, SocketType::RAW, None)?;
    send(&socket, &message, SendFlags::empty())?;
    let mut answer = [0; 64];
    let (_, length) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    // After the header of the answer comes the error, 0 for none.
    ensure!(
        length >= 20 && answer[16..20] == [0; 4],
        "the loopback cannot be brought up: {:?}",
        &answer[..length]
    );
    Ok(())
}
