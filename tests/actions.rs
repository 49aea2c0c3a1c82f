//! Actions in process: one run, its limits, nested calls; typed functions.

#![allow(missing_docs)]

#[path = "actions/typed.rs"]
mod typed;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use a11_grpc::action::{
    ActionSchema, Call, Context, Event, Handlers, Inputs, Port, Registry, Run, Scope, handler,
    scope::MAX_DEPTH,
};
use a11_grpc::wire::{Chunk, Code, Headers, Reason, Status};
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::Instant;

struct Ran {
    status: Status,
    outputs: Vec<(String, String)>,
    log: String,
}

fn start_at(
    scope: &Scope,
    action: &str,
    arguments: &serde_json::Value,
    end: Option<Instant>,
) -> Run {
    let entry = scope.registry().entry(action).expect("registered");
    let values: Vec<(String, Box<RawValue>)> = arguments
        .as_object()
        .expect("an object")
        .iter()
        .map(|(name, value)| (name.clone(), to_raw_value(value).expect("JSON")))
        .collect();
    let values = values.iter().map(|(name, value)| (name.as_str(), &**value));
    let inputs = Inputs::from_arguments(entry.schema(), values).expect("fits");
    let headers = Headers::from_iter([("x-a11-trace", "t"), ("x-secret", "s"), ("x-tenant", "n")]);
    scope.start(Call { id: "c".into(), entry, inputs, headers, deadline: end }).expect("starts")
}

async fn finish(mut run: Run) -> Ran {
    let mut ran = Ran { status: Status::ok(), outputs: vec![], log: String::new() };
    while let Some(event) = run.next_event().await {
        match event {
            Event::Output(port, pieces) => {
                let port = run.schema().outputs()[port].name().to_owned();
                let chunks = pieces.iter().filter_map(|piece| piece.chunk());
                ran.outputs.extend(chunks.filter(|chunk| !chunk.is_null()).map(|chunk| {
                    (port.clone(), String::from_utf8_lossy(chunk.data()).into_owned())
                }));
            }
            Event::Log(entry) => ran.log.push_str(&entry.text),
            Event::Finished(status) => ran.status = status,
        }
    }
    ran
}

async fn run(registry: Registry, action: &str, arguments: serde_json::Value) -> Ran {
    finish(start_at(&Scope::root(Arc::new(registry)), action, &arguments, None)).await
}

fn action(name: &str) -> a11_grpc::action::schema::Builder {
    ActionSchema::builder(name)
}

