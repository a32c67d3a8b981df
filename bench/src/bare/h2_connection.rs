//! One HTTP/2 connection over TLS with as many concurrent requests as its streams allow. It uses the `h2`
//! crate directly.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::bail;
use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use http::Request;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The number of concurrent requests. APNs and the sandbox allow the same number of streams.
const STREAMS: usize = 1_000;
/// The flow-control window for responses, in bytes, as in the server.
const WINDOW_BYTES: u32 = 1_048_576;

/// An open connection.
pub(crate) struct H2 {
    send: SendRequest<Bytes>,
}

impl H2 {
    /// Opens a connection to a server whose certificate is signed by `ca` (PEM).
    pub(crate) async fn open(address: SocketAddr, ca: &str) -> anyhow::Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let tcp = TcpStream::connect(address).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::from(address.ip());
        let io = tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(name, tcp).await?;
        let mut builder = h2::client::Builder::new();
        builder.enable_push(false).initial_connection_window_size(WINDOW_BYTES);
        let (send, connection) = builder.handshake::<_, Bytes>(io).await?;
        tokio::spawn(connection);
        Ok(Self { send })
    }

    /// Sends the requests and waits for all responses. Fails at the first response that is not a success.
    pub(crate) async fn send(
        &self,
        requests: impl Iterator<Item = anyhow::Result<(Request<()>, Bytes)>>,
    ) -> anyhow::Result<()> {
        let permits = Arc::new(Semaphore::new(STREAMS));
        let mut tasks = JoinSet::new();
        let mut send = self.send.clone();
        for request in requests {
            let permit = Arc::clone(&permits).acquire_owned().await?;
            while let Some(done) = tasks.try_join_next() {
                done??;
            }
            send = send.ready().await?;
            let (request, body) = request?;
            let (response, mut stream) = send.send_request(request, false)?;
            stream.send_data(body, true)?;
            tasks.spawn(async move {
                let (head, mut body) = response.await?.into_parts();
                let mut text = BytesMut::new();
                while let Some(chunk) = body.data().await {
                    let chunk = chunk?;
                    body.flow_control().release_capacity(chunk.len())?;
                    text.extend_from_slice(&chunk);
                }
                drop(permit);
                if !head.status.is_success() {
                    bail!("{} {}", head.status, String::from_utf8_lossy(&text));
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }
}
