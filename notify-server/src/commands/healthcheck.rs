//! `notify-server healthcheck`: requests the readiness of a server. It is meant for containers that
//! contain only this binary, and opens no file and no database.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use anyhow::{Context, ensure};
use reqwest::StatusCode;
use url::Url;

use crate::config::Config;

/// Longest wait for the response. Container engines stop a check after 30 s.
const ANSWER_WAIT_MAX: Duration = Duration::from_secs(5);

/// Succeeds if the server reports that it is ready.
pub(super) async fn check(config: &Config, url: Option<Url>) -> anyhow::Result<()> {
    let is_own_server = url.is_none();
    let url = match url {
        Some(url) => url,
        None => own_readiness(config)?,
    };
    let client = reqwest::Client::builder()
        .timeout(ANSWER_WAIT_MAX)
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        // The certificate is issued for the server's public name, but this request goes to an
        // address of this machine. It sends no secret and reads only the status, so an invalid
        // certificate does no harm.
        .tls_danger_accept_invalid_certs(is_own_server)
        .build()?;
    let response = client.get(url.clone()).send().await;
    let answer = response.with_context(|| format!("no answer from {url}"))?;
    let status = answer.status();
    ensure!(status == StatusCode::OK, "{url} answered {status}");
    Ok(())
}

/// The readiness URL of a server with these settings, as reachable from this machine.
fn own_readiness(config: &Config) -> anyhow::Result<Url> {
    let listen = match config.listen.parse::<SocketAddr>() {
        Ok(mut address) => {
            let reached = match address.ip() {
                IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
                IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
                ip => ip,
            };
            address.set_ip(reached);
            address.to_string()
        }
        // The host is a name.
        Err(_) => config.listen.clone(),
    };
    ensure!(
        !listen.ends_with(":0"),
        "--listen: port 0 means another port at each start: give --url"
    );
    let scheme = if config.tls_cert.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{listen}/readyz");
    Url::parse(&url).with_context(|| format!("--listen: {url} is not a url"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn healthcheck_uses_the_listen_address() {
        for (listen, is_tls, expected) in [
            ("127.0.0.1:8080", false, Some("http://127.0.0.1:8080/readyz")),
            ("0.0.0.0:8080", false, Some("http://127.0.0.1:8080/readyz")),
            ("[::]:8080", false, Some("http://[::1]:8080/readyz")),
            ("10.0.0.7:443", true, Some("https://10.0.0.7/readyz")),
            ("localhost:8443", true, Some("https://localhost:8443/readyz")),
            ("127.0.0.1:0", false, None),
            ("localhost:0", false, None),
            ("a b:80", false, None),
        ] {
            let tls = is_tls.then(|| "tls.pem".into());
            let config = Config {
                listen: listen.into(),
                tls_cert: tls.clone(),
                tls_key: tls,
                ..Config::default()
            };
            let url = own_readiness(&config).ok();
            assert_eq!(url.as_ref().map(Url::as_str), expected, "{listen}");
        }
    }
}