#[tokio::test]
async fn a_panic_is_that_calls_internal_error() {
    let registry = Registry::new();
    let boom = handler(|_| async { panic!("the fuse blew") });
    registry.register(action("boom").build(), boom).expect("registers");
    let ran = run(registry, "boom", serde_json::json!({})).await;
    assert_eq!((ran.status.code, ran.status.reason), (Code::Internal, Reason::HandlerPanicked));
    assert!(ran.status.message.contains("the fuse blew"), "{}", ran.status);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_the_call_and_nested_calls_see_the_time_left() {
    let registry = Registry::new();
    let left = Arc::new(AtomicUsize::new(0));
    let after = Arc::new(AtomicUsize::new(0));
    let (seen, effects) = (left.clone(), after.clone());
    let inner = handler(move |context: Context| {
        let (seen, effects) = (seen.clone(), effects.clone());
        async move {
            let left = context.time_left().expect("a deadline");
            seen.store(left.as_millis() as usize, Ordering::Release);
            tokio::time::sleep(Duration::from_secs(10)).await;
            effects.fetch_add(1, Ordering::AcqRel);
            Ok(())
        }
    });
    registry.register(action("inner").build(), inner).expect("registers");
    let outer = handler(|context: Context| async move {
        context.write("words", "first").await?;
        tokio::time::sleep(Duration::from_millis(50)).await;
        context.call("inner").run().await?;
        Ok(())
    });
    let schema = action("outer").output(Port::text("words").stream());
    registry.register(schema.build(), outer).expect("registers");
    let scope = Scope::root(Arc::new(registry));
    let began = Instant::now();
    let end = Some(began + Duration::from_millis(200));
    let ran = finish(start_at(&scope, "outer", &serde_json::json!({}), end)).await;
    assert_eq!(began.elapsed().as_millis() / 10, 20);
    assert_eq!((ran.status.code, ran.status.reason), (Code::DeadlineExceeded, Reason::Deadline));
    assert_eq!(ran.outputs, [("words".to_owned(), "first".to_owned())]);
    assert_eq!(left.load(Ordering::Acquire), 150);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(after.load(Ordering::Acquire), 0, "an effect after the deadline");
}

#[tokio::test]
async fn dropping_a_run_drops_its_handler_and_nested_ones() {
    let registry = Registry::new();
    let wait = handler(|_| std::future::pending());
    registry.register(action("wait").build(), wait).expect("registers");
    let nest = handler(|context: Context| async move {
        context.log("nesting");
        context.call("wait").run().await.map(drop)
    });
    registry.register(action("nest").build(), nest).expect("registers");
    let handlers = Arc::new(Handlers::default());
    let scope = Scope::limited(Arc::new(registry), 64, handlers.clone());
    let mut run = start_at(&scope, "nest", &serde_json::json!({}), None);
    assert!(matches!(run.next_event().await, Some(Event::Log(_))));
    while handlers.running() < 2 {
        tokio::task::yield_now().await;
    }
    drop(run);
    while handlers.running() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_full_tree_of_waiting_calls_does_not_deadlock() {
    let registry = Registry::new();
    let most = Arc::new(AtomicUsize::new(0));
    let now = Arc::new(AtomicUsize::new(0));
    let (peak, running) = (most.clone(), now.clone());
    let leaf = handler(move |_| {
        let (peak, running) = (peak.clone(), running.clone());
        async move {
            peak.fetch_max(running.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
            tokio::task::yield_now().await;
            running.fetch_sub(1, Ordering::AcqRel);
            Ok(())
        }
    });
    registry.register(action("leaf").build(), leaf).expect("registers");
    let branch = handler(|context: Context| async move {
        let calls = (0..4).map(|_| context.call("leaf").run());
        futures::future::try_join_all(calls).await.map(drop)
    });
    registry.register(action("branch").build(), branch).expect("registers");
    let root = handler(|context: Context| async move {
        let calls = (0..8).map(|_| context.call("branch").run());
        futures::future::try_join_all(calls).await.map(drop)
    });
    registry.register(action("root").build(), root).expect("registers");
    let scope = Scope::limited(Arc::new(registry), 2, Arc::default());
    let ran = finish(start_at(&scope, "root", &serde_json::json!({}), None)).await;
    assert!(ran.status.is_ok(), "{}", ran.status);
    assert_eq!(most.load(Ordering::Acquire), 2, "as many at once as there are slots");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_place_again_hands_it_on_to_its_own_nested_call() {
    // How long the second nested call may take.
    let check = async |limit: Option<Duration>| {
        let registry = Registry::new();
        let sleeps = |seconds: u64| {
            handler(move |_: Context| async move {
                tokio::time::sleep(Duration::from_secs(seconds)).await;
                Ok(())
            })
        };
        registry.register(action("first").build(), sleeps(2)).expect("registers");
        registry.register(action("second").build(), sleeps(1)).expect("registers");
        registry.register(action("other").build(), sleeps(10)).expect("registers");
        let outer = handler(move |context: Context| async move {
            let second = async {
                // The first has ended then, and the other one has its place.
                tokio::time::sleep(Duration::from_secs(4)).await;
                let call = context.call("second");
                match limit {
                    Some(limit) => call.timeout(limit).run().await.map(drop),
                    None => call.run().await.map(drop),
                }
            };
            let (first, second) = tokio::join!(context.call("first").run(), second);
            first.and(second)
        });
        registry.register(action("outer").build(), outer).expect("registers");
        let scope = Scope::limited(Arc::new(registry), 1, Arc::default());
        let none = serde_json::json!({});
        let outer = start_at(&scope, "outer", &none, None);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let other = start_at(&scope, "other", &none, None);
        let both = async { tokio::join!(finish(outer), finish(other)) };
        let (outer, other) =
            tokio::time::timeout(Duration::from_secs(60), both).await.expect("both end");
        assert!(other.status.is_ok(), "{}", other.status);
        outer.status
    };
    let status = check(None).await;
    assert!(status.is_ok(), "{status}");
    // One that gives up before it had a place leaves none behind that is waited for.
    let status = check(Some(Duration::from_secs(1))).await;
    assert_eq!(status.reason, Reason::Deadline, "{status}");
}

#[tokio::test]
async fn endless_recursion_ends_with_an_error() {
    let registry = Registry::new();
    let depth = Arc::new(AtomicUsize::new(0));
    let deepest = depth.clone();
    let again = handler(move |context: Context| {
        deepest.fetch_add(1, Ordering::AcqRel);
        async move { context.call("again").run().await.map(drop) }
    });
    registry.register(action("again").build(), again).expect("registers");
    let ran = run(registry, "again", serde_json::json!({})).await;
    assert_eq!((ran.status.code, ran.status.reason), (Code::ResourceExhausted, Reason::TooDeep));
    assert_eq!(depth.load(Ordering::Acquire), MAX_DEPTH as usize);
}

#[tokio::test]
async fn only_headers_that_flow_or_are_declared_arrive() {
    let registry = Registry::new();
    let names = |context: &Context| {
        let names: Vec<String> =
            context.headers().iter().map(|(name, _)| name.to_owned()).collect();
        names.join(" ")
    };
    let inner =
        handler(
            move |context: Context| async move { context.write("names", &names(&context)).await },
        );
    let schema = action("inner").output(Port::text("names"));
    registry.register(schema.build(), inner).expect("registers");
    let outer = handler(move |context: Context| async move {
        context.write("own", &names(&context)).await?;
        let inner = context.call("inner").header("x-other", "o").run().await?;
        context.write("inner", &inner.value::<String>("names")?).await
    });
    let schema = action("outer")
        .header("X-Tenant", "who pays", None)
        .header("x-region", "where", Some("north".into()))
        .output(Port::text("own"))
        .output(Port::text("inner"));
    registry.register(schema.build(), outer).expect("registers");
    let ran = run(registry, "outer", serde_json::json!({})).await;
    assert_eq!(
        ran.outputs,
        [
            ("own".to_owned(), "x-a11-trace x-region x-tenant".to_owned()),
            ("inner".to_owned(), "x-a11-trace".to_owned()),
        ]
    );
}

#[tokio::test]
async fn a_nested_call_that_puts_out_more_than_is_wanted_is_stopped() {
    let check = async |most: Option<usize>, pieces: usize, expected: Option<&str>| {
        let registry = Registry::new();
        let pour = handler(move |context: Context| async move {
            for _ in 0..pieces {
                context.write_chunk("drops", Chunk::text("x".repeat(1 << 20))).await?;
            }
            Ok(())
        });
        let schema = action("pour").output(Port::text("drops").stream()).build();
        registry.register(schema, pour).expect("registers");
        let outer = handler(move |context: Context| async move {
            let call = context.call("pour");
            let call = match most {
                Some(most) => call.max_output_bytes(most),
                None => call,
            };
            call.run().await.map(drop)
        });
        registry.register(action("outer").build(), outer).expect("registers");
        let status = run(registry, "outer", serde_json::json!({})).await.status;
        match expected {
            None => assert!(status.is_ok(), "{status}"),
            Some(said) => {
                assert_eq!(status.reason, Reason::OutputTooLarge, "{status}");
                assert!(status.message.contains(said), "{status}");
            }
        }
    };
    check(None, 23, None).await;
    check(None, usize::MAX, Some("\"pour\" put out more than 25165824 bytes")).await;
    check(Some(3 << 20), 2, None).await;
    check(Some(3 << 20), 3, Some("more than 3145728 bytes")).await;
}

#[tokio::test]
async fn a_handler_that_breaks_its_schema_is_told_so() {
    let check = |write: &'static str, value: serde_json::Value, expected: &'static str| async move {
        let registry = Registry::new();
        let run_it = handler(move |context: Context| {
            let value = value.clone();
            async move { context.write(write, &value).await }
        });
        let schema = action("a").output(Port::text("text"));
        registry.register(schema.build(), run_it).expect("registers");
        let ran = run(registry, "a", serde_json::json!({})).await;
        assert_eq!(ran.status.reason, Reason::InvalidOutput);
        assert!(ran.status.message.contains(expected), "{}", ran.status);
    };
    check("nope", "x".into(), "has no output \"nope\"").await;
    check("text", 5.into(), "not a string").await;
}

#[tokio::test]
async fn an_output_of_another_kind_or_left_out_is_the_actions_fault() {
    let check = async |port: Port, chunk: Option<Chunk>, expected: Option<&str>| {
        let registry = Registry::new();
        let run_it = handler(move |context: Context| {
            let chunk = chunk.clone();
            async move {
                match chunk {
                    Some(chunk) => context.write_chunk("out", chunk).await,
                    None => Ok(()),
                }
            }
        });
        registry.register(action("a").output(port).build(), run_it).expect("registers");
        let status = run(registry, "a", serde_json::json!({})).await.status;
        match expected {
            None => assert!(status.is_ok(), "{status}"),
            Some(text) => {
                assert_eq!(status.reason, Reason::InvalidOutput, "{status}");
                assert!(status.message.contains(text), "{status}");
            }
        }
    };
    let text = || Port::text("out");
    let picture = || Some(Chunk::new("image/png", "x"));
    check(text(), picture(), Some("expected text/plain, got image/png")).await;
    check(Port::json("out"), picture(), Some("expected application/json")).await;
    check(Port::of("out", "image/jpeg"), picture(), None).await;
    check(text(), None, None).await;
    check(text().required(), None, Some("did not put out \"out\"")).await;
    check(text().required(), Some(Chunk::null()), Some("did not put out")).await;
    check(text().required(), Some(Chunk::text("")), None).await;
    check(text().required().stream(), None, None).await;
}

#[tokio::test]
async fn one_broken_action_hides_no_other() {
    let registry = Registry::new();
    registry.declare(action("count").build()).expect("is free");
    let broken = action("broken").input(Port::json("x").schema(r#"{"type":"nope"}"#));
    let error = registry.register(broken.build(), handler(|_| async { Ok(()) }));
    let error = error.expect_err("broken").to_string();
    assert!(error.contains("\"broken\"") && error.contains("\"x\""), "{error}");
    assert!(registry.declare(action("count").build()).is_err(), "taken");
    assert!(registry.declare(action("__list").build()).is_err(), "reserved");
    assert_eq!(registry.entries(None).len(), 1);
}

#[tokio::test]
async fn a_result_that_is_left_out_or_of_another_type_is_the_nested_actions_fault() {
    let check = async |port: &'static str, said: &'static str| {
        let registry = Registry::new();
        let inner = handler(|context: Context| async move { context.write("text", "x").await });
        let schema = action("inner").output(Port::text("text")).output(Port::text("other"));
        registry.register(schema.build(), inner).expect("registers");
        let outer = handler(move |context: Context| async move {
            context.call("inner").run().await?.value::<u32>(port).map(drop)
        });
        registry.register(action("outer").build(), outer).expect("registers");
        let status = run(registry, "outer", serde_json::json!({})).await.status;
        assert_eq!((status.code, status.reason), (Code::Internal, Reason::InvalidOutput));
        assert!(status.message.contains(said), "{status}");
    };
    check("text", "output \"text\"").await;
    check("other", "output \"other\"").await;
}
