//! `notify devices import` of an export of OneSignal, compared with an import of the same devices in the
//! server's own format. Each import begins with an empty database.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::paths::Paths;
use crate::proc::{Cost, Costs, OtherLoad, cpu_us, flush_p50, memory_kib};
use crate::scale::Scale;
use crate::seed::{is_android, registration, splitmix64};
use crate::servers::Server;
use crate::table::{Goal, Line, Section, grouped, median, spread};

/// How often the peak memory of the command is read. What it allocates after the last reading is missing.
const READ_INTERVAL: Duration = Duration::from_millis(20);

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Format {
    Native,
    OneSignal,
}

/// One import.
struct Import {
    /// The cost to the command.
    cost: Cost,
    /// The peak memory of the command in megabytes.
    peak: f64,
}

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths) -> anyhow::Result<Section> {
    let (many, few) = (scale.devices_many, scale.memory_few);
    let folder = paths.folder()?;
    let file = |format, rows| write_file(folder.path(), format, rows);
    let large = (file(Format::OneSignal, many)?, Format::OneSignal, many);
    let small = (file(Format::OneSignal, few)?, Format::OneSignal, few);
    let native = (file(Format::Native, scale.import_native)?, Format::Native, scale.import_native);
    let mut section = Section::default();
    let (mut figures, mut baselines) = (Costs::default(), Costs::default());
    let (mut peaks, mut peaks_of_few) = (Vec::new(), Vec::new());
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        let import = import(paths, &large)?;
        figures.0.push(import.cost);
        peaks.push(import.peak);
        baselines.0.push(self::import(paths, &native)?.cost);
        peaks_of_few.push(self::import(paths, &small)?.peak);
        section.other_load.push(other_load.share()?);
    }
    section.lines.push(Line {
        row: "import",
        what: format!("an export of OneSignal with {} rows", grouped(many as f64)),
        figure: figures.text(),
        baseline: format!("own format: {}", baselines.text()),
        ratio: figures.cpu_ratio(&baselines),
        goal: Goal::AtMost(1.5),
    });
    let growth: Vec<f64> = peaks.iter().zip(&peaks_of_few).map(|(many, few)| many - few).collect();
    section.lines.push(Line {
        row: "import",
        what: "peak memory of the command (VmHWM)".to_owned(),
        figure: spread(&peaks, "MB", 1),
        baseline: format!("{} rows: {}", grouped(few as f64), spread(&peaks_of_few, "MB", 1)),
        ratio: median(&growth),
        goal: Goal::MegabytesAtMost(64.0),
    });
    Ok(section)
}

/// Imports a file into a fresh server.
fn import(paths: &Paths, (file, format, rows): &(PathBuf, Format, u64)) -> anyhow::Result<Import> {
    let data = paths.folder()?;
    let (server, keys) = Server::start(paths, data.path())?;
    let keys = keys.context("a first start prints the keys")?;
    let mut command = Command::new(&paths.command);
    command.args(["-o", "json", "devices", "import", "--restart"]);
    if *format == Format::OneSignal {
        command.args(["--from", "onesignal"]);
    }
    command.arg(file).env("NOTIFY_URL", format!("http://{}", server.address));
    command.env("NOTIFY_API_KEY", &keys.api_key).env("HOME", data.path());
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let (mut peak_kib, mut cpu) = (0, 0);
    while child.try_wait()?.is_none() {
        // Both fail if the command has just ended.
        peak_kib = memory_kib(child.id(), "VmHWM").unwrap_or(peak_kib);
        cpu = cpu_us(child.id()).unwrap_or(cpu);
        std::thread::sleep(READ_INTERVAL);
    }
    let wall = started.elapsed();
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "the import failed: {}", output.status);
    let result: Value = serde_json::from_slice(&output.stdout)?;
    ensure!(result["devices"] == *rows, "every row becomes a device: {result}");
    server.stop()?;
    Ok(Import { cost: Cost { count: *rows, wall, cpu_us: cpu }, peak: peak_kib as f64 / 1_024.0 })
}

/// Writes a file with this number of devices, in the format of the server or as OneSignal exports them.
fn write_file(folder: &Path, format: Format, rows: u64) -> anyhow::Result<PathBuf> {
    let path = folder.join(format!("{format:?}-{rows}.csv"));
    let mut file = BufWriter::new(File::create(&path)?);
    let header = match format {
        Format::Native => {
            "device_id,push_token,platform,language,utc_offset,app_version,os_version,\
             device_description,user_id,country,attribute:level,attribute:plan"
        }
        Format::OneSignal => {
            "id,identifier,session_count,language,timezone,game_version,device_os,device_type,\
             device_model,ad_id,tags,last_active,playtime,amount_spent,created_at,\
             invalid_identifier,badge_count,external_user_id,notification_types,country"
        }
    };
    writeln!(file, "{header}")?;
    for number in 0..rows {
        let device = registration(number, 0);
        let (id, token) = (device.device_id, device.push_token.unwrap_or_default());
        let (version, level) = (device.app_version.unwrap_or_default(), splitmix64(number) % 100);
        let android = is_android(number);
        match format {
            Format::Native => {
                let platform = if android { "android" } else { "ios" };
                writeln!(
                    file,
                    "{id},{token},{platform},de,60,{version},14,Example Phone 9 Pro,u-{number},DE,\
                     \"\"\"{level}\"\"\",pro"
                )?;
            }
            Format::OneSignal => {
                let device_type = u8::from(android);
                writeln!(
                    file,
                    "{id},{token},7,de,3600,{version},14,{device_type},Example Phone 9 Pro,OptedOut,\
                     \"{{\"\"level\"\":\"\"{level}\"\",\"\"plan\"\":\"\"pro\"\"}}\",\
                     2024-05-01 10:11:12.313,1244,0,2022-11-30 07:08:09.014,f,0,u-{number},1,DE"
                )?;
            }
        }
    }
    file.flush()?;
    Ok(path)
}
