//! The Debian package, the Helm chart and the release contain what the repository has.

use std::fs;

use anyhow::{Context, Result, ensure};

use super::{read, root, values};

/// The version of the workspace.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Folders of files that a build makes.
const BUILT: [&str; 2] = ["target/release/", "../target/generated/"];

/// The files of the Debian package: each source with its destination and its mode.
fn assets() -> Vec<[String; 3]> {
    let manifest = read("notify-server/Cargo.toml");
    let (_, assets) = manifest.split_once("\nassets = [\n").expect("the package has files");
    let rows = assets.lines().take_while(|line| *line != "]");
    rows.map(|row| {
        let words: Vec<_> = row.split('"').skip(1).step_by(2).map(str::to_owned).collect();
        words.try_into().unwrap_or_else(|words| panic!("{words:?}"))
    })
    .collect()
}

#[test]
fn every_file_of_the_debian_package_exists() -> Result<()> {
    let assets = assets();
    ensure!(assets.len() >= 10, "{assets:?}");
    let script = read("scripts/dist.sh");
    for [source, _, mode] in &assets {
        ensure!(["755", "644", "600"].contains(&mode.as_str()), "{source}: {mode}");
        if let Some(built) = BUILT.iter().find_map(|folder| source.strip_prefix(folder)) {
            let stem = built.split('.').next().unwrap_or_default();
            ensure!(script.contains(stem), "scripts/dist.sh does not make {source}");
        } else {
            let path = root().join("notify-server").join(source);
            ensure!(path.is_file(), "{}", path.display());
        }
    }
    Ok(())
}

#[test]
fn the_debian_package_agrees_with_the_unit() -> Result<()> {
    let assets = assets();
    let to = |destination: &str| assets.iter().find(|asset| asset[1] == destination);
    let unit = read("deploy/systemd/notify.service");
    let (_, settings) = unit.split_once("EnvironmentFile=-/").context("the unit has settings")?;
    let settings = settings.lines().next().unwrap_or_default();
    let installed = to(settings).with_context(|| format!("not installed: {settings}"))?;
    ensure!(installed[2] == "600", "others can read the secrets: {installed:?}");
    let manifest = read("notify-server/Cargo.toml");
    ensure!(manifest.contains(&format!("conf-files = [\"/{settings}\"]")), "{settings}");
    // Until the operator has edited it, the file sets nothing.
    let example = read("deploy/debian/notify.env");
    ensure!(example.lines().all(|line| line.is_empty() || line.starts_with('#')), "{example}");

    let (_, document) = unit.split_once("Documentation=file:///").context("a document")?;
    let document = document.lines().next().unwrap_or_default();
    let (folder, name) = document.rsplit_once('/').context("a path")?;
    let source = to(&format!("{folder}/"));
    ensure!(source.is_some() && assets.iter().any(|asset| asset[0].ends_with(name)), "{document}");
    Ok(())
}

#[test]
fn the_chart_has_the_version_of_the_workspace() {
    for word in ["version:", "appVersion:"] {
        let found = values(word);
        assert_eq!(found, [("deploy/helm/notify/Chart.yaml".to_owned(), VERSION.to_owned())]);
    }
}

#[test]
fn the_workflows_use_the_toolchain_of_the_image() -> Result<()> {
    let dockerfile = read("Dockerfile");
    let image = dockerfile.lines().find_map(|line| line.strip_prefix("FROM rust:"));
    let image = image.and_then(|image| image.split(' ').next()).context("it builds")?;
    let (version, _) = image.split_once('-').context("a version and a Debian")?;
    let mut found = Vec::new();
    for entry in fs::read_dir(root().join(".github/workflows"))? {
        let path = entry?.path();
        for line in fs::read_to_string(&path)?.lines() {
            let line = line.trim();
            let image = line.strip_prefix("image: ").or_else(|| line.strip_prefix("container: "));
            let Some(toolchain) = image.and_then(|image| image.strip_prefix("rust:")) else {
                continue;
            };
            let name = path.file_name().context("a name")?.to_string_lossy().into_owned();
            ensure!(toolchain.split('-').next() == Some(version), "{name}: not {version}: {line}");
            found.push(name);
        }
    }
    for workflow in ["release.yml", "site.yml"] {
        ensure!(
            found.iter().any(|name| name == workflow),
            "{workflow} has no toolchain: {found:?}"
        );
    }
    Ok(())
}

#[test]
fn the_archive_has_the_files_that_operations_installs() -> Result<()> {
    let operations = read("docs/operations.md");
    let (_, section) = operations.split_once("\n### systemd\n").context("the section")?;
    let (_, commands) = section.split_once("```sh\n").context("commands")?;
    let (commands, _) = commands.split_once("```").context("their end")?;
    let sources: Vec<_> =
        commands.split_whitespace().filter(|word| word.starts_with("deploy/")).collect();
    ensure!(sources.len() == 2, "{sources:?}");
    let script = read("scripts/dist.sh");
    for source in sources {
        let (folder, _) = source.rsplit_once('/').context("a folder")?;
        let install = format!("install -m 0644 -t \"$content/{folder}\" {folder}/*");
        ensure!(root().join(source).is_file() && script.contains(&install), "{source}");
    }
    Ok(())
}

#[test]
fn the_changelog_of_debian_names_the_file_that_cargo_deb_compresses() {
    let destination = "usr/share/doc/notify-server/changelog";
    assert!(assets().iter().any(|asset| asset[1] == destination));
    assert!(read("scripts/dist.sh").contains("see changelog.gz in this folder"));
}

/// The licences in a list of a TOML file.
fn licences(path: &str, list: &str) -> Vec<String> {
    let text = read(path);
    let (_, rest) = text.split_once(list).unwrap_or_else(|| panic!("{path} has no {list}"));
    let rows = rest.lines().skip(1).take_while(|line| *line != "]");
    rows.filter_map(|row| row.split('"').nth(1)).map(str::to_owned).collect()
}

#[test]
fn a_release_accepts_the_licences_that_are_allowed() {
    let accepted = licences("deploy/third-party/about.toml", "accepted = [");
    assert!(accepted.contains(&"MIT".to_owned()), "{accepted:?}");
    assert_eq!(accepted, licences("deny.toml", "\nallow = ["));
}
