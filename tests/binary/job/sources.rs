//! Several sources in one instance, each with its own tracker; one of them is down.

use super::world::{HEARTBEAT, Running, World, code, text};

/// Two projects of one service and a Server collection.
fn config(world: &World, addresses: &[String; 3]) {
    let [web, shop, server] = addresses;
    for folder in ["code", "billing"] {
        std::fs::create_dir_all(world.path().join(folder)).unwrap();
        std::fs::write(world.path().join(folder).join("total.rs"), "fn total() {}\n").unwrap();
    }
    let config = format!(
        "[source]\nproject = \"Parcel\"\nlook_back = \"3650d\"\n\
         [[sources]]\nname = \"web\"\nbase_url = \"{web}\"\n\
         [[sources]]\nname = \"shop\"\nbase_url = \"{shop}\"\n\
         [[sources]]\nname = \"server\"\nbase_url = \"{server}\"\ntoken_env = \"SERVER_PAT\"\n\
         repository = \"billing\"\n\
         [[rules]]\nname = \"web bugs\"\nsource = \"web\"\nitem_type = \"Bug\"\nmodel = \"opus\"\n\
         max_cost = 0.75\n\
         [[rules]]\nsource = \"shop\"\ntriage_only = true\n\
         [repository]\npath = \"code\"\n\
         [agent]\ncommand = [\"{HEARTBEAT}\", \"simulate\", \"agent\"]\n\
         [limits]\nmax_deep_per_run = 2\nmax_load_per_core = 1000.0\nmax_memory_pressure = 100.0\n"
    );
    std::fs::write(world.path().join("heartbeat.toml"), config).unwrap();
}

fn heartbeat(world: &World, args: &[&str]) -> (i32, String) {
    let mut command = world.heartbeat(args);
    command.env("AZURE_DEVOPS_PAT", "right").env("SERVER_PAT", "other");
    let output = command.output().unwrap();
    (code(&output), text(&output))
}

fn start(world: &World, args: &[&str]) -> (Running, String) {
    let simulator = Running::start(world.simulator(args));
    let address = simulator.first_line();
    (simulator, address)
}

#[test]
fn of_three_sources_one_is_down_and_the_others_share_one_triage() {
    let world = World::new(0);
    let (_web, web) = start(&world, &["--token", "right"]);
    let (_shop, shop) = start(&world, &["--token", "right"]);
    let server = ["--token", "other", "--collection", "tfs/DefaultCollection"];
    let down = [&server[..], &["--fault", "stopped503"]].concat();
    let (broken, address) = start(&world, &down);
    assert!(address.ends_with("/tfs/DefaultCollection"), "{address}");
    config(&world, &[web, shop, address]);

    let (code, told) = heartbeat(&world, &["--dry-run", "--json"]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("web bugs: model opus, at most $0.75"), "{told}");
    assert!(told.contains("rules[2]: triage only"), "{told}");

    let (code, told) = heartbeat(&world, &["--once"]);
    assert_eq!(code, 12, "{told}");
    assert!(told.contains("source \"server\""), "{told}");
    assert_eq!(world.figure("SELECT count(*) FROM sessions WHERE stage = 'triage'"), 1, "{told}");
    let known = |source: &str, more: &str| {
        world.figure(&format!(
            "SELECT count(*) FROM heartbeat_state WHERE key LIKE '{source}/%' {more}"
        ))
    };
    let (web, shop) = (known("web", ""), known("shop", ""));
    assert!(web > 10 && web == shop, "the same numbers, each with its own row: {web} and {shop}");
    assert_eq!(known("server", ""), 0);
    let own = "AND json_extract(verdict, '$.id') = item_id";
    assert!(known("web", own) > 10 && known("web", own) == known("shop", own), "{told}");
    let breaker = "SELECT json_extract(memory, '$.breaker.state.is') = 'open' FROM breaker WHERE source = 'server'";
    assert_eq!(world.figure(breaker), 1, "its breaker is open");
    let others =
        "SELECT count(*) FROM breaker WHERE json_extract(memory, '$.breaker.state.is') = 'closed'";
    assert_eq!(world.figure(others), 2);
    let deep = "SELECT count(*) FROM sessions WHERE stage = 'deep' AND item NOT LIKE 'web/%'";
    assert_eq!(world.figure(deep), 0, "a rule says that triage is enough for the shop");
    let models = "SELECT count(*) FROM findings WHERE model = 'opus'";
    assert!(world.figure(models) > 0, "a rule chose the model: {told}");

    let (_, told) = heartbeat(&world, &["status"]);
    assert!(told.contains("server: OPEN") && told.contains("retry --source server"), "{told}");
    let (code, told) = heartbeat(&world, &["show", "4111"]);
    assert_eq!(code, 2, "both have it: {told}");
    assert!(told.contains("shop/4111 or web/4111"), "{told}");
    let (code, told) = heartbeat(&world, &["show", "shop#4111"]);
    assert_eq!(code, 0, "{told}");
    assert!(told.contains("rule rules[2]: triage only"), "{told}");

    // It is repaired, and a user does not have to wait for the breaker.
    drop(broken);
    let (_server, address) = start(&world, &server);
    let file = world.path().join("heartbeat.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    let old = text.lines().find(|line| line.contains("DefaultCollection")).unwrap().to_owned();
    std::fs::write(&file, text.replace(&old, &format!("base_url = \"{address}\""))).unwrap();
    let (code, told) = heartbeat(&world, &["retry", "--source", "server"]);
    assert_eq!(code, 0, "{told}");
    let (code, told) = heartbeat(&world, &["--once"]);
    assert_eq!(code, 0, "{told}");
    assert_eq!(known("server", ""), web);
    let (code, told) = heartbeat(&world, &["doctor"]);
    assert!(told.contains("server: signed in to"), "{code} {told}");
}
