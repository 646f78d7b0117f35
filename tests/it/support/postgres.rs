//! PostgreSQL databases for tests: each test gets its own, copied from a template that already has the schema.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::Path,
    thread,
};

use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, PgConnection, Row as _, migrate::Migrator,
    postgres::PgConnectOptions,
};
use tokio::sync::OnceCell;

/// The variable with the URL of the test server's superuser and a database on it.
pub(crate) const SERVER: &str = "RECAPD_TEST_POSTGRES";

/// The advisory lock under which test processes look for the template, or make it.
const TEMPLATE_LOCK: i64 = 0x7265_6361_7064;

/// A new database, with the schema or empty; dropped with this value, whoever is still connected.
pub(crate) struct Database {
    name: String,
    server: PgConnectOptions,
}

impl Database {
    /// A database with the current schema.
    pub(crate) async fn create() -> Self {
        static TEMPLATE: OnceCell<String> = OnceCell::const_new();
        let template = TEMPLATE.get_or_init(template).await;
        Self::from(template).await
    }

    pub(crate) async fn empty() -> Self {
        Self::from("template1").await
    }

    /// An empty database whose texts have that encoding. Uses libc's locales, since ICU's refuse other encodings than UTF-8.
    pub(crate) async fn encoded(encoding: &str) -> Self {
        let provider = "SELECT CASE WHEN current_setting('server_version_num')::integer >= 150000 \
                        THEN 'LOCALE_PROVIDER libc' ELSE '' END";
        let provider: String = sqlx::query(provider).fetch_one(&mut connect().await).await.unwrap().get(0);
        let options = format!("template0 ENCODING '{encoding}' LOCALE 'C' {provider}");
        Self::from(&options).await
    }

    async fn from(template: &str) -> Self {
        let server = server();
        let name = format!("recapd_test_{:016x}", fastrand::u64(..));
        let mut connection = server.connect().await.unwrap();
        execute(&mut connection, format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        connection.close().await.unwrap();
        let database = Self { name, server };
        // The default since PostgreSQL 15.
        let close = "REVOKE CREATE ON SCHEMA public FROM PUBLIC";
        execute(&mut database.connect().await, close).await;
        database
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn url(&self) -> String {
        self.options().to_url_lossy().into()
    }

    /// The configuration for a daemon: the URL without the password, and the password.
    pub(crate) fn address(&self) -> (String, String) {
        #[expect(clippy::disallowed_methods, reason = "a test's setting")]
        let server = std::env::var(SERVER).unwrap();
        let mut url = reqwest::Url::parse(&server).unwrap();
        let password = url.password().unwrap_or_default().to_owned();
        url.set_password(None).unwrap();
        url.set_path(&self.name);
        (url.into(), password)
    }

    /// Disconnects everyone, and refuses connections until [`Self::back`].
    pub(crate) async fn away(&self) {
        let mut server = connect().await;
        execute(&mut server, format!("ALTER DATABASE {} WITH ALLOW_CONNECTIONS false", self.name)).await;
        self.cut("").await;
    }

    pub(crate) async fn back(&self) {
        let sql = format!("ALTER DATABASE {} WITH ALLOW_CONNECTIONS true", self.name);
        execute(&mut connect().await, sql).await;
    }

    /// Terminates the connections of that application name; all if it is empty.
    pub(crate) async fn cut(&self, application: &str) {
        let sql = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND '{application}' IN ('', application_name)",
            self.name
        );
        execute(&mut connect().await, sql).await;
    }

    /// Opens a connection that bypasses the store.
    pub(crate) async fn connect(&self) -> PgConnection {
        self.options().connect().await.unwrap()
    }

    fn options(&self) -> PgConnectOptions {
        self.server.clone().database(&self.name)
    }
}

impl Drop for Database {
    /// On a thread with a runtime of its own: the test's runtime can't be waited for from within.
    fn drop(&mut self) {
        let (server, name) = (self.server.clone(), self.name.clone());
        let dropped = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let mut connection = server.connect().await.unwrap();
                execute(&mut connection, format!("DROP DATABASE {name} WITH (FORCE)")).await;
            });
        });
        if dropped.join().is_err() {
            eprintln!("test database {} is left behind", self.name);
        }
    }
}

/// The server that [`SERVER`] names, without a log of statements.
fn server() -> PgConnectOptions {
    #[expect(clippy::disallowed_methods, reason = "a test's setting")]
    let url = std::env::var(SERVER).unwrap_or_else(|_| {
        panic!("{SERVER} is not set: run `scripts/test`, or `scripts/with-postgres cargo test …`")
    });
    let options: PgConnectOptions =
        url.parse().unwrap_or_else(|error| panic!("{SERVER} is no URL of a PostgreSQL database: {error}"));
    options.disable_statement_logging()
}

/// Connects to the server's own database.
pub(crate) async fn connect() -> PgConnection {
    server().connect().await.unwrap()
}

/// Reads the schema's migrations from their files.
pub(crate) async fn migrations() -> Migrator {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations/postgres");
    Migrator::new(folder).await.unwrap()
}

/// Returns the name of the template with the current schema, and makes it if the server has none. If other processes
/// try the same, one makes it and the others wait. A half-made one is made again.
async fn template() -> String {
    let migrations = migrations().await;
    let mut hash = DefaultHasher::new();
    for migration in migrations.iter() {
        (migration.version, &migration.checksum).hash(&mut hash);
    }
    let name = format!("recapd_template_{:016x}", hash.finish());
    let mut server = connect().await;
    sqlx::query("SELECT pg_advisory_lock($1)").bind(TEMPLATE_LOCK).execute(&mut server).await.unwrap();
    if !exists(&mut server, &name).await {
        make_template(&mut server, &name, &migrations).await;
    }
    // Ends the session, and so releases the lock.
    server.close().await.unwrap();
    name
}

/// The rename is the last step, so that a database with that name is complete.
async fn make_template(server: &mut PgConnection, name: &str, migrations: &Migrator) {
    let draft = format!("{name}_draft");
    execute(server, format!("DROP DATABASE IF EXISTS {draft} WITH (FORCE)")).await;
    execute(server, format!("CREATE DATABASE {draft} TEMPLATE template1")).await;
    let mut connection = self::server().database(&draft).connect().await.unwrap();
    migrations.run(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    // A database with connections can't be copied.
    execute(server, format!("ALTER DATABASE {draft} WITH ALLOW_CONNECTIONS false")).await;
    execute(server, format!("ALTER DATABASE {draft} RENAME TO {name}")).await;
}

pub(crate) async fn exists(server: &mut PgConnection, name: &str) -> bool {
    let sql = "SELECT count(*) FROM pg_database WHERE datname = $1";
    let count: i64 = sqlx::query(sql).bind(name).fetch_one(server).await.unwrap().get(0);
    count > 0
}

/// Runs statements without parameters.
pub(crate) async fn execute(connection: &mut PgConnection, sql: impl Into<String>) {
    sqlx::raw_sql(AssertSqlSafe(sql.into())).execute(connection).await.unwrap();
}
