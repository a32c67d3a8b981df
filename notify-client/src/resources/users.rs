//! Users, with their devices and attributes.

use notify_core::{
    CreateUserToken, DeleteUser, PageQuery, PatchUser, User, UserId, UserList, UserToken,
};
use reqwest::Method;

use crate::{call::Call, handle::handle};

handle! {
    /// Users, with their devices and attributes. [`Devices::log_in`](crate::Devices::log_in) logs a device in
    /// as a user.
    Users from users;

    /// Reads a user with the devices on which the user is logged in: `GET /v1/users/:user_id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::UserId;
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let user = notify.users().get(&UserId::new("user-7")?).await?;
    /// println!("{} devices, {:?}", user.devices.len(), user.attributes.get("plan"));
    /// # Ok(())
    /// # }
    /// ```
    fn get(id: &UserId) -> User = Ok(Call::v1(Method::GET, &["users", id.as_str()]));

    /// Sets and removes attributes of a user, and returns the user: `PATCH /v1/users/:user_id`. The other
    /// attributes stay. The user is created if necessary.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the change breaks a rule; [`crate::Error::Rejected`] if the user
    /// would have more than 100 attributes.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{PatchAttributes, PatchUser, UserId};
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let attributes = PatchAttributes::default().set("plan", "pro").set("seats", 3).remove("trial");
    /// let change = PatchUser { attributes: Some(attributes) };
    /// let user = notify.users().update(&UserId::new("user-7")?, &change).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn update(id: &UserId, change: &PatchUser) -> User =
        Call::v1(Method::PATCH, &["users", id.as_str()]).body(change);

    /// Creates a token with which an app or a page logs its device in as this user:
    /// `POST /v1/users/:user_id/tokens`. The user is created if necessary. Call it for the user of your own
    /// session. The token is not stored, and ends with the user.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] if the life is not 60 to 86,400 seconds.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::{CreateUserToken, UserId};
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let user = UserId::new("user-7")?;
    /// let token = notify.users().create_token(&user, &CreateUserToken::default()).await?.user_token;
    /// # Ok(())
    /// # }
    /// ```
    fn create_token(id: &UserId, token: &CreateUserToken) -> UserToken =
        Call::v1(Method::POST, &["users", id.as_str(), "tokens"]).body(token);

    /// Erases a user, the user's devices and all data about them: `DELETE /v1/users/:user_id`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::UserId;
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// notify.users().delete(&UserId::new("user-7")?).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn delete(id: &UserId) -> () =
        Ok(Call::v1(Method::DELETE, &["users", id.as_str()]).discard_response());

    /// Erases a user, and only logs the user's devices out: `DELETE /v1/users/:user_id?devices=keep`.
    ///
    /// # Errors
    /// [`crate::Error::NotFound`] if the id is unknown.
    ///
    /// ```no_run
    /// # use notify_client::notify_core::UserId;
    /// # async fn example(notify: notify_client::Client) -> Result<(), Box<dyn std::error::Error>> {
    /// notify.users().delete_keeping_devices(&UserId::new("user-7")?).await?;
    /// # Ok(())
    /// # }
    /// ```
    fn delete_keeping_devices(id: &UserId) -> () =
        Call::v1(Method::DELETE, &["users", id.as_str()])
            .discard_response()
            .query(&DeleteUser { keep_devices: true });

    paged {
        /// One page of the users, oldest first: `GET /v1/users`.
        ///
        /// # Errors
        /// [`crate::Error::Invalid`] if `limit` is not 1 to 1,000.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// for user in notify.users().list(&Default::default()).await?.users {
        ///     println!("{}: {} devices", user.user_id, user.devices.len());
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn list;

        /// All users, starting with the page that the query selects.
        ///
        /// ```no_run
        /// # async fn example(notify: notify_client::Client) -> Result<(), notify_client::Error> {
        /// let mut all = notify.users().all(&Default::default());
        /// while let Some(user) = all.next().await {
        ///     println!("{}", user?.user_id);
        /// }
        /// # Ok(())
        /// # }
        /// ```
        fn all;

        (query: &PageQuery) -> UserList =
            Call::v1(Method::GET, &["users"]).query(query);
    }
}
