//! The database's location.

use std::path::Path;

use super::{
    super::{Environment, Loader},
    Pairs,
};

#[test]
fn the_default_database_is_in_the_state_folder() {
    let of = |environment: Pairs<'_>| environment.iter().copied().collect::<Environment>().state_folder();
    let home = ("HOME", "/home/me");
    for (environment, folder) in [
        (&[home][..], Some("/home/me/.local/state/recapd")),
        (&[home, ("XDG_STATE_HOME", "/state")], Some("/state/recapd")),
        (&[home, ("XDG_STATE_HOME", "state")], Some("/home/me/.local/state/recapd")),
        (&[("HOME", ".")], None),
        (&[], None),
    ] {
        assert_eq!(of(environment).as_deref(), folder.map(Path::new), "{environment:?}");
    }
    let url = |sets: &[&str], folder: Option<&str>| {
        let loader = Loader::new().state_folder(folder.map(Into::into));
        let loader = sets.iter().fold(loader, |loader, set| loader.set(*set));
        let database = loader.load().unwrap().config.database;
        (database.url, database.is_in_state_folder)
    };
    assert_eq!(url(&[], Some("/a b%")), ("sqlite:/a b%25/recapd.db".to_owned(), true));
    assert_eq!(url(&[], None), (String::new(), false));
    let named = ["database.url=sqlite:recapd.db"];
    assert_eq!(url(&named, Some("/a")), ("sqlite:recapd.db".to_owned(), false));
}
