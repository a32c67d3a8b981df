//! HTTP/2 and HTTP/1.1 report the same failures of the egress proxy.

use bytes::Bytes;
use http::HeaderMap;
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::{TIME_LIMIT, body, request};
use crate::outbound::{EgressProxy, NoProxy, Outbound};
use crate::provider_config::BaseUrl;
use crate::providers::Processing;
use crate::providers::transport::{Http1, Pools, Protocols, RemoteTime};

#[tokio::test]
async fn failure_of_the_proxy_is_a_reason_that_names_it_unless_a_user_chose_the_peer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let url = format!("http://ada:geheim@{address}").parse().unwrap();
    let outbound = Outbound::new(true).through(Some(EgressProxy::new(url, NoProxy::default())));
    let pools = Pools::new(&outbound, &RemoteTime::default());
    let base_url = BaseUrl::parse("https://push.example").unwrap();
    let pool = pools.get(&base_url, "one".to_owned(), None, Protocols::Http2);
    let over_http2 = pool.send(request, body(), Instant::now() + TIME_LIMIT).await.unwrap_err();
    let http1 = Http1::new(pools.tls(), &None, pools.unguarded());
    let (url, deadline) = ("https://push.example/token", Instant::now() + TIME_LIMIT);
    let over_http1 = http1.post(url, HeaderMap::new(), Bytes::new(), deadline).await.unwrap_err();
    assert_eq!(over_http1, over_http2);
    let expected =
        format!("proxy_failed: the proxy {address} cannot be reached: connection refused");
    assert_eq!((&*over_http2.reason, over_http2.outcome), (&*expected, Processing::NotProcessed));
    assert_eq!(over_http2.redacted().reason, "proxy_failed");
}
