//! The folder of the files.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use super::{Campaign, FileFormat, text};
use crate::{failure::Failure, input};

/// Longest file name without its ending, in characters.
const NAME_CHARS_MAX: usize = 60;

/// A campaign and the file that holds it.
pub(crate) struct Local {
    pub(crate) file: String,
    pub(crate) campaign: Campaign,
}

/// The files of a folder, read.
pub(crate) struct Folder {
    path: PathBuf,
    pub(crate) campaigns: Vec<Local>,
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    New,
    Changed,
    Unchanged,
}

impl Folder {
    /// Reads every file; everything that is wrong, with file and field.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let mut files = Vec::new();
        for entry in fs::read_dir(path).map_err(Failure::file(path))? {
            let entry = entry.map_err(Failure::file(path))?;
            if entry.path().is_file() {
                files.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        files.sort_unstable();
        let (mut campaigns, mut wrong) = (Vec::new(), Vec::new());
        for file in files {
            let format = match Path::new(&file).extension().and_then(|ending| ending.to_str()) {
                Some("toml") => FileFormat::Toml,
                Some("json") => FileFormat::Json,
                Some("yaml" | "yml") => {
                    wrong.push(format!("{file}: YAML is not read: write TOML or JSON"));
                    continue;
                }
                Some(_) | None => continue,
            };
            let bytes = input::read(&path.join(&file))?;
            let fields = String::from_utf8(bytes)
                .map_err(|_| "is not UTF-8".to_owned())
                .and_then(|text| text::read(&text, format));
            match fields.map_err(|error| vec![error]).and_then(Campaign::parse) {
                Ok(campaign) => campaigns.push(Local { file, campaign }),
                Err(rules) => wrong.extend(rules.iter().map(|rule| format!("{file}: {rule}"))),
            }
        }
        wrong.extend(clashes(&campaigns));
        if wrong.is_empty() {
            Ok(Self { path: path.to_owned(), campaigns })
        } else {
            Err(Failure::Files(wrong))
        }
    }

    /// Writes a campaign: to the file that holds one of its name, else to a new one.
    pub(crate) fn write(
        &mut self,
        campaign: &Campaign,
        format: FileFormat,
    ) -> Result<(String, Written), Failure> {
        let known = self.campaigns.iter().find(|local| local.campaign.name == campaign.name);
        if let Some(known) = known
            && known.campaign == *campaign
        {
            return Ok((known.file.clone(), Written::Unchanged));
        }
        let (file, written) = match known {
            Some(known) => (known.file.clone(), Written::Changed),
            None => (self.free_name(&campaign.name, format), Written::New),
        };
        let format = if file.ends_with(".json") { FileFormat::Json } else { FileFormat::Toml };
        let text = text::write(campaign, format)
            .map_err(|error| Failure::Files(vec![format!("{file}: {error}")]))?;
        let path = self.path.join(&file);
        fs::write(&path, text).map_err(Failure::file(&path))?;
        if written == Written::New {
            let campaign = campaign.clone();
            self.campaigns.push(Local { file: file.clone(), campaign });
        }
        Ok((file, written))
    }

    /// A name that no file of the folder has. It is in small letters, and that of a file that differs in
    /// its letter case alone is the same where the file system says so.
    fn free_name(&self, name: &str, format: FileFormat) -> String {
        let slug = slug(name);
        let names = (1..).map(|number| match number {
            1 => format!("{slug}.{}", format.extension()),
            number => format!("{slug}-{number}.{}", format.extension()),
        });
        let mut names = names.filter(|name| !self.path.join(name).exists());
        names.next().expect("numbers do not end")
    }
}

/// Letters and digits of a name, with dashes for the rest.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for character in name.chars().take(NAME_CHARS_MAX) {
        if character.is_ascii_alphanumeric() {
            slug.push(character.to_ascii_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    let slug = slug.trim_end_matches('-');
    if slug.is_empty() { "campaign".to_owned() } else { slug.to_owned() }
}

/// What files say against each other.
fn clashes(campaigns: &[Local]) -> Vec<String> {
    let mut by_name = BTreeMap::<&str, &str>::new();
    let mut wrong = Vec::new();
    for local in campaigns {
        let name = local.campaign.name.as_str();
        if let Some(other) = by_name.insert(name, &local.file) {
            wrong.push(format!("{}: name: `{name}` is that of {other} too", local.file));
        }
    }
    let defaults = campaigns.iter().filter(|local| local.campaign.is_default);
    let defaults: BTreeSet<&str> = defaults.map(|local| local.file.as_str()).collect();
    if defaults.len() > 1 {
        let files = defaults.into_iter().collect::<Vec<_>>().join(", ");
        wrong
            .push(format!("is_default: at most one campaign is the default, not those of {files}"));
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_name_that_every_system_takes() {
        for (name, expected) in [
            ("Spring Sale 2026", "spring-sale-2026"),
            ("../../etc/passwd", "etc-passwd"),
            ("Größe & Preis!", "gr-e-preis"),
            ("שלום", "campaign"),
            ("", "campaign"),
        ] {
            assert_eq!(slug(name), expected, "{name}");
        }
        assert_eq!(slug(&"x".repeat(300)).len(), NAME_CHARS_MAX);
    }
}
