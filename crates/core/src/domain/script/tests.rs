use proptest::prelude::*;
use serde_json::json;

use super::*;

fn read(script: &str) -> Vec<(String, String)> {
    written_calls(script)
}

#[test]
fn calls_are_read_as_they_are_written() {
    let cases: [(&str, &[(&str, Value)]); 9] = [
        (
            r#"const r = await tools.exec_command({"cmd":"cargo test 2>&1 | tail","workdir":"/w","yield_time_ms":10000});
text(r.output);"#,
            &[(
                "exec_command",
                json!({"cmd": "cargo test 2>&1 | tail", "workdir": "/w", "yield_time_ms": 10000}),
            )],
        ),
        (
            "const patch = \"*** Begin Patch\\n*** Update File: a.rs\\n*** End Patch\";\ntext(await tools.apply_patch(patch));",
            &[("apply_patch", json!("*** Begin Patch\n*** Update File: a.rs\n*** End Patch"))],
        ),
        (
            "let p = String.raw`*** Begin Patch\n+let s = \"\\n\";`\nconst q = p.replace('a', 'b'); await tools.apply_patch(q)",
            &[("apply_patch", json!("*** Begin Patch\n+let s = \"\\n\";"))],
        ),
        (
            "const common={workdir:'/w',login:true}; // tools.none({})\nconst [a,b] = await Promise.all([tools.exec_command({...common,cmd:`ls ${dir}`}), tools.wait({cell: x(1, [2]), n: -3,},)]);",
            &[
                ("exec_command", json!({"workdir": "/w", "login": true, "cmd": "ls ${dir}"})),
                ("wait", json!({"n": -3})),
            ],
        ),
        (
            "const cmd = 'a' + \"b\"; tools.exec_command({cmd, more: [1, 'two', {three: null}]})",
            &[("exec_command", json!({"cmd": "ab", "more": [1, "two", {"three": null}]}))],
        ),
        ("text('tools.exec_command({})'); /* tools.a() */ tools.b(unknown)", &[("b", json!(""))]),
        (
            "tools . update_plan ( {plan:[{step:'\\u0041\\x42',status:\"done\"}]} )",
            &[("update_plan", json!({"plan": [{"step": "AB", "status": "done"}]}))],
        ),
        ("mytools.a({}); tools.b", &[]),
        ("tools.a({b: 'never ends", &[("a", json!({"b": "never ends"}))]),
    ];
    for (script, expected) in cases {
        let expected: Vec<(String, String)> =
            expected.iter().map(|(name, value)| ((*name).to_owned(), written(value.clone()))).collect();
        assert_eq!(read(script), expected, "{script}");
    }
}

#[test]
fn only_scripts_are_read() {
    let call_of = |name: &str, arguments: &str| Part::ToolCall {
        id: Some("c".to_owned()),
        name: name.to_owned(),
        arguments: arguments.to_owned(),
    };
    let call = |arguments: &str| call_of("exec", arguments);
    assert_eq!(calls(&call_of("apply_patch", "*** Begin Patch\n+tools.a({b: 1})")), []);
    assert_eq!(calls(&call(r#"{"cmd": "tools.a({})"}"#)), []);
    assert_eq!(calls(&call("*** Begin Patch")), []);
    assert_eq!(calls(&Part::Text("tools.a({})".to_owned())), []);
    let read = calls(&call("tools.a({b: 1})"));
    assert_eq!(
        read,
        [Part::ToolCall {
            id: Some("c".to_owned()),
            name: "a".to_owned(),
            arguments: r#"{"b":1}"#.to_owned()
        }]
    );
}

#[test]
fn the_output_of_a_script_has_no_header() {
    assert_eq!(output("Script completed\nWall time 0.1 seconds\nOutput:\n\nok"), "\nok");
    assert_eq!(output("Script failed\nWall time 0.1 seconds\nOutput:\nno"), "no");
    for other in ["Script running with cell ID 7\nWall time 1 seconds\nOutput:\n", "a\nOutput:\nb", ""] {
        assert_eq!(output(other), other);
    }
}

proptest! {
    #[test]
    fn any_script_is_read_to_its_end(script in r#"([a-c\[\]{}()"'`\\.,:+ /*\n-]|tools\.a\(|const |\.\.\.|é){0,60}"#) {
        prop_assert!(read(&script).len() <= CALLS_MAX);
    }
}
