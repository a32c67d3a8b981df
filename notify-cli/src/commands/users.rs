//! `notify users`.

use std::path::PathBuf;

use clap::Subcommand;
use notify_client::notify_core::{AttributeValue, CreateUserToken, PatchUser, UserId, pluralize};

use super::paging::{self, PageArgs};
use crate::{
    attribute::{self, RemoveArgs, value_help},
    confirm::{self, ConfirmArgs},
    failure::Failure,
    import::{self, FileOptions, Purpose},
    input,
    output::view,
    session::{Session, parse_caller_id},
};

/// `notify users`.
#[derive(Debug, Subcommand)]
pub(crate) enum Users {
    /// List users, oldest first.
    List(PageArgs),
    /// Show a user with the devices on which the user is logged in.
    #[command(alias = "show")]
    Get {
        /// Its id.
        user_id: String,
    },
    /// Set and remove attributes of a user, and show the user. The user is created if necessary; other
    /// attributes stay.
    #[command(after_help = SET_HELP)]
    Set {
        /// Its id, of your choice.
        user_id: String,
        /// Attributes to set.
        #[arg(value_name = "NAME=VALUE", value_parser = attribute::parse_pair)]
        attributes: Vec<(String, AttributeValue)>,
        /// Set this attribute; repeatable. NAME=VALUE alone does the same.
        #[arg(
            long = "attribute", value_name = "NAME=VALUE", value_parser = attribute::parse_pair,
            hide = true,
        )]
        more: Vec<(String, AttributeValue)>,
        #[command(flatten)]
        remove: RemoveArgs,
    },
    /// Create a token with which an app or a page logs its device in as the user, and print it. The user is
    /// created if necessary.
    Token {
        /// Its id.
        user_id: String,
        /// How long the token is valid, such as `10m`; from `1m` to `1d` (default: one hour).
        #[arg(long, value_name = "SPAN", value_parser = input::span_seconds)]
        ttl: Option<u32>,
    },
    /// Erase a user, the user's devices and all data about them.
    Delete {
        /// Its id.
        user_id: String,
        /// Keep the devices, and only log them out.
        #[arg(long)]
        keep_devices: bool,
        #[command(flatten)]
        confirm: ConfirmArgs,
    },
    /// Create the users of a file, or change their attributes if they exist. Other attributes stay.
    #[command(after_help = IMPORT_HELP)]
    Import {
        /// CSV, NDJSON, or the JSON of a listing; `-` for standard input.
        file: PathBuf,
        #[command(flatten)]
        options: FileOptions,
    },
}

const IMPORT_HELP: &str = "\
CSV files begin with a header that has the column `user_id` in any spelling (`User ID`); commas,
semicolons, tabs or `|` separate the cells. NDJSON files have one user a line. Output of `notify
users list`, as JSON or CSV, is accepted too. UTF-16 files need a byte-order mark.

A column or member `attribute:NAME` sets that attribute of the user. An empty cell or null leaves it
as it is. A cell is true or false, a number, or else a text; double quotes that are part of the cell
make it a text. Put versions in such quotes: `3.10` is the number 3.1. `attributes` is a JSON object
with several attributes, in which null removes one. A row without attributes creates its user.

Other fields of a device and read-only fields of a user are ignored. In a file of devices, the
attributes are set for the user of each device, and rows without a user are refused. Rows of the
same user are executed in the order of the file. The state file and refused rows work as in `notify
devices import`.";

const SET_HELP: &str = concat!(
    value_help!(),
    ":
  notify users set user-7 plan=pro seats=3 'zip=\"10115\"' --remove trial"
);

/// Runs the command.
pub(crate) async fn run(command: Users, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    let users = notify.users();
    match command {
        Users::List(page) => {
            let query = page.query();
            let (first, all) = (users.list(&query), users.all(&query));
            paging::show(page.all, first, all, session, &view::USERS).await
        }
        Users::Get { user_id } => {
            let user = users.get(&parse_user_id(&user_id)?).await;
            let user = user.map_err(Failure::unknown_id("user", &user_id))?;
            session.out.show(&user, &view::USER)
        }
        Users::Set { user_id, mut attributes, more, remove } => {
            attributes.extend(more);
            let changes = attribute::changes(attributes, remove)?;
            let attributes = Some(changes).filter(|changes| !changes.0.is_empty());
            let user = users.update(&parse_user_id(&user_id)?, &PatchUser { attributes }).await?;
            session.out.show(&user, &view::USER)
        }
        Users::Token { user_id, ttl: ttl_seconds } => {
            let id = parse_user_id(&user_id)?;
            let token = users.create_token(&id, &CreateUserToken { ttl_seconds }).await?;
            session.out.show(&token, &view::USER_TOKEN)
        }
        Users::Delete { user_id, keep_devices, confirm } => {
            let id = parse_user_id(&user_id)?;
            if confirm.is_required()? {
                let user = users.get(&id).await.map_err(Failure::unknown_id("user", &id))?;
                let devices = pluralize(user.devices.len(), "device");
                confirm::ask(&if keep_devices {
                    format!(
                        "Erase the user `{id}` with all attributes? The user is logged out of \
                         {devices}. This cannot be undone."
                    )
                } else {
                    format!(
                        "Erase the user `{id}` with {devices} and all data about them? This cannot \
                         be undone."
                    )
                })?;
            }
            let result = if keep_devices {
                users.delete_keeping_devices(&id).await
            } else {
                users.delete(&id).await
            };
            result.map_err(Failure::unknown_id("user", &id))?;
            session.out.done()
        }
        Users::Import { file, options } => {
            import::run(&file, options, Purpose::UpdateUser, session).await
        }
    }
}

/// Parses the id of a user.
pub(super) fn parse_user_id(text: &str) -> Result<UserId, Failure> {
    parse_caller_id("user_id", text, UserId::new)
}
