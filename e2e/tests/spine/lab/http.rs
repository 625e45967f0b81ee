//! The operator's own servers, asked as a probe asks them.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const LIMIT: Duration = Duration::from_secs(10);

/// Status code and body of a GET.
pub async fn get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let call = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        anyhow::Ok(answer)
    };
    let answer = tokio::time::timeout(LIMIT, call)
        .await
        .with_context(|| format!("no answer from {address}{path}"))??;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let code = head.split(' ').nth(1).context("no status line")?.parse()?;
    Ok((code, body.to_owned()))
}
