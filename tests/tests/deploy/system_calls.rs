//! The systemd unit forbids system calls, and the server must not need a forbidden one. Without this test, a
//! filter that is too narrow would fail only under systemd.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use notify_client::Client;
use notify_core::{CreateNotification, Platform};
use notify_sandbox::ScriptedResponse;
use notify_tests::{
    Launch, android, completed, configure_providers, register, start_sandbox, until,
};

use super::read;

/// The groups of system calls that systemd knows.
fn groups() -> Result<BTreeMap<String, Vec<String>>> {
    let listed = Command::new("systemd-analyze").arg("syscall-filter").output();
    let listed = listed.context("systemd-analyze is needed: Debian's package systemd")?;
    let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut current = None;
    for line in String::from_utf8(listed.stdout)?.lines() {
        if line.starts_with('@') {
            current = Some(line.trim().to_owned());
        } else if line.starts_with("    ") && !line.trim().starts_with('#') {
            let group = current.clone().context("a group has a name")?;
            groups.entry(group).or_default().push(line.trim().to_owned());
        }
    }
    Ok(groups)
}

/// The system calls in a list of groups and names.
fn expand(words: &[String], groups: &BTreeMap<String, Vec<String>>) -> BTreeSet<String> {
    let mut calls = BTreeSet::new();
    for word in words {
        match groups.get(word) {
            Some(members) => calls.extend(expand(members, groups)),
            None => drop(calls.insert(word.clone())),
        }
    }
    calls
}

/// The system calls that the unit allows.
fn allowed() -> Result<BTreeSet<String>> {
    let groups = groups()?;
    // Every filter of allowed calls includes these.
    let mut allowed = expand(&["@default".to_owned()], &groups);
    let unit = read("deploy/systemd/notify.service");
    for filter in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        match filter.strip_prefix('~') {
            Some(forbidden) => {
                for call in expand(&words(forbidden), &groups) {
                    allowed.remove(&call);
                }
            }
            None => allowed.extend(expand(&words(filter), &groups)),
        }
    }
    ensure!(allowed.contains("epoll_wait") && !allowed.contains("mount"), "{allowed:?}");
    Ok(allowed)
}

/// The calls in a summary of `strace -c`; `None` while the summary is incomplete.
fn calls(summary: &str) -> Option<BTreeSet<String>> {
    let rows = summary.lines().skip_while(|line| !line.starts_with("------")).skip(1);
    let rows: Vec<_> = rows.take_while(|line| !line.starts_with("------")).collect();
    summary.lines().last()?.ends_with("total").then_some(())?;
    Some(rows.iter().filter_map(|row| Some(row.split_whitespace().last()?.to_owned())).collect())
}

#[tokio::test]
async fn the_unit_allows_every_system_call_that_the_server_makes() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let summary = folder.path().join("calls");
    let file = summary.to_str().context("UTF-8")?;
    // With -D, strace is a separate process, and the test's child is the server itself.
    let tracer = ["strace", "-D", "-f", "-c", "-qq", "-o", file];
    let data = folder.path().join("data");
    let server = Launch::on(&data).within(tracer).start().await?;
    let keys = server.api_key.clone().zip(server.admin_key.clone());
    let (api_key, admin_key) = keys.context("a first start shows keys")?;
    let client = Client::builder(&server.origin).api_key(api_key).admin_key(admin_key).build()?;
    let sandbox = start_sandbox().await?;
    configure_providers(&client, &sandbox).await?;
    register(&client, [android(1, &ScriptedResponse::ok())]).await?;
    let hello = CreateNotification::to_platforms([Platform::Android], "hello");
    let created = client.notifications().create(&hello).await?;
    completed(&client, &created.id).await?;
    ensure!(server.terminate().await?.success());
    sandbox.stop().await;

    let made = until("strace has written", async || {
        Ok(calls(&fs::read_to_string(&summary).unwrap_or_default()))
    });
    let made = made.await?;
    ensure!(made.contains("accept4") && made.contains("fsync"), "{made:?}");
    let allowed = allowed()?;
    // What starts the binary is systemd's, before the filter; what SQLite makes is given the
    // owner of its database where root runs it, as here perhaps.
    let others = ["execve", "fchown"];
    let refused = made.difference(&allowed).filter(|call| !others.contains(&call.as_str()));
    let refused: Vec<_> = refused.collect();
    ensure!(refused.is_empty(), "the unit forbids {refused:?}");
    Ok(())
}
